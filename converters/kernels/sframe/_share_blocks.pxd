from ..array_types cimport ConstI32_2D, ConstI64, ConstU64, ConstU8, I32, I64, U32, U8
cdef class Sharing:
    cdef ConstI64 segment
    cdef ConstI64 group
    cdef ConstU64 offset
    cdef ConstU8 info
    cdef ConstI32_2D words
    cdef ConstU64 segment_start
    cdef ConstI64 segment_fres
    cdef ConstI64 fres
    cdef ConstU64 keys
    cdef U32 hashes
    cdef I32 slots
    cdef U8 marks
    cdef I64 host

    cdef void hash_segments(self) noexcept
    cdef long long first(self, long long block) noexcept
    cdef int begins_with(self, long long block, long long other, long long count) noexcept
    cdef long long find(self, long long block, long long count) noexcept
    cpdef void share(self, int beginnings)
