cimport cython

from ..array_types cimport ConstI64, ConstU64, ConstU8, I64, U64
from ..shared._reads cimport Reader


@cython.final
cdef class Lists:
    cdef ConstI64 place
    cdef ConstU64 base
    cdef ConstU8 address_size
    cdef ConstI64 addresses
    cdef int is_new


@cython.final
cdef class Ranges:
    cdef I64 owner
    cdef U64 start
    cdef U64 end
    cdef long long limit
    cdef public long long count

    cdef void put(self, Reader reader, long long owner, unsigned long long start, unsigned long long end, unsigned long long top) noexcept nogil
    cdef unsigned long long address(self, Reader reader, Reader addresses, Lists lists, long long owner) noexcept nogil
    cdef void read_old(self, Reader reader, Lists lists, long long owner, unsigned long long top) noexcept nogil
    cdef void read_new(self, Reader reader, Reader addresses, Lists lists, long long owner, unsigned long long top) noexcept nogil
