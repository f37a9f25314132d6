"""Call frame instructions as GNU readelf 2.47 prints them (`-wf`), and as JSON values.

Strategy: operands are decoded with the schema's operand table; names are those of DW_CFA. The format of the operands
depends on the effect of an instruction, so all instructions with one effect share a format.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....schemas.cfi import DW_CFA, INSTRUCTIONS, Effect, Operand
from ....schemas.section import Section
from ...arch.registers import register_count, register_name, register_text
from ...distinct import intern
from ...dwarf.expression_text import operation_texts
from ...kernels.cfi.protocol import Form, Shown
from .entries import DecodedEntries, Instructions

if TYPE_CHECKING:
    from numpy.typing import NDArray

# `{0}` and `{1}` are the operands, in this order; the PC after an advance follows.
_FORMATS: dict[Effect, str] = {
    Effect.ADVANCE: ": {0} to ",
    Effect.SET_LOCATION: ": ",
    Effect.CFA: ": {0} ofs {1}",
    Effect.CFA_REGISTER: ": {0}",
    Effect.CFA_OFFSET: ": {0}",
    Effect.CFA_EXPRESSION: " ({0})",
    Effect.UNDEFINED: ": {0}",
    Effect.SAME_VALUE: ": {0}",
    Effect.OFFSET: ": {0} at cfa{1:+}",
    Effect.VAL_OFFSET: ": {0} is cfa{1:+}",
    Effect.REGISTER: ": {0} in {1}",
    Effect.EXPRESSION: ": {0} ({1})",
    Effect.VAL_EXPRESSION: ": {0} ({1})",
    Effect.RESTORE: ": {0}",
}
_SIZE_FORMAT = ": {0}"

MOVES = (Effect.ADVANCE, Effect.SET_LOCATION)
_REGISTERS = (Operand.REGISTER, Operand.INLINE_REGISTER)


def distinct_instructions(entries: DecodedEntries[Instructions]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the decoded instructions: those with equal text get the same number. Returns also the first of each."""
    decoded = entries.decoded
    # The text depends on the CIE only by factors and address size, which few CIEs differ in.
    kinds: dict[tuple[int, ...], int] = {}
    columns = (entries.layout.code_factor, entries.layout.data_factor, entries.layout.address_size)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    kind = np.array([kinds.setdefault(row, len(kinds)) for row in rows], np.int64)
    data = np.frombuffer(entries.section.data, np.uint8)
    number, first = intern(data, decoded.begin, decoded.end, kind[decoded.cie])
    return number.astype(np.int64), first


def instruction_name(opcode: int, machine: str) -> str:
    """`DW_CFA_...`. If a number has two names, one is for AArch64 and the other for all other machines."""
    names = [name for name, member in DW_CFA.__members__.items() if member == opcode]
    of_machine = [name for name in names if name.startswith("AARCH64_") is (machine == "EM_AARCH64")]
    return f"DW_CFA_{(of_machine or names)[0]}"


def instruction_forms(machine: str) -> tuple[NDArray[np.int64], NDArray[np.int64], list[bytes]]:
    """The lines of instructions as kernels take them: a row of `Form` per opcode, the word of each register, and the
    words. A line that moves to a PC ends without line feed, because the PC follows."""
    words = [b""]
    forms = np.zeros((256, len(Form)), np.int64)
    for opcode, spec in INSTRUCTIONS.items():
        form = _FORMATS.get(spec.effect, _SIZE_FORMAT if spec.operands else "")
        line = f"  {instruction_name(opcode, machine)}{form}" + ("" if spec.effect in MOVES else "\n")
        for column, (text, operand, sign, _) in enumerate(Formatter().parse(line)):
            forms[opcode, 2 * column] = len(words)
            words.append(text.encode())
            if operand is not None:
                forms[opcode, 2 * column + 1] = _shown(spec.operands[int(operand)], sign)
    first = len(words)
    words += [register_text(machine, number).encode() for number in range(register_count(machine))]
    return forms, np.arange(first, len(words)), words


def _shown(kind: Operand, sign: str | None) -> Shown:
    """How a line shows an operand."""
    if kind in _REGISTERS:
        return Shown.REGISTER
    if kind is Operand.BLOCK:
        return Shown.BLOCK
    if kind is Operand.SIZE:
        return Shown.UNSIGNED
    return Shown.WITH_SIGN if sign else Shown.DECIMAL


def expression_at(section: Section, start: int, end: int, address_size: int) -> Section:
    """An expression, as a section of its own."""
    place = None if section.file_offset is None else section.file_offset + start
    return Section(section.name, section.data[start:end], start, place, section.byte_order, address_size)


def plain_instructions(
    entries: DecodedEntries[Instructions], machine: str, which: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Instructions as JSON values: registers by name, numbers with factors applied, operations as text.

    The address of DW_CFA_set_loc is not an operand here: it is the `location` after the instruction.
    """
    return [
        {
            "name": instruction_name(one.opcode, machine),
            "operands": [
                _plain(kind, value, machine)
                for kind, value in zip(INSTRUCTIONS[one.opcode].operands, one.operands, strict=True)
            ],
        }
        for one in _instructions(entries, which)
    ]


class _Decoded(NamedTuple):
    """One instruction; operands are numbers with factors applied, or expressions."""

    opcode: DW_CFA
    operands: tuple[int | Section, ...]


def _instructions(entries: DecodedEntries[Instructions], which: NDArray[np.int64]) -> Iterator[_Decoded]:
    """Yield instructions as objects."""
    decoded, section = entries.decoded, entries.section
    size = entries.layout.address_size[decoded.cie[which]]
    columns = (decoded.opcode, decoded.first, decoded.second, decoded.end)
    rows = zip(*(column[which].tolist() for column in columns), size.tolist(), strict=True)
    for opcode, first, second, end, address_size in rows:
        operands: list[int | Section] = []
        for kind, value in zip(INSTRUCTIONS[DW_CFA(opcode)].operands, (first, second), strict=False):
            if kind is Operand.BLOCK:
                operands.append(expression_at(section, end - value, end, address_size))
            else:
                operands.append(value % (1 << 64) if kind is Operand.SIZE else value)
        yield _Decoded(DW_CFA(opcode), tuple(operands))


def _plain(kind: Operand, value: int | Section, machine: str) -> int | str | list[str]:
    """An operand as a JSON value."""
    if isinstance(value, Section):
        return operation_texts(value, machine)
    return register_name(machine, value) if kind in _REGISTERS else value
