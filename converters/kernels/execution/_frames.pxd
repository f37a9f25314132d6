cimport cython

from ..array_types cimport ConstI64, ConstI64_2D, U64


@cython.final
cdef class Summary:
    cdef ConstI64_2D tests
    cdef ConstI64 kept
    cdef readonly long long saved_offset
    cdef readonly long long saved_size
    cdef ConstI64_2D saved
    cdef readonly int is_complete


@cython.final
cdef class SpotState:
    cdef readonly object spot
    cdef readonly Summary summary
    cdef readonly int is_transfer
    cdef readonly unsigned long long checked
    cdef readonly unsigned long long unchecked


@cython.final
cdef class InnermostCall:
    cdef dict spots
    cdef object read
    cdef long long pc
    cdef long long sp
    cdef long long word_size
    cdef unsigned long long address_mask
    cdef int is_big
    cdef public int is_watched
    cdef public SpotState last
    cdef readonly SpotState nowhere
    cdef int is_known
    cdef readonly U64 before
    cdef Summary held
    cdef U64 entry
    cdef unsigned long long cfa
    cdef unsigned long long limit

    cpdef int enter(self, unsigned long long cfa, unsigned long long limit, U64 entry) except -1
    cpdef int leave(self) except -1
    cpdef int stop(self, SpotState state, U64 registers) except -1
    cpdef int go_on(self, SpotState state, U64 registers) except -1
    cdef int holds(self, Summary summary, U64 registers) noexcept
    cdef int is_saved(self, Summary summary) except -1
    cdef unsigned long long word(self, bytes data, long long at) noexcept
