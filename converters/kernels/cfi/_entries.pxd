cimport cython

from ..array_types cimport ConstI64, I64, U64, U8
from ..shared._reads cimport Reader
from ._records cimport Cies


@cython.final
cdef class Entries:
    cdef I64 offset
    cdef I64 body
    cdef I64 end
    cdef I64 cie


@cython.final
cdef class Dialect:
    cdef int id_size
    cdef int relative
    cdef unsigned long long cie_id32
    cdef unsigned long long cie_id64

    cdef long long cie_of(self, unsigned long long entry_id, long long offset, long long size, int is64) noexcept nogil


@cython.final
cdef class Functions:
    cdef U64 start
    cdef U64 size
    cdef U64 segment
    cdef U64 lsda
    cdef U8 has_lsda
    cdef I64 data
    cdef I64 instructions

    cdef void read_range(self, Reader reader, Cies cies, long long cie, long long index) noexcept nogil
    cdef void read_augmentation(self, Reader reader, Cies cies, long long cie, long long index) noexcept nogil
