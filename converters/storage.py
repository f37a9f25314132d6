"""How values are stored, as kernels are told (kernels/shared/values.py): made of the schemas' kinds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.forms import FORM_KINDS
from ..schemas.wire import Block, Integer, Kind, Leb, NulTerminated, Sized, SizedBlock, Variable
from .kernels.shared.protocol import Storage

if TYPE_CHECKING:
    from numpy.typing import NDArray


def storage_of(kind: Kind) -> int:
    """Bytes up to 16, or a `Storage`. A kind whose size is that of the DWARF format is the offset of a section."""
    match kind:
        case Integer(size=size):
            return size
        case Sized(size=size_of):
            return int(size_of(None))
        case Variable():
            return Storage.SECTION_OFFSET
        case Leb(signed=signed):
            return Storage.SLEB if signed else Storage.ULEB
        case NulTerminated():
            return Storage.STRING
        case Block():
            return Storage.BLOCK
        case SizedBlock(size=size):
            return Storage.BLOCK + size
    raise TypeError(f"no kernel reads {kind}")


@cache
def form_storages() -> NDArray[np.uint8]:
    """The storage of each form, by its number; a row of 256."""
    storages = np.full(256, Storage.UNKNOWN, np.uint8)
    for form, kind in FORM_KINDS.items():
        storages[form] = storage_of(kind)
    return storages
