cimport cython

from ..array_types cimport ConstI64, ConstU8, I64, I64_2D, U16, U32, U32_2D, U64_2D
from ..shared._reads cimport Reader
from ..shared._values cimport skip_bytes, stored_value
from ._abbreviations cimport Abbreviations


@cython.final
cdef class Units:
    cdef ConstI64 place
    cdef ConstI64 end
    cdef ConstI64 table
    cdef ConstU8 offset_size


@cython.final
cdef class Attributes:
    cdef Abbreviations abbreviations
    cdef ConstU8 role
    cdef ConstU8 storages

    cdef long long end_of_values(self, Reader reader, long long abbreviation, long long offset) noexcept nogil
    cdef void skip(self, Reader reader, long long abbreviation, int offset_size) noexcept nogil
    cdef int storage_of(self, unsigned long long form) noexcept nogil


@cython.final
cdef class Entries:
    cdef I64 offset
    cdef U16 tag
    cdef U32 unit
    cdef I64 parent
    cdef I64 function
    cdef U32_2D form
    cdef U64_2D number
    cdef ConstU8 wanted
    cdef public long long count
    cdef public int is_full

    cdef void read(self, Reader reader, Attributes attributes, long long abbreviation, int offset_size) noexcept nogil


@cython.final
cdef class Scopes:
    cdef I64 offset
    cdef I64 end
    cdef I64 parent
    cdef public long long count


@cython.final
cdef class Walk:
    cdef Units units
    cdef Attributes attributes
    cdef Entries entries
    cdef Scopes scopes
    cdef I64_2D stack
    cdef long long depth

    cdef void unit(self, Reader reader, long long unit) noexcept nogil
    cdef void others(self, Reader reader, long long table) noexcept nogil
    cdef void entry(self, Reader reader, long long unit, long long start, long long abbreviation, int offset_size) noexcept nogil
    cdef void open(self, Reader reader, long long start, long long kept, int role) noexcept nogil
    cdef void open_functions(self) noexcept nogil
    cdef long long add_scope(self, long long start, long long parent) noexcept nogil
    cdef void close(self, long long end) noexcept nogil
