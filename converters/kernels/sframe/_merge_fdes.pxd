cimport cython

from ..array_types cimport ConstI64, ConstU64, ConstU8, I64, U8


@cython.final
cdef class Ranges:
    cdef ConstU64 start
    cdef ConstU64 last
    cdef ConstU8 joins
    cdef ConstI64 rows
    cdef ConstI64 size
    cdef ConstI64 repeated
    cdef ConstI64 single_cost

    cdef long long bytes_of_starts(self, long long first, long long last) noexcept nogil
