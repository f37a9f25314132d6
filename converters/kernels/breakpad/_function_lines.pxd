cimport cython

from ..array_types cimport ConstI64, ConstU16, ConstU32, ConstU64, ConstU8, I64, U8
from ..text._writer cimport TextWriter


@cython.final
cdef class Functions:
    cdef ConstU64 address
    cdef ConstU64 size
    cdef ConstU8 m
    cdef ConstI64 name
    cdef ConstI64 first_inline
    cdef ConstI64 first_line


@cython.final
cdef class Inlines:
    cdef ConstU16 level
    cdef ConstU32 call_line
    cdef ConstI64 call_file
    cdef ConstI64 origin
    cdef ConstI64 first_range
    cdef ConstU64 start
    cdef ConstU64 size


@cython.final
cdef class Lines:
    cdef ConstU64 address
    cdef ConstU32 size
    cdef ConstU32 number
    cdef ConstU32 file
    cdef ConstI64 path_of
    cdef long long index
    cdef unsigned long long low
    cdef unsigned long long high
    cdef unsigned long long start
    cdef unsigned long long end
    cdef unsigned long long line
    cdef long long path

    cdef void begin(self, long long index, unsigned long long low, unsigned long long high) noexcept nogil
    cdef int next(self) noexcept nogil
