from ..array_types cimport ConstU64, U8
from ..shared._reads cimport Reader
from ._fres cimport Blocks, Fres
