cimport cython

from ..array_types cimport ConstI64, ConstU8, ConstU32, ConstU64, I64, U8, U64
from ._fres cimport Segments


@cython.final
cdef class Functions:
    cdef ConstI64 index
    cdef ConstU64 start
    cdef ConstU64 size
    cdef ConstU32 run
    cdef ConstU8 reason


@cython.final
cdef class Ranges:
    cdef I64 function
    cdef I64 segment
    cdef U64 start
    cdef U64 size
    cdef U8 reason
    cdef public long long count

    cdef void add(
        self, long long function, long long segment, unsigned long long start, unsigned long long size, int reason
    ) noexcept nogil
