"""Where each frame is, derived from the instructions that a program executes under qemu, to check SFrame rows.

Strategy: no product code. A step is an instruction about to be executed, with all registers. A call or an entry from
code that is not watched pushes the caller's state (SP, return address, FP); returns, tail calls, longjmp and
exceptions are recognized by the next PC and by SP. Memory is not in the log, but the instructions that store the FP
or the RA are decoded, so that a slot's content is known too. A row is correct if its CFA, RA and FP match these.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol

from ..texts.readelf_text import SframeRows, SframeText
from .shadow_machines import Instruction, Machine

# A step: the address, and the registers as the log prints them.
Step = tuple[int, bytes]


# --- programs and rows ------------------------------------------------------------------------------------


class Program:
    """The code of an ELF file: instructions, and which function an address belongs to (symbols)."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            elf = ELFFile(file)
            loads = [segment for segment in elf.iter_segments("PT_LOAD") if segment["p_flags"] & 1]
            self.segments = [(segment["p_vaddr"], segment.data()) for segment in loads]
            self.is_fixed = elf["e_type"] == "ET_EXEC"
            found = _functions(elf.get_section_by_name(".symtab").iter_symbols())
            plt = elf.get_section_by_name(".plt")
            self.plt = range(plt["sh_addr"], plt["sh_addr"] + plt["sh_size"]) if plt else range(0)
        self.starts = sorted(found)
        self.sizes, self.names = zip(*(found[start] for start in self.starts), strict=True)
        self.address_of = {name: start for start, (_, name) in found.items()}

    def bytes_at(self, address: int) -> bytes:
        """Enough bytes for one instruction; b"" outside code."""
        found = (data[address - start : address - start + 6] for start, data in self.segments if address >= start)
        return next(filter(None, found), b"")

    def function_at(self, address: int) -> int:
        """A number for the function, the same one for its cold part, and one for the PLT; -1 without a symbol."""
        if address in self.plt:
            return self.plt.start
        index = bisect.bisect_right(self.starts, address) - 1
        if index < 0 or (self.sizes[index] and address >= self.starts[index] + self.sizes[index]):
            return -1
        hot, cold, _ = self.names[index].partition(".cold")
        return self.address_of.get(hot, self.starts[index]) if cold else self.starts[index]

    def name_at(self, address: int) -> str:
        """The name of the symbol before it, or ""."""
        index = bisect.bisect_right(self.starts, address) - 1
        return self.names[index] if index >= 0 else ""


def _functions(symbols: Iterable[Symbol]) -> dict[int, tuple[int, str]]:
    """Size and name by address; of several symbols there, the largest function's."""
    functions: dict[int, tuple[int, str]] = {}
    labels: dict[int, tuple[int, str]] = {}
    for symbol in symbols:
        address, kind = symbol["st_value"], symbol["st_info"]["type"]
        if kind in ("STT_FUNC", "STT_GNU_IFUNC") and address:
            functions[address] = max(functions.get(address, (0, "")), (symbol["st_size"], symbol.name))
        elif kind == "STT_NOTYPE" and not symbol.name.startswith("$"):  # $x marks where code begins
            labels[address] = 0, symbol.name
    within = {pc for address, (size, _) in functions.items() for pc in range(address, address + size, 2)}
    # s390x's __wrap_main does not have the type of a function, but has an FDE.
    return {address: label for address, label in labels.items() if address not in within} | functions


class RowAt:
    """The number of the SFrame row at a PC as linked, and its FDE's; or None."""

    def __init__(self, rows: SframeRows) -> None:
        self.rows = rows
        self.by_start = sorted(range(len(rows.start)), key=lambda i: int(rows.start[i]))
        self.starts = [int(rows.start[i]) for i in self.by_start]

    def __call__(self, pc: int) -> tuple[int, int] | None:
        index = bisect.bisect_right(self.starts, pc) - 1
        if index < 0 or pc >= self.rows.end[self.by_start[index]]:
            return None
        fde = self.by_start[index]
        block = int(self.rows.repetition_block[fde])
        key = (pc - self.starts[index]) % block if block else pc
        first, last = int(self.rows.first_row[fde]), int(self.rows.first_row[fde + 1])
        row = bisect.bisect_right(self.rows.pc[first:last].tolist(), key) - 1
        return (first + row, fde) if row >= 0 else None


