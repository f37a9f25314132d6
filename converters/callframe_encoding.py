"""The table as call frame information: `.eh_frame` and `.debug_frame` (DWARF5 6.4; LSB Core, .eh_frame).

Strategy: the few CIEs are built by the reference engine, streams by a kernel, once for all functions that share them;
FDEs are laid out as columns, their bytes scattered into one array. Addresses come last, when it is known where the
section will be: all but they are the same wherever it goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.callframe import DEBUG_FRAME, EH_FRAME, Dialect
from ..schemas.section import BuildError, ByteOrder, Section
from ..schemas.wire import LENGTH_RESERVED
from .arch import ARCHITECTURES
from .callframe import table_from_cfi
from .callframe_cies import choose_cies
from .callframe_layout import Layout, Places, fill_heads, laid_out_cies, laid_out_fdes, put
from .callframe_streams import StreamWriter
from .eh_frame_hdr import build_eh_frame_hdr
from .refusals import Reason, Refusals
from .repetition import without_repetition
from .unwind import FunctionFlag, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

TERMINATOR = bytes(4)  # a length of 0 ends .eh_frame (LSB Core 10.6.1)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedFrames:
    """A section that may stand anywhere: its bytes but for addresses. `function` is the table's of each FDE, `fde` its
    section offset, `start` its first address."""

    name: str
    byte_order: ByteOrder
    address_size: int
    data: NDArray[np.uint8]
    function: NDArray[np.int64]
    fde: NDArray[np.int64]
    start: NDArray[np.uint64]
    places: tuple[Places, ...]

    def __len__(self) -> int:
        """Bytes of the section."""
        return len(self.data)

    def at(self, section_address: int) -> bytes:
        """The section for a virtual address. Raises BuildError where an address is beyond its field's range."""
        if not 0 <= section_address < 1 << 8 * self.address_size:
            raise BuildError(self.name, None, "section_address", f"{section_address:#x} is no address")
        data = self.data.copy()
        for places in self.places:
            values = places.value
            if places.is_relative:
                values = values - (places.offset.astype(np.uint64) + np.uint64(section_address))
            self._check(places, values, section_address)
            put(data, places.offset, values, places.size, self.byte_order)
        return data.tobytes()

    def _check(self, places: Places, values: NDArray[np.uint64], section_address: int) -> None:
        """Refuse what does not fit; addresses of 4 bytes wrap."""
        if places.size >= self.address_size:
            return
        half = 1 << 8 * places.size - 1
        signed = values.view(np.int64)
        far = np.flatnonzero((signed < -half) | (signed >= half))
        if len(far):
            at, target = int(places.offset[far[0]]), int(places.value[far[0]])
            reason = f"{target:#x} is more than 2 GiB from the section at {section_address:#x}"
            raise BuildError(self.name, at, places.name, reason)


def to_eh_frame(table: UnwindTable, section_address: int = 0) -> tuple[bytes, Refusals]:
    """The table as an `.eh_frame` section for the virtual address `section_address`, and what could not be said.

    Addresses are relative and have 4 bytes, or 8 where one is farther than 2 GiB away or a function larger than 4.
    Raises BuildError for a table of a relocatable file.
    """
    if not (table.functions.size >> np.uint64(32)).any():
        encoded, refusals = frames_from_table(table, EH_FRAME)
        try:
            return encoded.at(section_address), refusals
        except BuildError:
            if table.address_size == 4:
                raise
    encoded, refusals = frames_from_table(table, EH_FRAME, pointer_size=8)
    return encoded.at(section_address), refusals


def to_eh_frame_hdr(eh_frame: bytes, section_address: int, address: int, arch: str) -> bytes:
    """The `.eh_frame_hdr` for the virtual address `address`, of the bytes of an `.eh_frame` at `section_address`.

    Raises ParseError for what is no `.eh_frame`, BuildError for an unknown architecture or where a distance does not
    fit four bytes.
    """
    if arch not in ARCHITECTURES:
        raise BuildError(EH_FRAME.name, None, "arch", f"{arch!r} is none of {', '.join(ARCHITECTURES)}")
    architecture = ARCHITECTURES[arch]
    order, size = architecture.byte_order, architecture.address_size
    section = Section(EH_FRAME.name, memoryview(eh_frame), section_address, None, order, size)
    return build_eh_frame_hdr(table_from_cfi(section, EH_FRAME, architecture), section_address, address)


def to_debug_frame(table: UnwindTable) -> tuple[bytes, Refusals]:
    """The table as a `.debug_frame` section, and what could not be said. Raises BuildError as `to_eh_frame` does."""
    encoded, refusals = frames_from_table(table, DEBUG_FRAME)
    return encoded.at(0), refusals


def frames_from_table(table: UnwindTable, dialect: Dialect, pointer_size: int = 4) -> tuple[EncodedFrames, Refusals]:
    """As these, but for the address; `pointer_size`, of `.eh_frame` alone, is 4 or 8 bytes."""
    if table.functions.section.any():
        raise BuildError(
            dialect.name, None, "functions", "are of a relocatable file: their addresses are not known yet"
        )
    pointer_size = min(pointer_size, table.address_size) if dialect is EH_FRAME else table.address_size
    table, reason = without_repetition(table)
    is_unknown = table.functions.flags & FunctionFlag.UNKNOWN_AUGMENTATION > 0
    reason[is_unknown] = Reason.AUGMENTATION
    if dialect is EH_FRAME:
        reason[table.functions.segment > 0] = Reason.SEGMENT
    reason[_is_too_large(table, pointer_size)] = Reason.TOO_LARGE
    which = np.flatnonzero(reason == 0)
    writer = StreamWriter(table)
    choice = choose_cies(writer, which)
    is_said = choice.job >= 0
    reason[which[~is_said]] = Reason.RULE_LOST
    layout = Layout(
        table,
        dialect,
        pointer_size,
        choice.shapes,
        function=which[is_said],
        cie=choice.job_cie[choice.job[is_said]],
        job=choice.job[is_said],
        streams=writer.write(choice.streams()),
        beginnings=writer.write(choice.cie_streams()),
    )
    return _encoded(layout), _refusals(table, reason)


def _encoded(layout: Layout) -> EncodedFrames:
    cies, cie_offset, places = laid_out_cies(layout)
    fdes = laid_out_fdes(layout, len(cies))
    end = TERMINATOR if layout.is_eh else b""
    data = np.concatenate([np.frombuffer(cies, np.uint8), fdes.data, np.frombuffer(end, np.uint8)])
    if len(data) >= LENGTH_RESERVED:
        raise BuildError(layout.dialect.name, None, "FDE.cie_pointer", "the section is larger than 4 GiB")
    places = (*places, *fill_heads(layout, fdes, cie_offset, data))
    table, functions = layout.table, layout.table.functions
    return EncodedFrames(
        name=layout.dialect.name,
        byte_order=table.byte_order,
        address_size=table.address_size,
        data=data,
        function=layout.function,
        fde=fdes.offset,
        start=functions.start[layout.function],
        places=tuple(one for one in places if len(one.offset)),
    )


def _is_too_large(table: UnwindTable, pointer_size: int) -> NDArray[np.bool_]:
    """Functions whose size has no room in an address_range, which is unsigned."""
    if pointer_size == 8:
        return np.zeros(len(table), np.bool_)
    return table.functions.size >> np.uint64(8 * pointer_size) > 0


def _refusals(table: UnwindTable, reason: NDArray[np.uint8]) -> Refusals:
    refused = np.flatnonzero(reason)
    start = table.functions.start[refused]
    return Refusals(refused, start, start + table.functions.size[refused], reason[refused])
