from ..array_types cimport ConstI64, ConstU16, ConstU64, ConstU8, I32, I64, U32, U64