# --- judgement --------------------------------------------------------------------------------------------


# They overwrite their caller's saved registers with another frame's before they return, which CFI cannot express.
REPLACING = (
    *(f"_Unwind_{name}" for name in ("RaiseException", "Resume", "Resume_or_Rethrow", "ForcedUnwind")),
    "__longjmp",
)


class Fault(NamedTuple):
    """A step at which the row is wrong: `what` is CFA, RA, FP or key. The row's value is `found`: None for a slot
    without an observed store. Keys, which sign the RA, are A, B, or "" for none."""

    pc: int
    what: str
    row: SframeText
    expected: int | str
    found: int | str | None

    def __str__(self) -> str:
        expected, found = (f"{value:#x}" if isinstance(value, int) else value for value in self[3:])
        return f"{self.pc:#x}: {self.what} of {self.row}: expected {expected!r}, found {found!r}"


@dataclass(slots=True)
class Verdict:
    """`steps`: the checked steps by the row's number. `signatures`: how often the RA was found with a signature.
    `unattributed`: steps that have a row, but do not belong to the frame on top."""

    steps: Counter[int] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    signatures: int = 0
    unattributed: int = 0

    @property
    def checked(self) -> int:
        return self.steps.total()


@dataclass(slots=True)
class _Frame:
    """The state of a function's caller; `function` is the current one, after tail calls, and `key` has
    signed the RA."""

    sp: int
    ra: int
    fp: int
    function: int
    key: str = ""


class _Place(NamedTuple):
    """What is known of an address: `row`, and its rules. A rule is a register's place or, if `*_saved`,
    an offset from the CFA."""

    instruction: Instruction
    function: int
    is_entry: bool
    row: SframeText | None
    number: int = 0
    base: int = 0
    offset: int = 0
    ra: int = 0
    ra_saved: bool = False
    key: str = ""
    fp: int = 0
    fp_saved: bool = False


def judge(machine: Machine, program: Program, bias: int, steps: Iterable[Step], row_at: RowAt) -> Verdict:
    """Compare the rows with a run of the program, loaded `bias` higher than linked."""
    judge_step = _Judge(machine, program, bias, row_at)
    for pc, registers in steps:
        judge_step(pc, registers)
    return judge_step.verdict


