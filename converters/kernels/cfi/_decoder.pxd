from ._operands cimport operand
from ..shared._reads cimport Reader
