cimport cython

from ..array_types cimport ConstI64, ConstU64, I32, I64, U32, U8
from ._fres cimport FreRows, Segments

@cython.final
cdef class Sharing:
    cdef FreRows rows
    cdef Segments segments
    cdef ConstI64 segment
    cdef ConstI64 group
    cdef ConstU64 keys
    cdef U32 hashes
    cdef I32 slots
    cdef U8 marks
    cdef I64 host

    cpdef void hash_segments(self, FreRows rows, long long begin, long long end) noexcept
    cdef long long first(self, long long block) noexcept nogil
    cdef int begins_with(self, FreRows rows, long long block, long long other, long long count) noexcept nogil
    cdef long long find(self, long long block, long long count) noexcept nogil
    cpdef void share(self, int prefixes) noexcept
