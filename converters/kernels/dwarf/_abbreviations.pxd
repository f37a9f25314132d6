cimport cython

from ..array_types cimport ConstI64, ConstU8, I32, I64, U16, U32, U64, U8
from ..shared._reads cimport Reader


@cython.final
cdef class Tables:
    cdef ConstI64 offset
    cdef ConstU8 address_size
    cdef ConstU8 offset_size
    cdef ConstU8 ref_size
    cdef ConstU8 storages
    cdef ConstU8 attributes

    cdef int storage_of(self, long long table, unsigned long long form) noexcept nogil


@cython.final
cdef class Abbreviations:
    cdef I64 first
    cdef U64 code
    cdef U16 tag
    cdef U8 has_children
    cdef I32 size
    cdef I64 begin
    cdef I64 end
    cdef U8 attribute
    cdef U32 form
    cdef U8 storage
    cdef U64 implicit
    cdef public long long count
    cdef public long long attribute_count

    cdef long long index_of(self, long long table, unsigned long long code) noexcept nogil
    cdef void read(self, Reader reader, Tables tables, long long table) noexcept nogil
    cdef int read_attributes(self, Reader reader, Tables tables, long long table) noexcept nogil
