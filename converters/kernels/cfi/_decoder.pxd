cimport cython

from ..array_types cimport ConstU8_2D, I64, U64, U8
from ..shared._reads cimport Reader
from ._operands cimport operand
from ._records cimport Cies, Streams


@cython.final
cdef class Instructions:
    cdef ConstU8_2D table
    cdef U8 opcode
    cdef I64 begin
    cdef I64 end
    cdef I64 first
    cdef I64 second
    cdef U64 pc
    cdef long long count

    cdef unsigned long long read(
        self, Reader reader, Cies cies, long long cie, unsigned long long location, unsigned long long pc
    ) noexcept nogil
