"""Assembler text with `.cfi_*` directives as call frame information, without an assembler.

Strategy: directives become call frame instructions as in GNU as, once for each distinct function body: the directives
and the distances between them. The bodies make a `.debug_frame`, each in an FDE at address 0; the functions refer to
them. What this reader cannot measure, such as machine instructions, is refused: assemble the text, and read the object.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.cfi import DEBUG_FRAME, Cie, Fde, FdeFormat
from ...schemas.cfi_sections import build_entry
from ...schemas.data_classes import dataclass
from ...schemas.pointers import DW_EH_PE, is_known
from ...schemas.section import ByteOrder, Section
from ...schemas.text_records import shortened
from ...schemas.wire import DwarfFormat, sleb, uleb
from ..arch.table import Architecture, assembler_of, unwind_registers
from ..arrays import distinct_values
from ..distinct import intern, number_distinct
from ..table.model import FunctionColumns, FunctionFlag
from .instructions import FunctionInstructions, register_number
from .layout import MAX_COLUMN
from .places import Places, lay_out_statements
from .statements import Kind, Statement, StatementError, Statements, number, read_statements
from .write import SECTION, written_address

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class AssembledFrames:
    """The call frame information of a text: `section`, a `.debug_frame` with an FDE for each distinct body; `functions`
    without `run`; `body` i64, the index of each function's FDE; `line`, the line where the first function with each
    body starts."""

    section: Section
    functions: FunctionColumns
    body: NDArray[np.int64]
    line: list[int]


def assemble_frames(text: bytes, architecture: Architecture, address: int | None, order: ByteOrder) -> AssembledFrames:
    """Read a text. `address` is that of its only section with functions; None: as `to_directives` wrote it, else 0.

    Raises ParseError, whose record names the line.
    """
    statements = read_statements(text, assembler_of(architecture).comment)
    start, end = _functions(statements)
    places = lay_out_statements(statements)
    _check_measured(places, start)
    owner = _owners(places, start, end)
    size = places.offset[end] - places.offset[start]
    base = address if address is not None else written_address(text) or 0
    number_of, base_of = _section_numbers(places, start, base)
    columns = FunctionColumns.defaults(
        len(start),
        start=places.offset[start] + base_of[places.section[start]],
        size=size,
        section=number_of[places.section[start]],
        return_column=np.full(len(start), unwind_registers(architecture).ra, np.uint32),
        origin=statements.line[start].astype(np.uint64),
    )
    _check_ends(statements, columns, start, architecture)
    functions = _Properties(places, owner, base_of, architecture).applied(columns)
    data, body, first = _bodies(places, start, end, owner, architecture, order)
    section = Section(DEBUG_FRAME.name, memoryview(data), 0, None, order, architecture.address_size)
    return AssembledFrames(section, functions, body, statements.line[start[first]].tolist())


def _functions(statements: Statements) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices of the statements that start and end each function."""
    kinds = statements.kinds()
    marks = np.flatnonzero((kinds == Kind.START) | (kinds == Kind.END))
    expected = np.where(np.arange(len(marks)) % 2 == 0, Kind.START, Kind.END)
    for wrong in np.flatnonzero(kinds[marks] != expected)[:1].tolist():
        reason = ".cfi_endproc without .cfi_startproc" if wrong % 2 == 0 else ".cfi_startproc inside a function"
        raise statements.error(int(marks[wrong]), reason)
    if len(marks) % 2:
        raise statements.error(int(marks[-1]), "no .cfi_endproc follows")
    if len(marks):
        for index in np.flatnonzero(kinds == Kind.UNREADABLE)[:1].tolist():
            raise statements.error(index, f"{statements.at(index).name} requires an assembler: {ADVICE}")
    return marks[::2], marks[1::2]


ADVICE = "assemble the text, and read the object"


def _check_measured(places: Places, start: NDArray[np.int64]) -> None:
    """Refuse statements of unknown size in sections with functions."""
    statements = places.statements
    is_unknown = statements.kinds() == Kind.UNMEASURED
    for index in np.flatnonzero(is_unknown & np.isin(places.section, places.section[start]))[:1].tolist():
        name = statements.at(index).name
        raise statements.error(index, f"only an assembler knows the size of {shortened(name)}: {ADVICE}")


