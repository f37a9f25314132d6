from ._reads cimport fixed, sleb, uleb

cdef long long operand(
    const unsigned char[::1] data,
    long long[::1] cursor,
    long long end,
    int big,
    int kind,
    int byte,
    long long code_factor,
    long long data_factor,
) noexcept
