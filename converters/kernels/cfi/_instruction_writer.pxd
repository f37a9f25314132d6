cimport cython

from ..array_types cimport ConstI64, ConstU8, ConstU8_2D, U8
from ..shared._writes cimport Writer, sleb_size, uleb_size


@cython.final
cdef class Expressions:
    cdef ConstU8 data
    cdef ConstI64 start
    cdef ConstI64 size


cdef class InstructionWriter(Writer):
    cdef Expressions expressions
    cdef ConstU8_2D table
    cdef ConstU8_2D choices
    cdef long long code_factor
    cdef long long data_factor
    cdef long long size
    cdef int is_uneven
    cdef int fault

    cdef long long stored(self, int kind, long long value) noexcept nogil
    cdef long long operand_size(self, int kind, long long value) noexcept nogil
    cdef void put_operand(self, int kind, long long value) noexcept nogil
    cdef int choose(self, int effect, long long first, long long second) noexcept nogil
    cdef void instruct(self, int effect, long long first, long long second) noexcept nogil
