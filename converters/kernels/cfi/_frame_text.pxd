cimport cython

from ..array_types cimport ConstI64, ConstI64_2D, ConstU8, ConstU8_2D, ConstU64, I64, U64, U8
from ..raw_text cimport copy_bytes, decimal_digits, write_decimal, write_digits
from ..shared._reads cimport Reader
from ._decoder cimport Instructions
from ._records cimport Cies, Streams


@cython.final
cdef class Words:
    cdef ConstU8 text
    cdef ConstI64 start


@cython.final
cdef class Output:
    cdef U8 out
    cdef long long limit
    cdef public long long at

    cdef void put_word(self, Words words, long long word) noexcept nogil
    cdef void put_byte(self, int byte) noexcept nogil
    cdef void put_digits(self, unsigned long long value, long long digits) noexcept nogil
    cdef void put_decimal(self, unsigned long long value, int sign) noexcept nogil


@cython.final
cdef class RunWriter:
    cdef Reader reader
    cdef Cies cies
    cdef Streams streams
    cdef Instructions one
    cdef Words words
    cdef Output output
    cdef Words block
    cdef ConstU8_2D table
    cdef ConstI64_2D forms
    cdef ConstI64 register_word
    cdef I64 end
    cdef I64 gap
    cdef U64 gap_pc
    cdef I64 last_gap
    cdef U8 is_absolute
    cdef public long long stream
    cdef int is_begun
    cdef unsigned long long pc
    cdef long long gaps
    cdef public long long block_start
    cdef public long long block_end
    cdef int has_block

    cdef void put_operand(self, long long kind, long long value) noexcept nogil
    cdef void put_words(self, int opcode) noexcept nogil
    cdef int needs_block(self, int opcode) noexcept nogil
    cdef int put_line(self) noexcept nogil
    cpdef long long write(self) noexcept


@cython.final
cdef class RunTexts:
    cdef ConstU8 text
    cdef ConstI64 end
    cdef ConstI64 gap
    cdef ConstU64 gap_pc
    cdef ConstI64 last_gap


@cython.final
cdef class Headings:
    cdef Words words
    cdef ConstI64 word
    cdef ConstI64 offset
    cdef ConstI64 length
    cdef ConstU64 entry_id
    cdef ConstI64 cie_offset
    cdef ConstU64 start
    cdef ConstU64 end
    cdef ConstI64 digits
    cdef ConstI64 id_digits
    cdef ConstU8 section
    cdef ConstI64 data
    cdef ConstI64 data_size

    cdef void put_number(
        self, Output output, unsigned long long value, long long digits, long long word
    ) noexcept nogil
    cdef void put_heading(self, long long entry, Output output) noexcept nogil
    cdef void put_data(self, long long entry, Output output) noexcept nogil
