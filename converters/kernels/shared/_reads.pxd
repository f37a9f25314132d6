cdef class Reader:
    cdef const unsigned char[::1] data
    cdef const unsigned char[::1] sizes
    cdef unsigned long long[::1] bases
    cdef unsigned long long address
    cdef public long long offset
    cdef long long end
    cdef int big
    cdef public int fault
    cdef int was_zero

    cdef unsigned long long fixed(self, int size) noexcept
    cdef unsigned long long uleb(self) noexcept
    cdef long long sleb(self) noexcept
    cdef unsigned long long pointer(self, int encoding, int address_size) noexcept
