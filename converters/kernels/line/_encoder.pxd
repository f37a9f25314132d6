cimport cython

from ..array_types cimport ConstI64, ConstI64_2D, ConstU32, ConstU64, ConstU8, I64
from ..shared._writes cimport Writer, sleb_size, uleb_size


@cython.final
cdef class Encoder:
    cdef Writer writer
    cdef int fixed_only
    cdef public int fault

    cdef int address_size
    cdef unsigned long long minimum_length
    cdef unsigned long long maximum_operations
    cdef int default_is_stmt
    cdef long long line_base
    cdef long long line_range
    cdef int opcode_base
    cdef unsigned long long mask

    cdef unsigned long long address
    cdef unsigned long long op_index
    cdef unsigned long long target_op_index
    cdef unsigned long long file
    cdef long long line
    cdef unsigned long long column
    cdef unsigned long long isa
    cdef int is_stmt

    cdef long long way_size
    cdef long long way_line
    cdef long long way_adds
    cdef unsigned long long way_advance
    cdef long long way_fixed
    cdef int way_opcode

    cdef void put_standard(self, int opcode) noexcept nogil
    cdef void put_extended(self, int opcode, unsigned long long size) noexcept nogil
    cdef void set_address(self, unsigned long long address) noexcept nogil
    cdef void enter(self, ConstI64_2D unit, long long number) noexcept nogil
    cdef void begin_sequence(self, unsigned long long address) noexcept nogil
    cdef void set_registers(self, unsigned long long file, unsigned long long column, unsigned long long isa, unsigned long long discriminator, int flags) noexcept nogil
    cdef void consider(self, long long size, long long line, long long adds, unsigned long long advance, long long fixed, int opcode) noexcept nogil
    cdef long long advance_size(self, unsigned long long advance) noexcept nogil
    cdef void try_last(self, long long line, int opcode, long long room, unsigned long long delta) noexcept nogil
    cdef unsigned long long operations(self, unsigned long long delta) noexcept nogil
    cdef void try_operations(self, long long size, long long line, int opcode, unsigned long long free, unsigned long long operations, long long fixed) noexcept nogil
    cdef void try_fixed(self, long long size, long long line, int opcode, unsigned long long free, unsigned long long delta) noexcept nogil
    cdef void find_way(self, long long line, unsigned long long delta) noexcept nogil
    cdef void find_end(self, unsigned long long delta) noexcept nogil
    cdef void find(self, long long line, unsigned long long delta, int is_end) noexcept nogil
    cdef void choose_way(self, long long line, unsigned long long address, unsigned long long op_index, int is_end) noexcept nogil
    cdef void put_row(self, long long line, unsigned long long address, unsigned long long op_index) noexcept nogil
    cdef void check_order(self, unsigned long long address, unsigned long long op_index) noexcept nogil
    cdef void put_advance(self) noexcept nogil
    cdef void put_end(self, long long line, unsigned long long address, unsigned long long op_index) noexcept nogil
