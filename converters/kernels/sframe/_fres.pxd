cimport cython

from ..array_types cimport ConstI32_2D, ConstI64, ConstU64, ConstU8, I32_2D, I64, U64, U8
from ..shared._reads cimport Reader


@cython.final
cdef class FreRows:
    cdef ConstU64 offset
    cdef ConstU8 reason
    cdef ConstU8 info
    cdef ConstI32_2D words

    cdef int same(self, long long row, long long other) noexcept nogil
    cdef long long size(self, long long row) noexcept nogil


@cython.final
cdef class Segments:
    cdef I64 first
    cdef U8 reason
    cdef U64 start
    cdef I64 fres
    cdef I64 size
    cdef I64 rows

    cdef void begin(self, long long number, int reason, unsigned long long start, long long fres) noexcept nogil
    cdef long long first_fre(self, long long number) noexcept nogil


@cython.final
cdef class Blocks:
    cdef ConstI64 offset
    cdef ConstI64 count
    cdef ConstU8 start_size
    cdef ConstU8 most


@cython.final
cdef class Fres:
    cdef U64 start
    cdef U8 info
    cdef I32_2D words

    cdef void copy(self, long long source, long long to) noexcept nogil
    cdef void read(self, Reader reader, int start_size, int minimum, int most, long long index) noexcept nogil
