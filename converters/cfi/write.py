"""Write a table as `.eh_frame` or `.debug_frame` (DWARF5 6.4; LSB Core, .eh_frame).

Strategy: the few CIEs are built by the reference engine; instruction streams by a kernel, once for all functions that
share them. FDEs are laid out as columns, and their bytes stored into one array. Addresses are filled in last, when the
address of the section is known; the other bytes do not depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import checked
from ...schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from ...schemas.data_classes import dataclass
from ...schemas.section import BuildError, ByteOrder
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
    """A section for any address: its bytes without address fields, and these. `function` is the index of each FDE's
    function in the table."""

    name: str
    byte_order: ByteOrder
    address_size: int
    data: NDArray[np.uint8]
    function: NDArray[np.int64]
    fdes: FdeAddresses
    address_fields: tuple[AddressFields, ...]

    def __len__(self) -> int:
        """The size of the section in bytes."""
        return len(self.data)

    def at(self, section_address: int) -> bytes:
        """The section for a virtual address. Raises BuildError if an address does not fit its field."""
        if not 0 <= section_address < 1 << 8 * self.address_size:
            raise BuildError(
                self.name, None, "section_address", f"{section_address:#x} is not a {8 * self.address_size}-bit address"
            )
        data = self.data.copy()
        put_addresses(self.name, data, self.address_fields, section_address, self.byte_order, self.address_size)
        return data.tobytes()


@checked(table=UnwindTable, section_address=int)
def to_eh_frame(table: UnwindTable, section_address: int = 0) -> tuple[bytes, Refusals]:
    """Encode the table as an `.eh_frame` section for the virtual address `section_address`. Returns also refusals.

    Addresses are relative and have 4 bytes; 8 if one is more than 2 GiB away or a function is larger than 4 GiB. Raises
    BuildError for a table of a relocatable file.
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
    """Build the `.eh_frame_hdr` at the virtual address `address` for the bytes of an `.eh_frame` at `section_address`.

    Raises ParseError for a malformed `.eh_frame`, BuildError for an unknown architecture or if a distance does not fit
    four bytes.
    """
    table = from_eh_frame(eh_frame, section_address, arch)
    fdes = FdeAddresses.of_functions(table.functions)
    return build_eh_frame_hdr(fdes, table.byte_order, table.address_size, section_address, address)


@checked(table=UnwindTable)
def to_debug_frame(table: UnwindTable) -> tuple[bytes, Refusals]:
    """Encode the table as a `.debug_frame` section. Returns also refusals. Raises as `to_eh_frame`."""
    encoded, refusals = frames_from_table(table, DEBUG_FRAME)
    return encoded.at(0), refusals


def frames_from_table(table: UnwindTable, dialect: Dialect, pointer_size: int = 4) -> tuple[EncodedFrames, Refusals]:
    """Encode the table for any section address. Returns also refusals. `pointer_size`, for `.eh_frame` only, is 4 or 8
    bytes."""
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
        streams=choice.encoded,
        initial_instructions=writer.write(choice.cie_streams()),
    )
    return _encoded(layout), refusals_of(table, reason)


def check_expressible(table: UnwindTable, dialect: Dialect, pointer_size: int) -> tuple[UnwindTable, NDArray[np.uint8]]:
    """The table without repetition blocks, and for each function the reason why it cannot be encoded, or 0.

    Raises BuildError for a table of a relocatable file.
    """
    if table.functions.section.any():
        raise BuildError(dialect.name, None, "functions", "the file is relocatable: addresses are not final")
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
    """Functions whose size does not fit address_range, which is unsigned."""
    if pointer_size == 8:
        return np.zeros(len(table), np.bool_)
    return table.functions.size >> np.uint64(8 * pointer_size) > 0


def refusals_of(table: UnwindTable, reason: NDArray[np.uint8]) -> Refusals:
    """Refuse completely each function that has a reason."""
    refused = np.flatnonzero(reason)
    start = table.functions.start[refused]
    return Refusals(refused, start, start + table.functions.size[refused], reason[refused])