class _Judge:
    """The shadow stack, and the step before."""

    def __init__(self, machine: Machine, program: Program, bias: int, row_at: RowAt) -> None:
        self.machine, self.program, self.bias, self.row_at = machine, program, bias, row_at
        self.verdict = Verdict()
        self.stack: list[_Frame] = []
        self.memory: dict[int, int] = {}
        self.places: dict[int, _Place] = {}
        self.after = -1  # the address after the previous step
        self.returning = 0  # the depth that the previous step returns from, or 0

    def __call__(self, pc: int, registers: bytes) -> None:
        machine, places = self.machine, self.machine.places
        place = self.places.get(pc) or self._place(pc)
        at = places[machine.sp]
        sp = int(registers[at : at + 16], 16)
        if pc != self.after or place.is_entry:  # a function may follow the jump to it
            self._jump(pc, sp, place, registers)
        else:
            self._leave(sp)  # longjmp sets SP before it jumps
        self.after = pc + place.instruction.size
        self.returning = 0
        if self.stack:
            frame = self.stack[-1]
            if place.row is not None:
                if frame.function == place.function:
                    self._check(pc, place, frame, registers)
                else:
                    self.verdict.unattributed += 1
            if (target := place.instruction.target) is not None and sp == frame.sp:
                is_return = self._register(registers, target) & machine.address_mask == frame.ra
                self.returning = len(self.stack) if is_return else 0
            if place.instruction.key is not None:
                frame.key = place.instruction.key
        elif place.row is not None:
            self.verdict.unattributed += 1
        for register, base, displacement in place.instruction.stores:
            self.memory[self._register(registers, base) + displacement] = self._register(registers, register)

    def _register(self, registers: bytes, number: int) -> int:
        at = self.machine.places[number]
        return int(registers[at : at + 16], 16)

    def _leave(self, sp: int) -> None:
        """Drop the frames that longjmp or an exception has left. A live frame has made a call, so SP is lower
        than at its entry."""
        if self.stack and self.stack[-1].sp < sp:
            while self.stack and self.stack[-1].sp <= sp:
                self.stack.pop()

    def _jump(self, pc: int, sp: int, place: _Place, registers: bytes) -> None:
        """Control came to `pc` from elsewhere: by a call, a return, a jump, or from code that is not watched."""
        stack = self.stack
        if self.returning:
            del stack[self.returning - 1 :]
        self._leave(sp)
        ra, fp = (self._register(registers, number) for number in (self.machine.ra, self.machine.fp))
        top = stack[-1] if stack else None
        # A library calls a PLT entry that serves as a function's address; no landing pad is in one.
        is_plt = pc - self.bias in self.program.plt
        is_entry = place.is_entry or is_plt
        if ra == self.after or (is_entry and (top is None or (top.ra, top.sp) != (ra, sp))):
            stack.append(_Frame(sp, ra, fp, place.function))
        elif top is not None and top.function != place.function:
            depth = len(stack)
            while depth and stack[depth - 1].sp <= sp:
                depth -= 1
            if depth and stack[depth - 1].function == place.function and not is_plt:
                del stack[depth:]  # to a landing pad, from longjmp, or from an unwatched callee of a PLT
            else:
                top.function = place.function  # a tail call

    def _check(self, pc: int, place: _Place, frame: _Frame, registers: bytes) -> None:
        row, verdict, machine = place.row, self.verdict, self.machine
        assert row is not None
        verdict.steps[place.number] += 1
        expected_cfa = frame.sp + machine.entry_cfa
        cfa = int(registers[place.base : place.base + 16], 16) + place.offset
        if cfa != expected_cfa:
            verdict.faults.append(Fault(pc - self.bias, "CFA", row, expected_cfa, cfa))
        ra = self.memory.get(cfa + place.ra) if place.ra_saved else int(registers[place.ra : place.ra + 16], 16)
        if place.key != frame.key:
            verdict.faults.append(Fault(pc - self.bias, "key", row, frame.key, place.key))
        if frame.key and ra is not None:
            verdict.signatures += ra != ra & machine.address_mask
            ra &= machine.address_mask
        if ra != frame.ra:
            verdict.faults.append(Fault(pc - self.bias, "RA", row, frame.ra, ra))
        fp = self.memory.get(cfa + place.fp) if place.fp_saved else int(registers[place.fp : place.fp + 16], 16)
        if fp != frame.fp:
            verdict.faults.append(Fault(pc - self.bias, "FP", row, frame.fp, fp))

    def _place(self, pc: int) -> _Place:
        linked, machine = pc - self.bias, self.machine
        function, found = self.program.function_at(linked), self.row_at(linked)
        place = _Place(machine.decode(self.program.bytes_at(linked)), function, function == linked, None)
        if found is not None and self.program.name_at(linked) not in REPLACING:
            row = self.row_at.rows.texts[self.row_at.rows.text[found[0]]]
            attributes = self.row_at.rows.attributes[found[1]]
            base, offset = row.cfa[:2], int(row.cfa[2:])
            rule, signed, _ = row.ra.partition("[s]")
            ra, ra_saved = self._rule(rule, machine.ra)
            fp, fp_saved = self._rule(row.fp, machine.fp)
            cfa = machine.places[machine.sp if base == "sp" else machine.fp], offset
            key = ("B" if "B" in attributes else "A") if signed else ""
            place = _Place(*place[:3], row, found[0], *cfa, ra, ra_saved, key, fp, fp_saved)
        self.places[pc] = place
        return place

    def _rule(self, rule: str, register: int) -> tuple[int, bool]:
        """`u`, `r17` or `c-48` as a register's place or an offset from the CFA."""
        if rule.startswith("c"):
            return int(rule[1:]), True
        return self.machine.places[register if rule == "u" else int(rule[1:])], False
