from ..array_types cimport ConstI64, ConstU64, ConstU8, ConstU8_2D, I64, I64_2D, U8
from ._operands cimport operand
from ..shared._reads cimport Reader
from ._row_state cimport RowState


cdef class Interpreter(RowState):
    cdef ConstU8_2D instructions
    cdef ConstU8 value_of
    cdef int keeps_empty
    cdef ConstI64 code_factor
    cdef ConstI64 data_factor
    cdef ConstU8 address_encoding
    cdef ConstU8 address_size
    cdef I64_2D initial
    cdef long long depth
    cdef int is_absolute

    cdef int apply(self, int effect, long long first, long long second, long long number) noexcept
    cdef int one_run(self, unsigned long long location, long long number) noexcept
    cdef long long set_location(self, unsigned long long location, long long number) noexcept
