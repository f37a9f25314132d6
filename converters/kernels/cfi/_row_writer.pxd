from ._instruction_writer cimport OpcodeWriter


cdef class Writer(OpcodeWriter):
    cdef const unsigned char[::1] rule_effects
    cdef long long address_size
    cdef const unsigned short[::1] rule_register
    cdef const unsigned char[::1] rule_kind
    cdef const long long[::1] rule_value
    cdef const unsigned long long[::1] row_offset
    cdef const unsigned char[::1] row_cfa_kind
    cdef const unsigned short[::1] row_cfa_register
    cdef const long long[::1] row_cfa_offset
    cdef const unsigned char[::1] row_ra_state
    cdef const long long[::1] row_first_rule
    cdef const unsigned short[::1] row_rule_count
    cdef const long long[::1] previous
    cdef long long[::1] restores
    cdef long long[::1] remembers
    cdef long long[::1] covered
    cdef long long[::1] following
    cdef long long[::1] saved

    cdef void change_cfa(self, long long before, long long row) noexcept
    cdef long long rule_at(self, long long row, long long register) noexcept
    cdef int says_same(self, long long one, long long other) noexcept
    cdef void give_rule(self, long long rule, long long initial) noexcept
    cdef long long window_at(self, long long row) noexcept
    cdef void change_rules(self, long long before, long long row, long long initial) noexcept
    cdef void change_ra_state(self, int before, int now) noexcept
    cdef void change(self, long long before, long long row, long long initial) noexcept
    cdef void change_args(self, long long before, long long row) noexcept
    cdef void begin(self, long long row, long long initial) noexcept
    cdef long long saving(self, long long before, long long row, long long initial) noexcept
    cdef int hides_more(self, long long start, long long row) noexcept
    cdef void plan(self, long long first, long long last, long long initial) noexcept
    cdef void one_run(self, long long first, long long last, long long initial) noexcept
