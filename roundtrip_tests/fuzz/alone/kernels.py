"""All kernels as fuzz targets."""

from __future__ import annotations

from .breakpad_kernels import BREAKPAD_KERNELS
from .cfi_kernels import CFI_KERNELS
from .dwarf_kernels import DWARF_KERNELS
from .execution_kernels import EXECUTION_KERNELS
from .line_kernels import LINE_KERNELS
from .sframe_kernels import SFRAME_KERNELS
from .text_kernels import TEXT_KERNELS

KERNELS = (
    *CFI_KERNELS,
    *SFRAME_KERNELS,
    *BREAKPAD_KERNELS,
    *LINE_KERNELS,
    *DWARF_KERNELS,
    *TEXT_KERNELS,
    *EXECUTION_KERNELS,
)
