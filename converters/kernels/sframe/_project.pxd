cimport cython

from ..array_types cimport ConstI64, ConstU8, I32_2D, U8
from ..shared._rows cimport Rows, Rules


@cython.final
cdef class Abi:
    cdef long long sp
    cdef long long fp
    cdef long long ra
    cdef long long fixed_ra
    cdef long long sp_value
    cdef long long cfa_adjustment
    cdef long long cfa_alignment
    cdef int sp_is_saved
    cdef int has_register_slots
    cdef int fp_alone
    cdef int marks_outermost

    cdef int sp_reason(self, int kind, long long value) noexcept nogil
    cdef long long cfa_word(self, long long offset) noexcept nogil
    cdef long long slot(self, int kind, long long value) noexcept nogil


@cython.final
cdef class Fres:
    cdef U8 reason
    cdef U8 info
    cdef I32_2D words

    cdef void clear(self, long long row) noexcept nogil


@cython.final
cdef class Slots:
    cdef long long ra
    cdef long long fp
    cdef int reason
    cdef int is_outermost

    cdef void read(self, Abi abi, Rules rules, long long first, long long count) noexcept nogil
    cdef void choose_ra(self, Abi abi, int kind) noexcept nogil
    cdef void choose_fp(self, Abi abi, int kind) noexcept nogil
    cdef int put(self, Abi abi, long long row, long long cfa, Fres fres) noexcept nogil


@cython.final
cdef class Forms:
    cdef ConstU8 kind
    cdef ConstI64 base
    cdef ConstI64 value

    cdef long long control(self, long long rule) noexcept nogil
    cdef long long offset(self, long long rule) noexcept nogil


@cython.final
cdef class Pairs:
    cdef Abi abi
    cdef Rows rows
    cdef Rules rules
    cdef Forms cfa
    cdef Forms forms
    cdef long long ra
    cdef long long ra_offset
    cdef long long fp
    cdef long long fp_offset
    cdef int reason
    cdef int is_outermost

    cdef void read(self, long long row) noexcept nogil
    cdef int is_read_at_cfa(self, long long rule, long long row) noexcept nogil
    cdef long long choose_cfa(self, long long row) noexcept nogil
    cdef int put(self, long long row, long long cfa_offset, Fres fres) noexcept nogil
