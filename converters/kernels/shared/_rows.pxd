cimport cython

from ..array_types cimport ConstI64, ConstU16, ConstU64, ConstU8, I64, U16, U64, U8


@cython.final
cdef class Rows:
    cdef ConstU64 offset
    cdef ConstU8 cfa_kind
    cdef ConstU16 cfa_register
    cdef ConstI64 cfa_offset
    cdef ConstU8 ra_state
    cdef ConstI64 first_rule
    cdef ConstU16 rule_count


@cython.final
cdef class Rules:
    cdef ConstU16 register
    cdef ConstU8 kind
    cdef ConstI64 value


@cython.final
cdef class NewRows:
    cdef U64 offset
    cdef U8 cfa_kind
    cdef U16 cfa_register
    cdef I64 cfa_offset
    cdef U8 ra_state
    cdef I64 first_rule
    cdef U16 rule_count


@cython.final
cdef class NewRules:
    cdef U16 register
    cdef U8 kind
    cdef I64 value
