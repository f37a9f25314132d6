from ..array_types cimport ConstI64, ConstU64, ConstU8, U8
from ..raw_text cimport copy_bytes, write_digits
