from ._fres cimport decode_one
from ..shared._reads cimport Reader
