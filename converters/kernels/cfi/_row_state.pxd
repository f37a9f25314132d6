cimport cython

from ..array_types cimport I64, I64_2D
from ..shared._reads cimport Reader
from ..shared._rows cimport NewRows, NewRules


@cython.final
cdef class NewExpressions:
    cdef I64 start
    cdef I64 size


cdef class RowState:
    cdef Reader reader
    cdef I64_2D live
    cdef I64 values
    cdef I64 filled
    cdef long long cfa_kind
    cdef long long cfa_register
    cdef long long cfa_offset
    cdef long long cfa_expression
    cdef long long ra_state
    cdef long long first_rule
    cdef long long rule_count
    cdef int changed
    cdef int has_values

    cdef NewRows rows
    cdef I64_2D row_values
    cdef NewRules rules
    cdef NewExpressions expressions
    cdef I64_2D remembered

    cdef void set_rule(self, long long register, long long kind, long long value) noexcept nogil
    cdef int store_rules(self) noexcept nogil
    cdef void load_values(self, I64_2D saved, long long number) noexcept nogil
    cdef void load_state(self, I64_2D saved, long long number) noexcept nogil
    cdef void save_state(self, I64_2D saved, long long number) noexcept nogil
    cdef void restore_rule(self, I64_2D saved, long long number, long long register) noexcept nogil
    cdef int store_row(self, long long pc) noexcept nogil
    cdef long long store_expression(self, long long size) noexcept nogil
