from ..array_types cimport I64, ConstI64, ConstU8, U8
