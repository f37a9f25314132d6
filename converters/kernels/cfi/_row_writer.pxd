cimport cython

from ..array_types cimport ConstI64, ConstI64_2D, ConstU8, ConstU8_2D, I64, U8
from ..shared._rows cimport Rows, Rules
from ._instruction_writer cimport Expressions, InstructionWriter


@cython.final
cdef class Brackets:
    cdef ConstI64 previous
    cdef I64 restores
    cdef I64 remembers
    cdef I64 covered
    cdef I64 following
    cdef I64 saved

    cdef void clear(self, long long row) noexcept nogil
    cdef long long before(self, long long row) noexcept nogil
    cdef long long choose_start(self, long long row) noexcept nogil
    cdef int hides_more(self, long long start, long long row) noexcept nogil
    cdef void add(self, long long start, long long row) noexcept nogil


@cython.final
cdef class RowWriter(InstructionWriter):
    cdef long long address_size
    cdef Rows rows
    cdef Rules rules
    cdef Brackets brackets
    cdef ConstU8 rule_effects
    cdef ConstU8 value_effects
    cdef ConstI64_2D values

    cdef void change_cfa(self, long long before, long long row) noexcept nogil
    cdef long long rule_at(self, long long row, long long register) noexcept nogil
    cdef int is_same_rule(self, long long one, long long other) noexcept nogil
    cdef void give_rule(self, long long rule, long long initial) noexcept nogil
    cdef long long window_at(self, long long row) noexcept nogil
    cdef void change_rules(self, long long before, long long row, long long initial) noexcept nogil
    cdef void change_ra_state(self, int before, int now) noexcept nogil
    cdef void change(self, long long before, long long row, long long initial) noexcept nogil
    cdef void change_values(self, long long before, long long row) noexcept nogil
    cdef void begin(self, long long row, long long initial) noexcept nogil
    cdef long long saving(self, long long before, long long row, long long initial) noexcept nogil
    cdef void plan(self, long long first, long long last, long long initial) noexcept nogil
    cdef void write_run(self, long long first, long long last, long long initial) noexcept nogil
    cpdef long long write(
        self,
        ConstI64 first,
        ConstI64 last,
        ConstI64 initial,
        ConstI64 code_factor,
        ConstI64 data_factor,
        U8 out,
        I64 end
    ) noexcept
