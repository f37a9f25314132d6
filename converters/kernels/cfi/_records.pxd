cimport cython

from ..array_types cimport ConstI64, ConstU64, ConstU8


@cython.final
cdef class Cies:
    cdef ConstI64 code_factor
    cdef ConstI64 data_factor
    cdef ConstU8 address_encoding
    cdef ConstU8 lsda_encoding
    cdef ConstU8 is_augmented
    cdef ConstU8 address_size
    cdef ConstU8 segment_size


@cython.final
cdef class Streams:
    cdef ConstI64 start
    cdef ConstI64 end
    cdef ConstU64 location
    cdef ConstI64 cie
