from ._fres cimport decode_one
from ._reads cimport Reader
