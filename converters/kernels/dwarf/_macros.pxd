cimport cython

from ..array_types cimport ConstU8, ConstU8_3D, I64, I64_2D, U16, U64, U8
from ..shared._reads cimport Reader
from ..shared._values cimport stored_value


@cython.final
cdef class Operands:
    cdef ConstU8_3D kinds
    cdef ConstU8 storages
    cdef ConstU8 forms
    cdef I64_2D described

    cdef void describe(self, Reader reader, long long unit) noexcept nogil
    cdef void skip(self, Reader reader, int opcode, int offset_size) noexcept nogil


@cython.final
cdef class Units:
    cdef I64 offset
    cdef U16 version
    cdef U8 flags
    cdef U64 line_offset
    cdef I64 body
    cdef I64 first
    cdef public long long count
    cdef int number
    cdef public long long begun_at
    cdef int offset_size

    cdef void read_header(self, Reader reader, Operands operands, long long entries) noexcept nogil


@cython.final
cdef class Entries:
    cdef I64 offset
    cdef U8 opcode
    cdef U64 line
    cdef U64 value
    cdef I64 text_start
    cdef I64 text_size
    cdef public long long count
    cdef unsigned long long found_line
    cdef unsigned long long found_value
    cdef long long found_start
    cdef long long found_size

    cdef void read_operands(self, Reader reader, Operands operands, Units units, int opcode) noexcept nogil
    cdef void put(self, long long offset, int opcode) noexcept nogil
