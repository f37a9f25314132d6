from ..array_types cimport ConstI64, ConstU64, ConstU8, I64, U8
