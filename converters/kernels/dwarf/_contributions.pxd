cimport cython

from ..array_types cimport ConstI64, ConstU8, I64, U64, U8
from ..shared._reads cimport Reader


@cython.final
cdef class Sets:
    cdef ConstI64 body
    cdef ConstI64 end
    cdef ConstU8 offset_size
    cdef I64 first
    cdef I64 names_end
    cdef U8 is_terminated


@cython.final
cdef class Names:
    cdef U64 offset
    cdef U8 attributes
    cdef I64 start
    cdef I64 size
    cdef public long long count

    cdef void read(self, Reader reader, unsigned long long offset, int has_attributes) noexcept nogil
