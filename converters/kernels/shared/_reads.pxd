cimport cython

from ..array_types cimport ConstU8, U64
@cython.final
cdef class Reader:
    cdef ConstU8 data
    cdef ConstU8 sizes
    cdef U64 bases
    cdef unsigned long long address
    cdef public long long offset
    cdef long long end
    cdef int big
    cdef public int fault
    cdef int was_zero

    cdef unsigned long long fixed(self, int size) noexcept nogil
    cdef unsigned long long uleb(self) noexcept nogil
    cdef long long sleb(self) noexcept nogil
    cdef unsigned long long pointer(self, int encoding, int address_size) noexcept nogil
