from ..array_types cimport ConstI64, ConstU64_2D, ConstU8, U8
from ..raw_text cimport copy_bytes, decimal_digits, hexadecimal_digits, write_decimal, write_digits
