from ..array_types cimport ConstI64, ConstU64, ConstU8, ConstU8_2D, U8
from ..shared._writes cimport sleb_size, uleb_size

cdef class OpcodeWriter:
    cdef ConstU8_2D instructions
    cdef ConstU8_2D choices
    cdef int big
    cdef ConstU8 expressions
    cdef ConstI64 expression_start
    cdef ConstI64 expression_size
    cdef long long code_factor
    cdef long long data_factor
    cdef long long at
    cdef long long size
    cdef int is_dry
    cdef int is_uneven
    cdef int fault
    cdef U8 out

    cdef void put(self, int byte) noexcept
    cdef long long stored(self, int kind, long long value) noexcept
    cdef long long operand_size(self, int kind, long long value) noexcept
    cdef void put_uleb(self, unsigned long long value) noexcept
    cdef void put_operand(self, int kind, long long value) noexcept
    cdef int choose(self, int effect, long long first, long long second) noexcept
    cdef void instruct(self, int effect, long long first, long long second) noexcept
