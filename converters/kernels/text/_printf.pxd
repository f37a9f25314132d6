from ..array_types cimport ConstI64, ConstU64_2D, ConstU8, U8
