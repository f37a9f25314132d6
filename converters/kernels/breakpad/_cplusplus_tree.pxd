cimport cython

from ..array_types cimport ConstU8, I32, U8


@cython.final
cdef class Nodes:
    cdef U8 kind
    cdef I32 left
    cdef I32 right
    cdef I32 extra


@cython.final
cdef class Tree:
    cdef ConstU8 data
    cdef ConstU8 pairs
    cdef ConstU8 builtins
    cdef Nodes nodes
    cdef I32 substitutions
    cdef int is_whole
    cdef long long start
    cdef long long at
    cdef long long end
    cdef int count
    cdef int substitution_count
    cdef int wrong
    cdef int depth
    cdef int lambdas
    cdef int qualifiers
    cdef int arguments
    cdef int identifier

    cdef int read(self, long long start, long long end) noexcept nogil
    cdef int peek(self, int offset) noexcept nogil
    cdef int eat(self, int character) noexcept nogil
    cdef void need(self, int character) noexcept nogil
    cdef int make(self, int kind, int left, int right, int extra) noexcept nogil
    cdef int add(self, int node) noexcept nogil
    cdef int number(self) noexcept nogil
    cdef int compact_number(self) noexcept nogil
    cdef int encoding(self) noexcept nogil
    cdef int is_special(self, int node) noexcept nogil
    cdef int parameters(self) noexcept nogil
    cdef int name(self) noexcept nogil
    cdef int nested(self) noexcept nogil
    cdef int is_class(self, int node) noexcept nogil
    cdef int prefix(self, int one, int is_inner) noexcept nogil
    cdef int cv_qualifiers(self) noexcept nogil
    cdef int local(self) noexcept nogil
    cdef void discriminator(self) noexcept nogil
    cdef void enter(self) noexcept nogil
    cdef int unqualified(self) noexcept nogil
    cdef int source_name(self) noexcept nogil
    cdef int is_unnamed_namespace(self, int size) noexcept nogil
    cdef int structor(self, int kind) noexcept nogil
    cdef int unnamed(self) noexcept nogil
    cdef int operator(self) noexcept nogil
    cdef int substitution(self, int is_prefix) noexcept nogil
    cdef int numbered(self) noexcept nogil
    cdef int type(self) noexcept nogil
    cdef int qualified(self) noexcept nogil
    cdef int builtin(self, int one) noexcept nogil
    cdef int two_letters(self) noexcept nogil
    cdef int substituted(self) noexcept nogil
    cdef int class_name(self) noexcept nogil
    cdef int compound(self, int one) noexcept nogil
    cdef int function(self) noexcept nogil
    cdef int array(self) noexcept nogil
    cdef int part(self, long long first) noexcept nogil
    cdef int parameter(self) noexcept nogil
    cdef int template_arguments(self) noexcept nogil
    cdef int template_argument(self) noexcept nogil
    cdef int expression(self) noexcept nogil
    cdef int call(self) noexcept nogil
    cdef int named(self) noexcept nogil
    cdef int operation(self, int one, int two) noexcept nogil
    cdef int literal(self) noexcept nogil
