from ._operands cimport operand
from ..shared._reads cimport Reader
from ._row_state cimport RowState


cdef class Interpreter(RowState):
    cdef const unsigned char[:, ::1] instructions
    cdef int keeps_empty
    cdef const long long[::1] code_factor
    cdef const long long[::1] data_factor
    cdef const unsigned char[::1] address_encoding
    cdef const unsigned char[::1] address_size
    cdef long long[:, ::1] initial
    cdef long long depth
    cdef int is_absolute

    cdef int apply(self, int effect, long long first, long long second, long long number) noexcept
    cdef int one_run(self, unsigned long long location, long long number) noexcept
    cdef long long set_location(self, unsigned long long location, long long number) noexcept
