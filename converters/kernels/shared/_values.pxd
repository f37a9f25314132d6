from ._reads cimport Reader

cdef void skip_bytes(Reader reader, unsigned long long size, int fault) noexcept nogil
cdef unsigned long long stored_value(Reader reader, int storage, int offset_size) noexcept nogil
