"""The table as call frame information: `.eh_frame` and `.debug_frame` (DWARF5 6.4; LSB Core, .eh_frame).

Strategy: the few CIEs are built by the reference engine, streams by a kernel, once for all functions that share them;
FDEs are laid out as columns, their bytes scattered into one array. Addresses come last, when it is known where the
section will be: all but they are the same wherever it goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from ...schemas.section import BuildError, ByteOrder
from ...schemas.wire import LENGTH_RESERVED
from ..refusals import Reason, Refusals
from ..table.model import FunctionFlag, UnwindTable
from ..table.pcmask import without_repetition
from .choose_cies import choose_cies
from .eh_frame_hdr import FdeAddresses, build_eh_frame_hdr
from .layout import AddressFields, FrameLayout, fill_headers, lay_out_cies, lay_out_fdes, put_addresses
from .read import from_eh_frame
from .write_instructions import StreamWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray

TERMINATOR = bytes(4)  # a length of 0 ends .eh_frame (LSB Core 10.6.1)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedFrames:
    """A section that can be put anywhere: its bytes without addresses. `function` is the index in the table of each
    FDE's function."""

    name: str
    byte_order: ByteOrder
    address_size: int
    data: NDArray[np.uint8]
    function: NDArray[np.int64]
    fdes: FdeAddresses
    address_fields: tuple[AddressFields, ...]

    def __len__(self) -> int:
        """Bytes of the section."""
        return len(self.data)

    def at(self, section_address: int) -> bytes:
        """The section for a virtual address. Raises BuildError where an address is beyond its field's range."""
        if not 0 <= section_address < 1 << 8 * self.address_size:
            raise BuildError(self.name, None, "section_address", f"{section_address:#x} is no address")
        data = self.data.copy()
        put_addresses(self.name, data, self.address_fields, section_address, self.byte_order, self.address_size)
        return data.tobytes()


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
    table = from_eh_frame(eh_frame, section_address, arch)
    fdes = FdeAddresses.of_functions(table.functions)
    return build_eh_frame_hdr(fdes, table.byte_order, table.address_size, section_address, address)


def to_debug_frame(table: UnwindTable) -> tuple[bytes, Refusals]:
    """The table as a `.debug_frame` section, and what could not be said. Raises BuildError as `to_eh_frame` does."""
    encoded, refusals = frames_from_table(table, DEBUG_FRAME)
    return encoded.at(0), refusals


def frames_from_table(table: UnwindTable, dialect: Dialect, pointer_size: int = 4) -> tuple[EncodedFrames, Refusals]:
    """As these, but for the address; `pointer_size`, of `.eh_frame` alone, is 4 or 8 bytes."""
    pointer_size = min(pointer_size, table.address_size) if dialect is EH_FRAME else table.address_size
    table, reason = check_expressible(table, dialect, pointer_size)
    which = np.flatnonzero(reason == 0)
    writer = StreamWriter(table)
    choice = choose_cies(writer, which)
    is_encoded = choice.stream >= 0
    reason[which[~is_encoded]] = Reason.RULE_LOST
    layout = FrameLayout(
        table,
        dialect,
        pointer_size,
        choice.keys,
        function=which[is_encoded],
        cie=choice.stream_cie[choice.stream[is_encoded]],
        stream=choice.stream[is_encoded],
        streams=writer.write(choice.streams()),
        initial_instructions=writer.write(choice.cie_streams()),
    )
    return _encoded(layout), refusals_of(table, reason)


def check_expressible(table: UnwindTable, dialect: Dialect, pointer_size: int) -> tuple[UnwindTable, NDArray[np.uint8]]:
    """The table as rows alone, and for each function the reason why it can't be said, or 0.

    Raises BuildError for a table of a relocatable file.
    """
    if table.functions.section.any():
        raise BuildError(
            dialect.name, None, "functions", "are of a relocatable file: their addresses are not known yet"
        )
    table, reason = without_repetition(table)
    is_unknown = table.functions.flags & FunctionFlag.UNKNOWN_AUGMENTATION > 0
    reason[is_unknown] = Reason.AUGMENTATION
    if dialect is EH_FRAME:
        reason[table.functions.segment > 0] = Reason.SEGMENT
    reason[_is_too_large(table, pointer_size)] = Reason.TOO_LARGE
    return table, reason


def _encoded(layout: FrameLayout) -> EncodedFrames:
    cies, cie_offset, address_fields = lay_out_cies(layout)
    fdes = lay_out_fdes(layout, len(cies), cie_offset)
    end = TERMINATOR if layout.is_eh else b""
    data = np.concatenate([np.frombuffer(cies, np.uint8), fdes.data, np.frombuffer(end, np.uint8)])
    if len(data) >= LENGTH_RESERVED:
        raise BuildError(layout.dialect.name, None, "FDE.cie_pointer", "the section is larger than 4 GiB")
    address_fields = (*address_fields, *fill_headers(fdes.headers, fdes.fields, data))
    return EncodedFrames(
        name=layout.dialect.name,
        byte_order=layout.table.byte_order,
        address_size=layout.table.address_size,
        data=data,
        function=layout.function,
        fdes=FdeAddresses(fdes.fields.offset, fdes.fields.start, fdes.fields.length),
        address_fields=tuple(one for one in address_fields if len(one.offset)),
    )


def _is_too_large(table: UnwindTable, pointer_size: int) -> NDArray[np.bool_]:
    """Functions whose size has no room in an address_range, which is unsigned."""
    if pointer_size == 8:
        return np.zeros(len(table), np.bool_)
    return table.functions.size >> np.uint64(8 * pointer_size) > 0


def refusals_of(table: UnwindTable, reason: NDArray[np.uint8]) -> Refusals:
    """The functions that have a reason, each refused whole."""
    refused = np.flatnonzero(reason)
    start = table.functions.start[refused]
    return Refusals(refused, start, start + table.functions.size[refused], reason[refused])
