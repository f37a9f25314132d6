"""How values are stored, in the codes of kernels/shared/values.py: made from the schemas' kinds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ...schemas.forms import FORM_KINDS
from ...schemas.pointers import APPLICATION_SHIFT, DW_EH_PE, FORMAT_SIZES, NO_BASES, PointerBases, base_of
from ...schemas.section import ParseError, Section
from ...schemas.wire import Block, Integer, Kind, Leb, NulTerminated, Sized, SizedBlock, Variable
from . import engine, views
from .protocol import Fault
from .shared.protocol import Storage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .shared.reads import Reader


@cache
def pointer_sizes() -> NDArray[np.uint8]:
    """Bytes of each DW_EH_PE format, 0 for an address, 255 for a LEB128, as kernels take them."""
    sizes = np.zeros(16, np.uint8)
    for form, size in FORMAT_SIZES.items():
        sizes[form] = 255 if size is None else size
    return sizes


def reader_of(section: Section, data: memoryview | None = None, bases: PointerBases = NO_BASES) -> Reader:
    """A kernel's reader of a section's bytes, or of some of them, which are then no place for pcrel values."""
    bytes_read = np.frombuffer(section.data if data is None else data, np.uint8)
    by_application = np.zeros(8, np.uint64)
    for application in (DW_EH_PE.textrel, DW_EH_PE.datarel, DW_EH_PE.funcrel):
        by_application[application >> APPLICATION_SHIFT] = base_of(application, 0, bases)
    is_big = int(section.byte_order == "big")
    columns = views(bytes_read, pointer_sizes(), by_application)
    return engine.shared.reads.Reader(is_big, section.address, *columns)


def refuse(section: Section, record: str, reader: Reader, base: int = 0) -> NoReturn:
    """Raise what a kernel found; `base` is the section offset of the reader's bytes."""
    raise ParseError(section, base + reader.offset, record, Fault(reader.fault).sentence)


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
