from ..array_types cimport ConstI64, ConstI64_2D, ConstU16, ConstU64, ConstU8, ConstU8_2D, I64, U8
from ._instruction_writer cimport OpcodeWriter


cdef class Writer(OpcodeWriter):
    cdef ConstU8 rule_effects
    cdef ConstU8 value_effects
    cdef long long address_size
    cdef ConstU16 rule_register
    cdef ConstU8 rule_kind
    cdef ConstI64 rule_value
    cdef ConstU64 row_offset
    cdef ConstU8 row_cfa_kind
    cdef ConstU16 row_cfa_register
    cdef ConstI64 row_cfa_offset
    cdef ConstU8 row_ra_state
    cdef ConstI64 row_first_rule
    cdef ConstU16 row_rule_count
    cdef ConstI64_2D row_values
    cdef ConstI64 previous
    cdef I64 restores
    cdef I64 remembers
    cdef I64 covered
    cdef I64 following
    cdef I64 saved

    cdef void change_cfa(self, long long before, long long row) noexcept
    cdef long long rule_at(self, long long row, long long register) noexcept
    cdef int says_same(self, long long one, long long other) noexcept
    cdef void give_rule(self, long long rule, long long initial) noexcept
    cdef long long window_at(self, long long row) noexcept
    cdef void change_rules(self, long long before, long long row, long long initial) noexcept
    cdef void change_ra_state(self, int before, int now) noexcept
    cdef void change(self, long long before, long long row, long long initial) noexcept
    cdef void change_values(self, long long before, long long row) noexcept
    cdef void begin(self, long long row, long long initial) noexcept
    cdef long long saving(self, long long before, long long row, long long initial) noexcept
    cdef int hides_more(self, long long start, long long row) noexcept
    cdef void plan(self, long long first, long long last, long long initial) noexcept
    cdef void one_run(self, long long first, long long last, long long initial) noexcept