def _owners(places: Places, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """The function that each statement is in, -1 for none."""
    statements, index = places.statements, np.arange(len(places.section))
    owner = np.searchsorted(start, index, side="right") - 1
    if len(start):
        owner[index > end[owner]] = -1
    kinds = statements.kinds()
    of_function = np.isin(kinds, (Kind.PROPERTY, Kind.CFI, Kind.END))
    for wrong in np.flatnonzero(of_function & (owner < 0))[:1].tolist():
        raise statements.error(wrong, f"{statements.at(wrong).name} outside a function: no .cfi_startproc before it")
    inside = np.flatnonzero(of_function)
    is_elsewhere = places.section[inside] != places.section[start[owner[inside]]]
    for wrong in inside[is_elsewhere][:1].tolist():
        raise statements.error(wrong, "is in another section than the function's .cfi_startproc")
    return owner


def _section_numbers(
    places: Places, start: NDArray[np.int64], base: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """The number of each section as in the table, and the address of its first byte.

    Those that `to_directives` writes keep their numbers. An only section with functions has the number 0; several are
    numbered from 1, in order of appearance.
    """
    with_functions = distinct_values(places.section[start]).tolist()
    number_of = np.zeros(len(places.names), np.uint32)
    for rank, section in enumerate(with_functions, 1):
        suffix = places.names[section].removeprefix(f"{SECTION}.")
        is_ours = suffix.isdecimal() and len(suffix) < 10
        number_of[section] = int(suffix) if is_ours else rank * (len(with_functions) > 1)
    base_of = np.zeros(len(places.names), np.uint64)
    if len(with_functions) == 1 and not number_of[with_functions[0]]:
        base_of[with_functions[0]] = base
    return number_of, base_of


def _check_ends(
    statements: Statements, functions: FunctionColumns, start: NDArray[np.int64], architecture: Architecture
) -> None:
    """Refuse a function that extends past the end of the address space."""
    last = np.uint64((1 << 8 * architecture.address_size) - 1)
    past = np.flatnonzero((functions.start > last) | (functions.size > last - np.minimum(functions.start, last)))
    for wrong in past[:1].tolist():
        raise statements.error(int(start[wrong]), "the function extends past the end of the address space")


_FLAGS = {
    ".cfi_signal_frame": FunctionFlag.SIGNAL_FRAME,
    ".cfi_b_key_frame": FunctionFlag.PAUTH_B_KEY,
    ".cfi_mte_tagged_frame": FunctionFlag.MEMORY_TAGGING,
}


@dataclass(frozen=True, slots=True, eq=False)
class _Properties:
    """The directives that apply to whole functions."""

    places: Places
    owner: NDArray[np.int64]
    base_of: NDArray[np.uint64]
    architecture: Architecture

    def applied(self, functions: FunctionColumns) -> FunctionColumns:
        """The functions with their properties. Each distinct directive is read once."""
        statements = self.places.statements
        found = np.flatnonzero(statements.kinds() == Kind.PROPERTY)
        _, first, which = np.unique(statements.number[found], return_index=True, return_inverse=True)
        which = which.reshape(-1)
        read = [self._read(index) for index in found[first].tolist()]
        changed = {}
        for name in {name for one in read for name in one}:
            column = getattr(functions, name).copy()
            has = np.array([name in one for one in read], np.bool_)[which]
            values = np.array([one.get(name, 0) for one in read], np.uint64)[which][has].astype(column.dtype)
            if name == "flags":
                np.bitwise_or.at(column, self.owner[found[has]], values)
            else:
                column[self.owner[found[has]]] = values
            changed[name] = column
        return replace(functions, **changed)

    def _read(self, index: int) -> dict[str, int]:
        """The columns that a directive sets; flags are added."""
        statement = self.places.statements.at(index)
        try:
            return self._columns_of(statement, index)
        except StatementError as error:
            raise self.places.statements.error(index, str(error)) from error

    def _columns_of(self, statement: Statement, index: int) -> dict[str, int]:
        match statement.name, statement.arguments:
            case name, () if name in _FLAGS:
                return {"flags": _FLAGS[name]}
            case ".cfi_return_column", (register,):
                return {"return_column": self._column(register)}
            case ".cfi_personality", (encoding, *symbol):
                return self._pointer("personality", encoding, symbol, index)
            case ".cfi_lsda", (encoding, *symbol):
                return self._pointer("lsda", encoding, symbol, index)
        raise StatementError(f"{statement.name} does not take {len(statement.arguments)} arguments")

    def _column(self, text: str) -> int:
        column = register_number(text, self.architecture)
        if column > MAX_COLUMN:
            raise StatementError(f"the return column {column} does not fit one byte")
        return column

    def _pointer(self, kind: str, encoding_text: str, symbol: list[str], index: int) -> dict[str, int]:
        encoding = number(encoding_text)
        if encoding is None or not 0 <= encoding <= 0xFF or not is_known(encoding):
            raise StatementError(f"{shortened(encoding_text)} is not the encoding of a pointer")
        if encoding == DW_EH_PE.omit:
            return {}
        if len(symbol) != 1:
            raise StatementError(f"a {kind} has one symbol")
        value = self.places.symbols.value(symbol[0], index)
        address = value.number + (0 if value.section is None else int(self.base_of[value.section]))
        address &= (1 << 8 * self.architecture.address_size) - 1
        if kind == "personality":
            return {"personality_encoding": encoding, "personality": address}
        is_null = value.is_known and value.section is None and not address  # readers take 0 for no pointer
        return {} if is_null else {"flags": FunctionFlag.HAS_LSDA, "lsda": address}


def _bodies(
    places: Places,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    architecture: Architecture,
    order: ByteOrder,
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """The bytes of a `.debug_frame`, the index of each function's FDE, and the first function of each FDE."""
    statements = places.statements
    events = np.flatnonzero(statements.kinds() == Kind.CFI)
    offset, of = places.offset[events], owner[events]
    before = np.append(np.uint64(0), offset[:-1])[: len(events)]
    is_first = np.diff(of, prepend=-1) != 0
    before[is_first] = places.offset[start[of[is_first]]]
    pairs = np.column_stack([(offset - before).view(np.int64), statements.number[events]])
    last = np.searchsorted(of, np.arange(len(start)), side="right")
    first_event = np.append(0, last[:-1])[: len(start)]
    size = (places.offset[end] - places.offset[start]).view(np.int64)
    kind, _ = number_distinct(size, statements.number[start])
    body, first = intern(pairs.view(np.uint8).reshape(-1), 16 * first_event, 16 * last, kind)
    frames = _Frames(architecture, order)
    for function in first.tolist():
        is_simple = _is_simple(statements, int(start[function]))
        instructions = FunctionInstructions(architecture, order, is_simple)
        for index in range(int(first_event[function]), int(last[function])):
            try:
                if pairs[index, 0]:
                    instructions.advance(int(pairs[index, 0]))
                instructions.add(statements.distinct[int(pairs[index, 1])])
            except StatementError as error:
                raise statements.error(int(events[index]), str(error)) from error
        frames.add(instructions, int(size[function]))
    return bytes(frames.data), body.astype(np.int64), first


def _is_simple(statements: Statements, index: int) -> bool:
    """Whether a `.cfi_startproc` sets no rules."""
    arguments = statements.at(index).arguments
    if arguments not in ((), ("simple",)):
        raise statements.error(index, f".cfi_startproc {shortened(', '.join(arguments))} is not supported")
    return bool(arguments)


class _Frames:
    """The bytes of a `.debug_frame` that grows: a CIE for each distinct content, an FDE for each body."""

    def __init__(self, architecture: Architecture, order: ByteOrder) -> None:
        self.data = bytearray()
        self._architecture, self._order = architecture, order
        self._layout = FdeFormat(architecture.address_size)
        self._cies: dict[bytes, int] = {}

    def add(self, instructions: FunctionInstructions, size: int) -> None:
        """Append the FDE of a body of `size` bytes, and its CIE if that is new."""
        initial = bytes(instructions.initial)
        if initial not in self._cies:
            self._cies[initial] = len(self.data)
            self._append(self._cie(initial))
        self._append(Fde(DwarfFormat.DWARF32, self._cies[initial], None, 0, size, None, bytes(instructions.rest)))

    def _cie(self, initial: bytes) -> Cie:
        assembler = assembler_of(self._architecture)
        factors = uleb(assembler.code_alignment_factor), sleb(assembler.data_alignment_factor)
        column = uleb(unwind_registers(self._architecture).ra)
        return Cie(DwarfFormat.DWARF32, 3, b"", None, None, None, *factors, column, None, initial)

    def _append(self, entry: Cie | Fde) -> None:
        self.data += build_entry(entry, DEBUG_FRAME, self._order, self._layout, len(self.data))
