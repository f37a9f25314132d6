from ..array_types cimport ConstI64, ConstU64, I64, U8
