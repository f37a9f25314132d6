from ..array_types cimport ConstI64, ConstU64, ConstU8, ConstU8_2D, I64, U64, U8
from ._operands cimport operand
from ..shared._reads cimport Reader
