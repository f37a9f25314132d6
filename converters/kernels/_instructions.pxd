from ._operands cimport operand
from ._reads cimport Reader
