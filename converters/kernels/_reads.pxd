cdef unsigned long long fixed(const unsigned char[::1] data, long long[::1] cursor, long long end, int size, int big) noexcept
cdef unsigned long long uleb(const unsigned char[::1] data, long long[::1] cursor, long long end) noexcept
cdef long long sleb(const unsigned char[::1] data, long long[::1] cursor, long long end) noexcept
