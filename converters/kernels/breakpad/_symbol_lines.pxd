from ..array_types cimport ConstI64, ConstU64_2D, ConstU8, I64, I64_2D, U64, U64_2D, U8
