# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What call frame instructions are read with: the fields of CIEs, and where the instructions are."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import ConstI64, ConstU8, ConstU64


@cython.final
@cython.cclass
class Cies:
    """Fields of CIEs: factors, DW_EH_PE encodings, whether FDEs have augmentation data, and sizes in bytes."""

    def __init__(
        self,
        code_factor: ConstI64,
        data_factor: ConstI64,
        address_encoding: ConstU8,
        lsda_encoding: ConstU8,
        is_augmented: ConstU8,
        address_size: ConstU8,
        segment_size: ConstU8,
    ) -> None:
        self.code_factor = code_factor
        self.data_factor = data_factor
        self.address_encoding = address_encoding
        self.lsda_encoding = lsda_encoding
        self.is_augmented = is_augmented
        self.address_size = address_size
        self.segment_size = segment_size


@cython.final
@cython.cclass
class Streams:
    """Instruction streams: data[start:end], for a function at `location`, with the fields of the CIE of index `cie`."""

    def __init__(self, start: ConstI64, end: ConstI64, location: ConstU64, cie: ConstI64) -> None:
        self.start = start
        self.end = end
        self.location = location
        self.cie = cie
