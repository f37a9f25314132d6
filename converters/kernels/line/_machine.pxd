cimport cython

from ..array_types cimport ConstI64_2D, ConstU8, I64, U32, U64, U8
from ..shared._reads cimport Reader


@cython.final
cdef class Machine:
    cdef public Reader reader
    cdef ConstU8 standard
    cdef ConstU8 extended

    cdef public long long end
    cdef long long opcode_lengths
    cdef unsigned long long minimum_length
    cdef unsigned long long maximum_operations
    cdef int default_is_stmt
    cdef long long line_base
    cdef int line_range
    cdef int opcode_base
    cdef unsigned long long const_add
    cdef unsigned long long mask

    cdef unsigned long long address
    cdef unsigned long long op_index
    cdef unsigned long long file
    cdef long long line
    cdef unsigned long long column
    cdef int is_stmt
    cdef int marks
    cdef int is_placed
    cdef unsigned long long isa
    cdef unsigned long long discriminator

    cdef long long at
    cdef int opcode
    cdef int is_extended
    cdef unsigned long long operand
    cdef unsigned long long advance
    cdef long long line_advance
    cdef public unsigned long long view
    cdef long long begin
    cdef long long stop

    cpdef void enter(self, ConstI64_2D unit, long long number) noexcept nogil
    cdef void begin_sequence(self) noexcept nogil
    cdef void begin_row(self) noexcept nogil
    cdef void advance_by(self, unsigned long long advance) noexcept nogil
    cdef int step(self, Reader reader) noexcept nogil
    cdef void add_to_line(self) noexcept nogil
    cdef int step_standard(self, Reader reader) noexcept nogil
    cdef int step_extended(self, Reader reader) noexcept nogil


@cython.final
cdef class Rows:
    cdef U64 address
    cdef U8 op_index
    cdef U32 file
    cdef U32 line
    cdef U32 column
    cdef U32 isa
    cdef U32 discriminator
    cdef U8 flags
    cdef U32 sequence_unit
    cdef I64 sequence_end
    cdef I64 defined_unit
    cdef I64 defined_at
    cdef public long long row
    cdef long long first_row
    cdef public long long sequence
    cdef public long long defined
    cdef unsigned long long last_address
    cdef unsigned long long last_op_index

    cdef int check(self, Machine machine) noexcept nogil
    cdef void put(self, Machine machine, int mark) noexcept nogil
    cdef void put_break(self, long long number) noexcept nogil
    cdef void put_end(self, long long number) noexcept nogil
    cdef void put_file(self, long long number, long long at) noexcept nogil
