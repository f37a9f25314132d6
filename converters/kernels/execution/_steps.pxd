cimport cython

from ..array_types cimport I32, U64
from ._frames cimport InnermostCall, SpotState

ctypedef void *Pointer
ctypedef int (*Wait)(int, void *, int) noexcept nogil
ctypedef long (*Ptrace)(long, long, void *, void *) noexcept nogil


@cython.final
cdef class Steps:
    cdef Wait waitpid
    cdef Ptrace ptrace
    cdef I32 status_buffer
    cdef U64 registers
    cdef int options
    cdef int stepped
    cdef Pointer status_at
    cdef Pointer registers_at
    cdef Pointer nothing
    cdef readonly int number
    cdef readonly int status
    cdef readonly long long made
