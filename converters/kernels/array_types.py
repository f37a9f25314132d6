"""The arrays that kernels take, by element type and number of dimensions; `Const` ones may be read-only.

Strategy: for Cython these are typed memoryviews (array_types.pxd); for type checkers they are NumPy arrays, so that an
argument with other elements is an error. Uncompiled kernels index memoryviews (see `views` in __init__.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
U32_2D = NDArray[np.uint32]
U64_2D = NDArray[np.uint64]
I32 = NDArray[np.int32]
I32_2D = NDArray[np.int32]
I64 = NDArray[np.int64]
I64_2D = NDArray[np.int64]

ConstU8 = NDArray[np.uint8]
ConstU8_2D = NDArray[np.uint8]
ConstU8_3D = NDArray[np.uint8]
ConstU16 = NDArray[np.uint16]
ConstU32 = NDArray[np.uint32]
ConstU64 = NDArray[np.uint64]
ConstU64_2D = NDArray[np.uint64]
ConstI32_2D = NDArray[np.int32]
ConstI64 = NDArray[np.int64]
ConstI64_2D = NDArray[np.int64]
