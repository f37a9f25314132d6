"""Call frame instructions as GNU readelf 2.47 prints them (`-wf`), and as JSON values.

Strategy: operands are decoded with the schema's operand table; names are those of DW_CFA. The format of the operands
depends on the effect of an instruction, so all instructions with one effect share a format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....schemas.cfi import DW_CFA, INSTRUCTIONS, Effect, Operand
from ....schemas.section import Section
from ...arch.registers import register_name, register_text
from ...distinct import intern
from ...dwarf.expression_text import expression_text, operation_texts
from .entries import DecodedEntries

if TYPE_CHECKING:
    from numpy.typing import NDArray

# `{0}` and `{1}` are the operands; the PC after an advance follows.
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


def distinct_instructions(entries: DecodedEntries) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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


def instruction_texts(entries: DecodedEntries, machine: str, which: NDArray[np.int64]) -> list[bytes]:
    """The lines of instructions; those that move to a PC end without line feed, because the PC follows."""
    found = []
    for instruction in _instructions(entries, which):
        spec = INSTRUCTIONS[instruction.opcode]
        form = _FORMATS.get(spec.effect, _SIZE_FORMAT if spec.operands else "")
        shown = (_shown(kind, value, machine) for kind, value in zip(spec.operands, instruction.operands, strict=True))
        end = "" if spec.effect in MOVES else "\n"
        found.append(f"  {instruction_name(instruction.opcode, machine)}{form.format(*shown)}{end}".encode())
    return found


def plain_instructions(entries: DecodedEntries, machine: str, which: NDArray[np.int64]) -> list[dict[str, Any]]:
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


def _instructions(entries: DecodedEntries, which: NDArray[np.int64]) -> Iterator[_Decoded]:
    """Yield instructions as objects."""
    decoded, section = entries.decoded, entries.section
    size = entries.layout.address_size[decoded.cie[which]]
    columns = (decoded.opcode, decoded.first, decoded.second, decoded.end)
    rows = zip(*(column[which].tolist() for column in columns), size.tolist(), strict=True)
    for opcode, first, second, end, address_size in rows:
        operands: list[int | Section] = []
        for kind, value in zip(INSTRUCTIONS[DW_CFA(opcode)].operands, (first, second), strict=False):
            if kind is Operand.BLOCK:
                block = section.data[end - value : end]
                place = None if section.file_offset is None else section.file_offset + end - value
                operands.append(Section(section.name, block, end - value, place, section.byte_order, address_size))
            else:
                operands.append(value % (1 << 64) if kind is Operand.SIZE else value)
        yield _Decoded(DW_CFA(opcode), tuple(operands))


def _shown(kind: Operand, value: int | Section, machine: str) -> int | str:
    """An operand as readelf shows it."""
    if isinstance(value, Section):
        return expression_text(value, machine)
    return register_text(machine, value) if kind in _REGISTERS else value


def _plain(kind: Operand, value: int | Section, machine: str) -> int | str | list[str]:
    """An operand as a JSON value."""
    if isinstance(value, Section):
        return operation_texts(value, machine)
    return register_name(machine, value) if kind in _REGISTERS else value
