from ..shared._reads cimport Reader
from ..shared._values cimport stored_value


cdef class Tables:
    cdef const unsigned char[::1] storages
    cdef unsigned char[::1] chosen
    cdef const long long[::1] old_count
    cdef const unsigned long long[::1] old_content
    cdef const unsigned long long[::1] old_form
    cdef long long[::1] place
    cdef long long[::1] first_format
    cdef long long[::1] first_value
    cdef unsigned long long[::1] content
    cdef unsigned long long[::1] form
    cdef unsigned long long[::1] number
    cdef long long[::1] start
    cdef public long long formats
    cdef public long long values
    cdef long long old

    cdef void begin(self, long long table, long long at) noexcept
    cdef int read_formats(self, Reader reader, int has_formats, int which) noexcept
    cdef void read_entry(self, Reader reader, int count, int offset_size) noexcept
    cdef void read_table(self, Reader reader, int has_formats, int which, int offset_size) noexcept
