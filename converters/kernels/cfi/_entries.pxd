from ..array_types cimport ConstI64, ConstU8, I64, U64, U8
from ..shared._reads cimport Reader
