from ._reads cimport fixed, sleb, uleb

cdef unsigned long long pointer(
    const unsigned char[::1] data,
    long long[::1] cursor,
    long long end,
    int encoding,
    const unsigned char[::1] sizes,
    int address_size,
    int big,
    unsigned long long[::1] bases,
) noexcept
