cimport cython

from ..array_types cimport ConstI64, ConstU64, ConstU8, I64, I64_2D, U64, U64_2D
from ..shared._reads cimport Reader
from ..shared._values cimport stored_value


@cython.final
cdef class Wanted:
    cdef ConstI64 first
    cdef ConstU64 code
    cdef U64 tag
    cdef I64 attributes

    cdef long long index_of(self, long long table, unsigned long long code) noexcept nogil
    cdef void find(self, Reader reader, long long table, long long budget) noexcept nogil


@cython.final
cdef class Roots:
    cdef ConstI64 place
    cdef ConstI64 end
    cdef ConstI64 attributes
    cdef ConstU8 address_size
    cdef ConstU8 offset_size
    cdef ConstU8 ref_size


@cython.final
cdef class Values:
    cdef ConstU8 storages
    cdef ConstU8 column
    cdef U64_2D form
    cdef U64_2D number
    cdef I64_2D start

    cdef int storage_of(self, unsigned long long form) noexcept nogil
    cdef void read(self, Reader info, Reader abbreviation, Roots roots, long long unit) noexcept nogil
