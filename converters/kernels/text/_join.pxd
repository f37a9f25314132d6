from ..array_types cimport ConstI64, ConstU8, U8
