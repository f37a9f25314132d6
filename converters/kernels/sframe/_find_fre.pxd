from ..array_types cimport ConstI64, ConstU64, ConstU8, I32_2D, U64, U8
from ._fres cimport decode_one
from ..shared._reads cimport Reader
