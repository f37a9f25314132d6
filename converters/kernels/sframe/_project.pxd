from ..array_types cimport ConstI64, ConstU16, ConstU8, I32_2D, U8
