cimport cython

from ..array_types cimport ConstI64, ConstU64, ConstU8, I32, I64, U64
from ._rows cimport Rows, Rules


cdef class Distinct:
    cdef ConstU64 keys
    cdef I32 slots
    cdef U64 hashes
    cdef I64 number
    cdef I64 first
    cdef public long long count
    cdef long long mask

    @cython.final
    cdef void use_slots(self, long long slots) noexcept nogil
    cdef int is_same(self, long long item, long long other) noexcept nogil
    @cython.final
    cdef void add(self, long long item, unsigned long long value) noexcept nogil


@cython.final
cdef class DistinctValues(Distinct):
    cdef ConstU64 values

    cpdef void number_all(self, ConstU64 values) noexcept


@cython.final
cdef class DistinctRules(Distinct):
    cdef Rows rows
    cdef Rules rules

    cpdef void number_all(self, Rows rows, Rules rules, I32 known_count, I64 known_number) noexcept


@cython.final
cdef class DistinctContents(Distinct):
    cdef Rows rows
    cdef ConstI64 others

    cpdef void number_all(self, Rows rows, ConstI64 others) noexcept


@cython.final
cdef class DistinctBytes(Distinct):
    cdef ConstU8 data
    cdef ConstI64 start
    cdef ConstI64 end
    cdef ConstI64 kind

    cpdef void number_all(self, ConstU8 data, ConstI64 start, ConstI64 end, ConstI64 kind) noexcept
