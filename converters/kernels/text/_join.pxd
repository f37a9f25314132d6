from ..array_types cimport I64, ConstI64, ConstU8, U8
from ..raw_text cimport copy_bytes
