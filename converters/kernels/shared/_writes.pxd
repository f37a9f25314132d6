from ..array_types cimport U8
cdef long long uleb_size(unsigned long long value) noexcept nogil
cdef long long sleb_size(long long value) noexcept nogil


cdef class Writer:
    cdef U8 out
    cdef int big
    cdef long long limit
    cdef public long long at

    cpdef void write_to(self, U8 out) noexcept
    cdef void put(self, int byte) noexcept nogil
    cdef void put_uleb(self, unsigned long long value) noexcept nogil
    cdef void put_sleb(self, long long value) noexcept nogil
    cdef void put_fixed(self, unsigned long long value, int size) noexcept nogil
