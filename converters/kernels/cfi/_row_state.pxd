from ..shared._reads cimport Reader


cdef class RowState:
    cdef Reader reader
    cdef long long[:, ::1] live
    cdef long long[::1] filled
    cdef long long cfa_kind
    cdef long long cfa_register
    cdef long long cfa_offset
    cdef long long cfa_expression
    cdef long long ra_state
    cdef long long args_size
    cdef long long first_rule
    cdef long long rule_count
    cdef int changed

    cdef unsigned long long[::1] row_offset
    cdef unsigned char[::1] row_cfa_kind
    cdef unsigned short[::1] row_cfa_register
    cdef long long[::1] row_cfa_offset
    cdef unsigned char[::1] row_ra_state
    cdef long long[::1] row_first_rule
    cdef unsigned short[::1] row_rule_count
    cdef long long[::1] row_args_size
    cdef unsigned short[::1] rule_register
    cdef unsigned char[::1] rule_kind
    cdef long long[::1] rule_value
    cdef long long[::1] expression_start
    cdef long long[::1] expression_size
    cdef long long[:, ::1] remembered

    cdef void set_rule(self, long long register, long long kind, long long value) noexcept
    cdef int store_rules(self) noexcept
    cdef void load_state(self, long long[:, ::1] saved, long long number) noexcept
    cdef void save_state(self, long long[:, ::1] saved, long long number) noexcept
    cdef void restore_rule(self, long long[:, ::1] saved, long long number, long long register) noexcept
    cdef int store_row(self, long long pc) noexcept
    cdef long long store_expression(self, long long size) noexcept
