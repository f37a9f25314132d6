cimport cython

from ..array_types cimport I64, U8, ConstI64, ConstU8


@cython.final
cdef class Names:
    cdef ConstU8 data
    cdef U8 out
    cdef long long start
    cdef long long at
    cdef long long end
    cdef long long begin
    cdef long long limit
    cdef public long long size
    cdef int depth
    cdef int quiet
    cdef int wrong
    cdef unsigned long long bound

    cdef void reset(self, long long start, long long end, long long limit) noexcept
    cdef int peek(self) noexcept
    cdef int next(self) noexcept
    cdef int eat(self, int character) noexcept
    cdef void put(self, bytes text) noexcept
    cdef void put_part(self, long long first, long long last) noexcept
    cdef void put_character(self, int character) noexcept
    cdef void put_number(self, unsigned long long value) noexcept
    cdef unsigned long long number(self) noexcept
    cdef unsigned long long optional_number(self, int tag) noexcept
    cdef long long identifier(self, int has_separator) noexcept
    cdef void enter(self) noexcept
    cdef void path(self, int in_value) noexcept
    cdef void nested(self, int in_value) noexcept
    cdef long long go_back(self) noexcept
    cdef void arguments(self) noexcept
    cdef void lifetime(self, unsigned long long index) noexcept
    cdef long long types(self) noexcept
    cdef void type(self) noexcept
    cdef void basic_type(self, int tag) noexcept
    cdef unsigned long long bind(self) noexcept
    cdef void function(self) noexcept
    cdef void traits(self) noexcept
    cdef void one_trait(self) noexcept
    cdef int open_trait(self) noexcept
    cdef void constant(self) noexcept
    cdef unsigned long long hexadecimal(self) noexcept
    cdef void reference(self, int tag) noexcept
    cdef void constant_before(self) noexcept
    cdef void v0(self) noexcept
    cdef void legacy(self) noexcept
    cdef void component(self, long long first, long long last) noexcept
    cdef long long find(self, int character, long long first, long long last) noexcept
    cdef long long after_last(self, int character, long long first, long long last) noexcept
    cdef void escape(self, long long first, long long last) noexcept


cpdef long long demangle(
    Names names, ConstI64 start, ConstU8 is_legacy, I64 text, long long first, long long expansion
) except? -1
