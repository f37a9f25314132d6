cimport cython

from ..array_types cimport ConstI64, ConstI64_2D, ConstU64, ConstU8, I64, I64_2D, U64, U64_2D, U8
from ..shared._reads cimport Reader
from ..shared._values cimport stored_value


@cython.final
cdef class Tables:
    cdef ConstU8 storages
    cdef U8 chosen
    cdef ConstI64 old_count
    cdef ConstU64 old_content
    cdef ConstU64 old_form
    cdef I64 place
    cdef I64 first_format
    cdef I64 first_value
    cdef U64 content
    cdef U64 form
    cdef U64 number
    cdef I64 start
    cdef public long long formats
    cdef public long long values
    cdef long long old

    cdef void begin(self, long long table, long long at) noexcept nogil
    cdef int read_formats(self, Reader reader, int has_formats, int which) noexcept nogil
    cdef void read_entry(self, Reader reader, int count, int offset_size) noexcept nogil
    cdef void read_table(self, Reader reader, int has_formats, int which, int offset_size) noexcept nogil
