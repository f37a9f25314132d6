# The types of array_types.py as typed memoryviews; arrays are contiguous.
ctypedef unsigned char[::1] U8
ctypedef unsigned short[::1] U16
ctypedef unsigned int[::1] U32
ctypedef unsigned long long[::1] U64
ctypedef unsigned int[:, ::1] U32_2D
ctypedef unsigned long long[:, ::1] U64_2D
ctypedef int[::1] I32
ctypedef int[:, ::1] I32_2D
ctypedef long long[::1] I64
ctypedef long long[:, ::1] I64_2D

ctypedef const unsigned char[::1] ConstU8
ctypedef const unsigned char[:, ::1] ConstU8_2D
ctypedef const unsigned char[:, :, ::1] ConstU8_3D
ctypedef const unsigned short[::1] ConstU16
ctypedef const unsigned int[::1] ConstU32
ctypedef const unsigned long long[::1] ConstU64
ctypedef const unsigned long long[:, ::1] ConstU64_2D
ctypedef const int[:, ::1] ConstI32_2D
ctypedef const long long[::1] ConstI64
ctypedef const long long[:, ::1] ConstI64_2D
