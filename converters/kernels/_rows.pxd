from ._entries cimport pointer
from ._operands cimport operand
