cimport cython

from ..array_types cimport ConstI64, ConstU8, I64, U8
from ._cplusplus_tree cimport Nodes, Tree


@cython.final
cdef class Text:
    cdef Tree tree
    cdef Nodes nodes
    cdef ConstU8 words
    cdef ConstI64 word_start
    cdef U8 out
    cdef public long long size
    cdef long long limit
    cdef long long steps
    cdef long long buffered
    cdef long long flushes
    cdef int address
    cdef int greater
    cdef int arguments
    cdef int in_argument
    cdef int last
    cdef int pack
    cdef int expands
    cdef int depth
    cdef int lambdas
    cdef int wrong

    cdef void write(self, int root, long long limit) noexcept nogil
    cdef void put(self, int character) noexcept nogil
    cdef void grow(self, long long size) noexcept nogil
    cdef void put_word(self, int word) noexcept nogil
    cdef void put_operator(self, int word) noexcept nogil
    cdef void put_name(self, int node) noexcept nogil
    cdef void put_number(self, int value) noexcept nogil
    cdef int enter(self) noexcept nogil
    cdef void whole(self, int node) noexcept nogil
    cdef void before(self, int node) noexcept nogil
    cdef void name(self, int node, int kind) noexcept nogil
    cdef void unnamed(self, int first, int number, int kind) noexcept nogil
    cdef void put_arguments(self, int node) noexcept nogil
    cdef void list(self, int item) noexcept nogil
    cdef void type_before(self, int node, int kind) noexcept nogil
    cdef void result(self, int node) noexcept nogil
    cdef void expression(self, int node, int kind) noexcept nogil
    cdef void operation(self, int node, int kind) noexcept nogil
    cdef void operand(self, int node, int is_address) noexcept nogil
    cdef int target(self, int node) noexcept nogil
    cdef int item(self, int arguments, int number) noexcept nogil
    cdef void argument(self, int node) noexcept nogil
    cdef int is_wrapped(self, int node) noexcept nogil
    cdef int has_after(self, int node) noexcept nogil
    cdef int collapsed(self, int node) noexcept nogil
    cdef int referred(self, int node) noexcept nogil
    cdef void indirection(self, int node, int kind) noexcept nogil
    cdef void parenthesis(self, int has_space) noexcept nogil
    cdef void member(self, int owner, int node) noexcept nogil
    cdef void qualified(self, int node, int kind) noexcept nogil
    cdef void after(self, int node) noexcept nogil
    cdef void signature(self, int node) noexcept nogil
    cdef int dimension(self, int node) noexcept nogil
    cdef void encoding(self, int node, int has_result) noexcept nogil
    cdef void expansion(self, int pattern) noexcept nogil
    cdef int find_pack(self, int node) noexcept nogil
    cdef void literal(self, int node) noexcept nogil


cpdef long long demangle(
    Text text, ConstI64 start, I64 text_start, long long first, long long expansion
) except? -1
