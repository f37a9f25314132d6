cimport cython

from ..array_types cimport ConstI64, ConstU8, ConstU16, ConstU64


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
