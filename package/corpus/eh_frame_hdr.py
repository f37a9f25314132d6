"""`.eh_frame_hdr` sections with the FDE that the search table has for each PC (LSB Core, .eh_frame_hdr).

Strategy: the rows are drawn as addresses: of a function and of its FDE. The answer is the address of the FDE of the
last row at or before a PC; whether that FDE covers the PC is in `.eh_frame`, which the section alone does not contain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection

from ..converters.arch.table import architecture_named
from ..schemas.eh_frame_hdr import VERSION
from ..schemas.pointers import DW_EH_PE, PointerBases
from .byte_stream import ByteStream
from .case import FAULTY, NONE, UNDECIDED, Answer, Case, WireField, telling_pcs
from .choices import Draw, integers, sampled_from
from .faults import FaultKind, break_field, given, past_the_end
from .machines import machines_without

FIELDS = ("fde",)
SECTION = ".eh_frame_hdr"
MAX_ROWS = 8
OTHER_TABLE, OTHER_COUNT, OTHER_POINTER, EMPTY = "table-encoding", "count-encoding", "pointer-encoding", "empty-table"
FEATURES = (OTHER_TABLE, OTHER_COUNT, OTHER_POINTER, EMPTY)

_ADDRESSES = sampled_from([0x10000, 0x400000, 0x10004])
_DISTANCES = sampled_from([0x4000, -0x8000, 0x100000])
_SPACES = sampled_from([1, 16, 4096, 0x20000])
_FDE_SIZES = sampled_from([16, 20, 24, 40])
_ROWS = integers(0, MAX_ROWS)
_TO_EH_FRAME = 0x1000
# The first one is what linkers write and unwinders search.
_TABLES = (
    DW_EH_PE.datarel | DW_EH_PE.sdata4,
    DW_EH_PE.datarel | DW_EH_PE.sdata8,
    DW_EH_PE.pcrel | DW_EH_PE.sdata4,
    DW_EH_PE.pcrel | DW_EH_PE.sdata8,
    DW_EH_PE.absptr,
    DW_EH_PE.udata4,
    DW_EH_PE.udata8,
)
_COUNTS = (DW_EH_PE.udata4, DW_EH_PE.udata2, DW_EH_PE.udata8, DW_EH_PE.uleb128, DW_EH_PE.absptr)
_POINTERS = (DW_EH_PE.pcrel | DW_EH_PE.sdata4, DW_EH_PE.absptr, DW_EH_PE.datarel | DW_EH_PE.sdata4, DW_EH_PE.udata4)


class _Header:
    """The bytes and the places of the fields."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.layout: list[WireField] = []

    def put(self, name: str, value: int, encoding: int) -> None:
        """An encoded address or number."""
        start, data = len(self.stream.data), self.stream.data
        self.stream.put_pointer(value, encoding, PointerBases(0, self.stream.address, 0))
        stored = int.from_bytes(data[start:], self.stream.byte_order)
        self.layout.append(WireField(name, start, len(data) - start, stored))


def _chosen(draw: Draw, values: tuple[int, ...], feature: str, without: frozenset[str]) -> int:
    """One of some encodings; without the feature the first one."""
    return values[0] if feature in without else draw(sampled_from([values[0], *values]))


def draw_eh_frame_hdr(draw: Draw, kind: int, without: frozenset[str]) -> Case:
    """A valid section of a machine, and the FDE at each PC where a reader could err."""
    arch, order = machines_without(without)[kind]
    architecture = architecture_named(arch, SECTION)
    address = draw(_ADDRESSES)
    table = _chosen(draw, _TABLES, OTHER_TABLE, without)
    number = _chosen(draw, _COUNTS, OTHER_COUNT, without)
    pointer = _chosen(draw, _POINTERS, OTHER_POINTER, without)
    start, fde, rows = address + draw(_DISTANCES), address + _TO_EH_FRAME, []
    for _ in range(draw(_ROWS) if EMPTY not in without else 1 + draw(_ROWS)):
        rows.append((start, fde))
        start += draw(_SPACES)
        fde += draw(_FDE_SIZES)
    out = _Header(ByteStream(order, architecture.address_size, address))
    for name, value in (
        ("version", VERSION),
        ("eh_frame_ptr_enc", pointer),
        ("fde_count_enc", number),
        ("table_enc", table),
    ):
        out.layout.append(WireField(name, len(out.stream.data), 1, value))
        out.stream.put_integer(value, 1)
    out.put("eh_frame_ptr", address + _TO_EH_FRAME, pointer)
    out.put("fde_count", len(rows), number)
    for index, row in enumerate(rows):
        for name, value in zip(("initial_loc", "address"), row, strict=True):
            out.put(f"table[{index}].{name}", value, table)
    used = {OTHER_TABLE: table != _TABLES[0], OTHER_COUNT: number != _COUNTS[0], OTHER_POINTER: pointer != _POINTERS[0]}
    return Case(
        format="eh_frame_hdr",
        version=VERSION,
        architecture=architecture,
        byte_order=order,
        section=SECTION,
        address=address,
        data=bytes(out.stream.data),
        fields=FIELDS,
        answers=_answers(rows),
        header={"version": VERSION, "eh_frame_ptr_enc": pointer, "fde_count_enc": number, "table_enc": table},
        functions=tuple({"start": start, "fde_address": fde} for start, fde in rows),
        features=frozenset(name for name, is_used in (*used.items(), (EMPTY, not rows)) if is_used),
        layout=tuple(out.layout),
    )


def _answers(rows: list[tuple[int, int]]) -> dict[int, Answer]:
    starts = [start for start, _ in rows]
    answers: dict[int, Answer] = {}
    for pc in telling_pcs([(start, 16, ()) for start in starts], 1 << 32) or [0x1000]:
        index = bisect_right(starts, pc) - 1
        answers[pc] = (hex(rows[index][1]),) if index >= 0 else NONE
    return answers


def _with_rows(case: Case, field: WireField) -> list[int]:
    return past_the_end(case, field) if case.functions and field.size in (2, 4, 8) else []


def _after_the_next(case: Case, field: WireField) -> list[int]:
    """A function that starts after the one of the next row."""
    index = int(field.name[len("table[") : field.name.index("]")])
    following = [one for one in case.layout if one.name == f"table[{index + 1}].initial_loc"]
    # Stored values may be relative to their own places.
    return [(one.value + 0x100) % (1 << 8 * field.size) for one in following]


FAULTS: dict[str, FaultKind] = {
    "version": FaultKind("version", given(0, 2, 255), "no such version"),
    "table-encoding-format": FaultKind("table_enc", given(0x3D, 0x07), "no such format of an encoded address"),
    "count-encoding-format": FaultKind("fde_count_enc", given(0x0D, 0x07), "no such format of an encoded number"),
    "pointer-encoding-format": FaultKind("eh_frame_ptr_enc", given(0x1D, 0x17), "no such format of an encoded address"),
    "order": FaultKind(r"table\[\d+\]\.initial_loc", _after_the_next, "after the function of the next row"),
    "fde-count": FaultKind("fde_count", _with_rows, "more rows than the section has bytes"),
}


def break_eh_frame_hdr(draw: Draw, case: Case, names: Collection[str]) -> Case | None:
    """The case with one field broken; None if no fault of these names is possible."""
    possible = [name for name in names if case.functions]
    return break_field(draw, case, FAULTS, possible, _decision)


def _decision(_case: Case, name: str, _field: WireField, _pc: int) -> Answer:
    # A reader that searches does not see all rows, and may find any.
    return UNDECIDED if name == "order" else FAULTY
