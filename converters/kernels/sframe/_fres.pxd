from ..shared._reads cimport Reader

cdef void decode_one(
    Reader reader, int start_size, int least, long long at, unsigned long long[::1] start, unsigned char[::1] info,
    int[:, ::1] words
) noexcept
