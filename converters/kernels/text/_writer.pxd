cimport cython

from ..array_types cimport ConstI64, ConstU8, U8
from ..raw_text cimport copy_bytes, decimal_digits, hexadecimal_digits, write_decimal, write_digits


@cython.final
cdef class TextWriter:
    cdef ConstU8 words
    cdef ConstI64 start
    cdef U8 out
    cdef long long limit
    cdef public long long at

    cdef void put_word(self, long long word) noexcept nogil
    cdef void put_number(self, unsigned long long value, int base, int after) noexcept nogil
