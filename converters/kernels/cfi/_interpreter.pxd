cimport cython

from ..array_types cimport ConstU8, ConstU8_2D, I64, I64_2D, U8
from ..shared._reads cimport Reader
from ._operands cimport operand
from ._records cimport Cies, Streams
from ._row_state cimport RowState


@cython.final
cdef class Interpreter(RowState):
    cdef Cies cies
    cdef ConstU8_2D table
    cdef ConstU8 value_of
    cdef int keeps_empty
    cdef I64_2D initial
    cdef long long depth
    cdef int is_absolute

    cdef int apply(self, int effect, long long first, long long second, long long cie) noexcept nogil
    cpdef long long interpret(
        self, long long first_run, Streams streams, I64_2D initial, I64_2D final, I64 last_row, U8 is_absolute
    ) noexcept
    cdef int interpret_run(self, Reader reader, unsigned long long location, long long cie) noexcept nogil
    cdef long long set_location(self, unsigned long long location, long long cie) noexcept nogil
