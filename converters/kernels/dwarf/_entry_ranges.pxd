cimport cython

from ..array_types cimport ConstI64, ConstU64, I64, U8, U16, U64


@cython.final
cdef class Clipped:
    cdef I64 owner
    cdef U64 start
    cdef U64 end
    cdef I64 first
    cdef U16 depth
    cdef U8 is_cut
