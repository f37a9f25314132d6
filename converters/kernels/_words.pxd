cdef long long put_word(
    const unsigned char[::1] words, long long start, long long size, unsigned char[::1] out, long long at
) noexcept
