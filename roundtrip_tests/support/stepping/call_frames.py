"""One step of unwinding by the bytes of an `.eh_frame` or `.debug_frame` section.

Strategy: no product code. Entries and instructions are from DWARF5 6.4 and 7.24, augmentations and pointers from the
LSB Core specification, vendor instructions from binutils' `dwarf2.def`. A PC that two FDEs cover belongs to the one
that starts first.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..judges.rpn import leb, run
from .frames import Caller, Frame, Kind, Place
from .machines import Machine

Rule = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Cie:
    code_factor: int
    data_factor: int
    return_column: int
    augmentation: str
    pointer_encoding: int
    instructions: bytes


@dataclass(frozen=True, slots=True)
class _Fde:
    start: int
    end: int
    cie: _Cie
    instructions: bytes


@dataclass(frozen=True, slots=True)
class _Row:
    """`signed`: 1 if the return address is, 3 if with the PC."""

    start: int
    cfa: Rule | None
    rules: dict[int, Rule]
    signed: int = 0


class CallFrames:
    """The section `data` at `address`. `origin` is added to starts that are not relative to themselves."""

    def __init__(
        self,
        machine: Machine,
        data: bytes,
        address: int,
        order: Literal["little", "big"],
        *,
        is_eh: bool,
        origin: int = 0,
    ) -> None:
        self.origin = origin
        self.machine, self.data, self.address, self.order, self.is_eh = machine, data, address, order, is_eh
        self.words = machine.words(order)
        self.cies: dict[int, _Cie] = {}
        fdes = sorted(self._entries(), key=lambda one: one.start)
        self.fdes: list[tuple[int, _Fde]] = []
        reach = 0
        for one in fdes:
            if one.end > max(reach, one.start):
                self.fdes.append((max(reach, one.start), one))
                reach = one.end
        self.starts = [start for start, _ in self.fdes]
        self.rows: dict[int, list[_Row]] = {}

    def spots(self) -> list[tuple[int, int]]:
        """The address range of every row."""
        found = []
        for index, (begin, fde) in enumerate(self.fdes):
            rows = self._rows_of(index)
            ends = [*(row.start for row in rows[1:]), fde.end]
            found += [
                (max(begin, row.start), end) for row, end in zip(rows, ends, strict=True) if end > max(begin, row.start)
            ]
        return found

    def step(self, frame: Frame) -> Caller | None:
        """The caller of a frame; None if no FDE covers its PC, or its row has neither CFA nor rules."""
        index = bisect_right(self.starts, frame.pc) - 1
        if index < 0 or frame.pc >= self.fdes[index][1].end:
            return None
        row = next(row for row in reversed(self._rows_of(index)) if row.start <= frame.pc)
        if row.cfa is None and not row.rules:
            return None
        return self._caller(frame, row, self.fdes[index][1].cie.return_column)

    def _caller(self, frame: Frame, row: _Row, column: int) -> Caller:
        machine, cfa = self.machine, None
        match row.cfa:
            case ("register", int(register), int(offset)):
                cfa = frame.registers[register] + offset & frame.mask
            case ("expression", bytes(expression)):
                cfa = run(expression, frame.registers, frame.word, None, self.words)
        places = {register: self._place(frame, register, rule, cfa) for register, rule in row.rules.items()}
        if machine.sp not in places and not machine.keeps_sp and cfa is not None:
            places[machine.sp] = Place(Kind.VALUE, cfa - machine.bias & frame.mask)
        none = None if machine.pushes_ra and column == machine.ra else Place(Kind.REGISTER, column)
        return Caller(cfa, places.get(column, none), places, column, row.signed)

    def _place(self, frame: Frame, register: int, rule: Rule, cfa: int | None) -> Place | None:
        if rule[0] in ("same", "undefined"):
            return Place(Kind.REGISTER, register) if rule[0] == "same" else None
        if rule[0] == "register":
            return Place(Kind.REGISTER, rule[1])
        if cfa is None:
            raise ValueError(f"a rule without a CFA: {rule}")
        if rule[0] in ("offset", "val_offset"):
            at = cfa + rule[1] & frame.mask
        else:
            at = run(rule[1], frame.registers, frame.word, cfa, self.words)
        return Place(Kind.MEMORY if rule[0] in ("offset", "expression") else Kind.VALUE, at)

    # --- entries --------------------------------------------------------------------------------------------

    def _number(self, at: int, size: int, *, is_signed: bool = False) -> int:
        return int.from_bytes(self.data[at : at + size], self.order, signed=is_signed)

    def _entries(self) -> list[_Fde]:
        found, at = [], 0
        while at + 4 <= len(self.data):
            length, width = self._number(at, 4), 4
            begin = at + 4
            if length == 0xFFFFFFFF:
                length, width, begin = self._number(at + 4, 8), 8, at + 12
            if length == 0 and self.is_eh:
                break
            end = begin + length
            # The CIE pointer of .eh_frame has 4 bytes in both formats.
            width = 4 if self.is_eh else width
            pointer = self._number(begin, width)
            is_cie = pointer == 0 if self.is_eh else pointer == (1 << 8 * width) - 1
            if not is_cie:
                cie = self._cie(begin - pointer if self.is_eh else pointer)
                found.append(self._fde(begin + width, end, cie))
            at = end
        return found

    def _cie(self, at: int) -> _Cie:
        if at in self.cies:
            return self.cies[at]
        is_long = self._number(at, 4) == 0xFFFFFFFF
        begin = at + (12 if is_long else 4)
        end = begin + self._number(at + 4 if is_long else at, 8 if is_long else 4)
        version_at = begin + (8 if is_long and not self.is_eh else 4)
        version = self.data[version_at]
        text_end = self.data.index(0, version_at + 1)
        augmentation, at_field = self.data[version_at + 1 : text_end].decode(), text_end + 1
        if version >= 4:
            at_field += 2  # address_size, segment_selector_size
        code, at_field = leb(self.data, at_field, is_signed=False)
        factor, at_field = leb(self.data, at_field, is_signed=True)
        if version == 1:
            column, at_field = self.data[at_field], at_field + 1
        else:
            column, at_field = leb(self.data, at_field, is_signed=False)
        encoding = 0
        if augmentation.startswith("z"):
            size, at_field = leb(self.data, at_field, is_signed=False)
            encoding, at_field = self._pointer_encoding(augmentation, at_field), at_field + size
        cie = _Cie(code, factor, column, augmentation, encoding, self.data[at_field:end])
        self.cies[at] = cie
        return cie

    def _pointer_encoding(self, augmentation: str, at: int) -> int:
        for letter in augmentation[1:]:
            if letter == "R":
                return self.data[at]
            if letter == "L":
                at += 1
            elif letter == "P":
                at += 1 + self._pointer_size(self.data[at])
            elif letter not in "SBG":
                raise ValueError(f"augmentation {augmentation!r}")
        return 0

    def _pointer_size(self, encoding: int) -> int:
        return {0: self.machine.pointer, 2: 2, 3: 4, 4: 8}[encoding & 7]

    def _fde(self, at: int, end: int, cie: _Cie) -> _Fde:
        encoding, size = cie.pointer_encoding, self._pointer_size(cie.pointer_encoding)
        start = self._number(at, size, is_signed=bool(encoding & 8))
        if encoding & 0x70 == 0x10:  # DW_EH_PE_pcrel
            start += self.address + at
        elif encoding & 0x70:
            raise ValueError(f"pointer encoding {encoding:#x}")
        else:
            start += self.origin
        start &= (1 << 8 * self.machine.pointer) - 1
        span = self._number(at + size, size)
        at += 2 * size
        if cie.augmentation.startswith("z"):
            skipped, at = leb(self.data, at, is_signed=False)
            at += skipped
        return _Fde(start, start + span, cie, self.data[at:end])

    # --- instructions ---------------------------------------------------------------------------------------

    def _rows_of(self, index: int) -> list[_Row]:
        if index not in self.rows:
            fde = self.fdes[index][1]
            initial = self._run(fde.cie, fde.cie.instructions, _Row(fde.start, None, {}), {})[-1]
            rows = self._run(fde.cie, fde.instructions, initial, initial.rules)
            # The last row that starts at a PC holds there; none at or past the end.
            self.rows[index] = list({row.start: row for row in rows if row.start < fde.end}.values())
        return self.rows[index]

    def _run(self, cie: _Cie, code: bytes, row: _Row, initial: dict[int, Rule]) -> list[_Row]:
        rows, stack, at = [row], list[_Row](), 0
        while at < len(code):
            opcode, at = code[at], at + 1
            advance = None
            if opcode >> 6 == 1:
                advance = opcode & 0x3F
            elif opcode in _ADVANCES:
                advance = int.from_bytes(code[at : at + _ADVANCES[opcode]], self.order)
                at += _ADVANCES[opcode]
            elif opcode == 0x0A:
                stack.append(rows[-1])
            elif opcode == 0x0B:
                rows[-1] = replace(stack.pop(), start=rows[-1].start)
            else:
                rows[-1], at = self._changed(cie, rows[-1], initial, opcode, code, at)
            if advance is not None:
                rows.append(replace(rows[-1], start=rows[-1].start + advance * cie.code_factor))
        return rows

    def _changed(
        self, cie: _Cie, row: _Row, initial: dict[int, Rule], opcode: int, code: bytes, at: int
    ) -> tuple[_Row, int]:
        """The row after an instruction that changes it, and the offset of the next one."""

        def number(*, is_signed: bool = False) -> int:
            nonlocal at
            value, at = leb(code, at, is_signed=is_signed)
            return value

        def block() -> bytes:
            nonlocal at
            size = number()
            at += size
            return code[at - size : at]

        if opcode >> 6 == 2:
            return _with_rule(row, opcode & 0x3F, ("offset", number() * cie.data_factor)), at
        if opcode >> 6 == 3 or opcode == 0x06:
            return _restored(row, opcode & 0x3F if opcode >> 6 else number(), initial), at
        if opcode in (0x0C, 0x12):  # def_cfa, def_cfa_sf
            register = number()
            offset = number() if opcode == 0x0C else number(is_signed=True) * cie.data_factor
            return replace(row, cfa=("register", register, offset)), at
        if opcode in (0x0D, 0x0E, 0x13):  # def_cfa_register, def_cfa_offset, def_cfa_offset_sf
            # llvm-mc's CIEs for MIPS have def_cfa_register alone: readers take the offset as 0.
            _, register, offset = row.cfa or ("register", 0, 0)
            value = number() if opcode < 0x13 else number(is_signed=True) * cie.data_factor
            return replace(row, cfa=("register", *((value, offset) if opcode == 0x0D else (register, value)))), at
        if opcode == 0x0F:
            return replace(row, cfa=("expression", block())), at
        if opcode in _RULES:
            name, operand = _RULES[opcode]
            register = number()
            match operand:
                case "register":
                    return _with_rule(row, register, (name, number())), at
                case "block":
                    return _with_rule(row, register, (name, block())), at
                case "none":
                    return _with_rule(row, register, (name,)), at
            offset = number(is_signed=operand == "signed") * cie.data_factor
            return _with_rule(row, register, (name, -offset if operand == "negated" else offset)), at
        if opcode == 0x2D and self.machine.has_windows:
            for index in range(16):
                row = _with_rule(row, 16 + index, ("offset", index * self.machine.word))
            return row, at
        if opcode in (0x2C, 0x2D):  # AARCH64_negate_ra_state_with_pc, AARCH64_negate_ra_state
            return replace(row, signed=0 if row.signed else 3 if opcode == 0x2C else 1), at
        if opcode == 0x2E:  # GNU_args_size
            number()
        elif opcode:
            raise ValueError(f"instruction {opcode:#x}")
        return row, at


_ADVANCES = {0x02: 1, 0x03: 2, 0x04: 4, 0x1D: 8}
# Instructions for one register: the kind of rule, and the operand after the register.
_RULES = {
    0x05: ("offset", "unsigned"),
    0x07: ("undefined", "none"),
    0x08: ("same", "none"),
    0x09: ("register", "register"),
    0x10: ("expression", "block"),
    0x11: ("offset", "signed"),
    0x14: ("val_offset", "unsigned"),
    0x15: ("val_offset", "signed"),
    0x16: ("val_expression", "block"),
    0x2F: ("offset", "negated"),
}


def _with_rule(row: _Row, register: int, rule: Rule) -> _Row:
    return replace(row, rules=row.rules | {register: rule})


def _restored(row: _Row, register: int, initial: dict[int, Rule]) -> _Row:
    rules = {number: rule for number, rule in row.rules.items() if number != register}
    return replace(row, rules=rules | ({register: initial[register]} if register in initial else {}))
