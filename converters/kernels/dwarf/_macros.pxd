from ..array_types cimport ConstU8, ConstU8_3D, I64, I64_2D, U16, U64, U8
from ..shared._reads cimport Reader
from ..shared._values cimport stored_value
