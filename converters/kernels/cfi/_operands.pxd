from ..shared._reads cimport Reader

cdef long long operand(Reader reader, int kind, int byte, long long code_factor, long long data_factor) noexcept nogil
