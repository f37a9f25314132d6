from ..array_types cimport ConstI32_2D, ConstI64, ConstU64, ConstU8, I32_2D, I64, U64, U8
from ..shared._reads cimport Reader

cdef void decode_one(
    Reader reader, int start_size, int least, long long at, U64 start, U8 info,
    I32_2D words
) noexcept
