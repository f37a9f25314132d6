cdef class Sharing:
    cdef const long long[::1] segment
    cdef const long long[::1] group
    cdef const unsigned long long[::1] offset
    cdef const unsigned char[::1] info
    cdef const int[:, ::1] words
    cdef const unsigned long long[::1] segment_start
    cdef const long long[::1] segment_fres
    cdef const long long[::1] fres
    cdef const unsigned long long[::1] keys
    cdef unsigned int[::1] hashes
    cdef int[::1] slots
    cdef unsigned char[::1] marks
    cdef long long[::1] host

    cdef void hash_segments(self) noexcept
    cdef long long first(self, long long block) noexcept
    cdef int begins_with(self, long long block, long long other, long long count) noexcept
    cdef long long find(self, long long block, long long count) noexcept
    cpdef void share(self, int beginnings)
