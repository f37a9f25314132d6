"""Breakpad symbol files with the rules of STACK CFI records at each PC (Breakpad, docs/symbol_files.md).

Strategy: rows are drawn as rules of CFA, RA, FP and other registers. A record has the rules that changed, each
in one of the ways to write it. Addresses are relative to the load address, and so are the PCs.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from ..converters.arch.table import ARCHITECTURES, Architecture, breakpad_names, unwind_registers
from ..schemas.breakpad.records import CFA_NAME, RA_NAME
from ..schemas.data_classes import dataclass
from .case import FAULTY, NONE, UNDECIDED, Answer, Case, WireField, telling_pcs
from .choices import Draw, integers, one_of, sampled_from
from .faults import FaultKind, Values, break_field

FIELDS = ("cfa", "ra", "fp")
SECTION = "symbols"
MAX_FUNCTIONS, MAX_ROWS = 4, 5
OTHER_RECORDS, UNSORTED, SAME_ADDRESS = "other-records", "unsorted", "same-address"
SPACING, CRLF, ALL_RULES, CFA_IN_MEMORY = "spacing", "crlf", "all-rules", "cfa-in-memory"
FEATURES = (OTHER_RECORDS, UNSORTED, SAME_ADDRESS, SPACING, CRLF, ALL_RULES, CFA_IN_MEMORY)
# Breakpad has no x32: its postfix would compute with other words than DWARF expressions do.
MACHINES = tuple(
    one for one in ARCHITECTURES.values() if one.breakpad_registers is not None and one is not ARCHITECTURES["x32"]
)

_FUNCTIONS, _ROWS = integers(0, MAX_FUNCTIONS), integers(1, MAX_ROWS)
_BIT, _ONE_IN_4 = sampled_from([0, 1]), sampled_from([0, 0, 0, 1])
_STEPS = sampled_from([1, 2, 4, 16, 255, 4096, 70000])
_GAPS = sampled_from([0, 0, 1, 16, 4096])
_STARTS = sampled_from([0x1000, 0, 0x401003, 0x7FFFF000])
_CFA_OFFSETS = one_of(integers(1, 20), sampled_from([0, 127, 4096, 1 << 20]))
_SAVED = one_of(integers(1, 16), sampled_from([0, -1, -16, 512]))
_KINDS = integers(0, 5)
_SPACES = sampled_from([" ", " ", "  ", "   "])
_CHANGES = integers(0, 15)
_ONE_IN_16 = sampled_from([0] * 15 + [1])


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a register is recovered: a base, an offset, and whether the value is in memory there."""

    base: str
    offset: int
    is_saved: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    offset: int
    rules: dict[str, _Rule]


@dataclass(frozen=True, slots=True)
class _Function:
    start: int
    size: int
    rows: tuple[_Row, ...]


@cache
def machines_without(names: frozenset[str]) -> tuple[Architecture, ...]:
    """Those whose name is not one of these."""
    return tuple(one for one in MACHINES if one.name not in names)


class _Writer:
    """The text as it grows, with the places of numbers, names and operators."""

    def __init__(self, draw: Draw, architecture: Architecture, without: frozenset[str]) -> None:
        self.draw, self.without = draw, without
        self.architecture = architecture
        self.numbers = {name: number for number, name in breakpad_names(architecture).items()}
        names = {number: name for name, number in self.numbers.items()}
        registers = unwind_registers(architecture)
        self.fp = names[registers.fp]
        self.bases = [names[registers.sp], self.fp]
        is_special = {registers.sp, registers.fp, registers.ra}
        self.others = [name for number, name in sorted(names.items()) if number not in is_special][:8]
        self.data = bytearray()
        self.layout: list[WireField] = []
        self.used: set[str] = set()
        self.newline = "\n"
        if self.has(CRLF) and draw(_ONE_IN_4):
            self.newline = "\r\n"
            self.used.add(CRLF)
        self.is_spaced = self.has(SPACING) and bool(draw(_ONE_IN_4))

    def has(self, feature: str) -> bool:
        return feature not in self.without

    def put(self, text: str, name: str = "") -> None:
        """Append a word, which is a field if it has a name."""
        data = text.encode()
        if name:
            value = int.from_bytes(data, self.architecture.byte_order)
            self.layout.append(WireField(name, len(self.data), len(data), value))
        self.data += data

    def space(self) -> None:
        space = self.draw(_SPACES) if self.is_spaced else " "
        if len(space) > 1:
            self.used.add(SPACING)
        self.put(space)

    def rules(self, rules: dict[str, _Rule], name: str) -> None:
        """The rules of a record."""
        for register, rule in rules.items():
            self.space()
            self.put(f"{register}:", f"{name}.cfa" if register == CFA_NAME else "")
            for word in self.draw(sampled_from(_ways(rule))):
                self.space()
                self.put(word, f"{name}.operator" if register == CFA_NAME and word in "+-" else "")

    def line(self, text: str) -> None:
        self.put(text + self.newline)


def _ways(rule: _Rule) -> list[tuple[str, ...]]:
    """The postfix of a rule."""
    base, number = rule.base, str(rule.offset)
    ways: list[tuple[str, ...]] = [(base, number, "+"), (number, base, "+"), (base, str(-rule.offset), "-")]
    if not rule.offset:
        ways.insert(0, (base,))
    return [(*way, "^") for way in ways] if rule.is_saved else ways


def _draw_rule(draw: Draw, out: _Writer, word: int) -> _Rule:
    """Mostly saved at an address that is relative to the CFA."""
    kind = draw(_KINDS)
    if kind == 5:
        return _Rule(draw(sampled_from(out.others)), 0)
    return _Rule(CFA_NAME, -draw(_SAVED) * word, is_saved=kind < 4)


def _draw_cfa(draw: Draw, out: _Writer, word: int) -> _Rule:
    """SP or FP plus an offset, rarely what is in memory there."""
    is_saved = out.has(CFA_IN_MEMORY) and draw(_ONE_IN_16) == 1
    if is_saved:
        out.used.add(CFA_IN_MEMORY)
    return _Rule(draw(sampled_from(out.bases)), draw(_CFA_OFFSETS) * word, is_saved)


def _draw_function(draw: Draw, out: _Writer, start: int) -> _Function:
    word = out.architecture.address_size
    rules = {
        CFA_NAME: _draw_cfa(draw, out, word),
        RA_NAME: _draw_rule(draw, out, word),
    }
    rows: list[_Row] = []
    offset = 0
    for _ in range(draw(_ROWS)):
        changes = draw(_CHANGES)
        rules = dict(rules)
        if rows and (changes & 1 or changes < 8):
            rules[CFA_NAME] = _draw_cfa(draw, out, word)
        if changes & 2:
            rules[out.fp] = _draw_rule(draw, out, word)
        if changes & 4:
            rules[draw(sampled_from(out.others))] = _draw_rule(draw, out, word)
        if changes & 8 and rows:
            rules[RA_NAME] = _draw_rule(draw, out, word)
        rows.append(_Row(offset, rules))
        offset += draw(_STEPS)
    return _Function(start, offset, tuple(rows))


def _put_function(draw: Draw, out: _Writer, index: int, one: _Function) -> None:
    """An INIT record and those that change its rules."""
    state: dict[str, _Rule] = {}
    for number, row in enumerate(one.rows):
        name = f"function[{index}].row[{number}]"
        changed = {key: rule for key, rule in row.rules.items() if state.get(key) != rule}
        if number and out.has(ALL_RULES) and draw(_ONE_IN_4):
            out.used.add(ALL_RULES)
            changed = row.rules
        if number and out.has(SAME_ADDRESS) and changed and draw(_ONE_IN_4):
            out.used.add(SAME_ADDRESS)
            out.put(f"STACK CFI {one.start + row.offset:x}")
            out.rules({CFA_NAME: _Rule(out.bases[0], 16)}, "")
            out.line("")
            changed = {CFA_NAME: row.rules[CFA_NAME], **changed}
        state = row.rules
        if not changed:
            continue
        out.put("STACK CFI" if number else "STACK CFI INIT")
        out.space()
        out.put(f"{one.start + row.offset:x}", f"{name}.address")
        if not number:
            out.space()
            out.put(f"{one.size:x}", f"{name}.size")
        out.rules(changed, name)
        out.line("")


def draw_breakpad(draw: Draw, kind: int, without: frozenset[str]) -> Case:
    """A valid symbol file of a machine, and the rules at each PC where a reader could err."""
    architecture = machines_without(without)[kind]
    out = _Writer(draw, architecture, without)
    out.line(f"MODULE Linux {architecture.breakpad_module} {'0123456789ABCDEF' * 2}0 program")
    functions, start = [], draw(_STARTS)
    for _ in range(draw(_FUNCTIONS)):
        start += draw(_GAPS)
        functions.append(_draw_function(draw, out, start))
        start += functions[-1].size
    if len(functions) > 1 and out.has(UNSORTED) and draw(_ONE_IN_4):
        out.used.add(UNSORTED)
        functions = functions[1:] + functions[:1]
    if functions and out.has(OTHER_RECORDS) and draw(_BIT):
        out.used.add(OTHER_RECORDS)
        _put_other_records(out, functions)
    for index, one in enumerate(functions):
        _put_function(draw, out, index, one)
    return Case(
        format="breakpad",
        version=0,
        architecture=architecture,
        byte_order=architecture.byte_order,
        section=SECTION,
        address=0,
        data=bytes(out.data),
        fields=FIELDS,
        answers=_answers(out, functions),
        functions=tuple(_described(out, one) for one in functions),
        features=frozenset(out.used),
        layout=tuple(out.layout),
    )


def _put_other_records(out: _Writer, functions: list[_Function]) -> None:
    """Records about names and lines, which change no rule."""
    out.line("FILE 0 /src/a b.c")
    out.line("INLINE_ORIGIN 0 inlined(int, char)")
    for one in functions:
        out.line(f"FUNC {one.start:x} {one.size:x} 0 f(int)")
        out.line(f"INLINE 0 3 0 0 {one.start:x} 1")
        out.line(f"{one.start:x} {one.size:x} 7 0")
        out.line(f"PUBLIC m {one.start:x} 0 f")


def _answers(out: _Writer, functions: list[_Function]) -> dict[int, Answer]:
    ranges = [(one.start, one.size, [one.start + row.offset for row in one.rows]) for one in functions]
    answers: dict[int, Answer] = {}
    for pc in telling_pcs(ranges, 1 << 8 * out.architecture.address_size) or [0x1000]:
        answers[pc] = NONE
        for one in functions:
            if one.start <= pc < one.start + one.size:
                answers[pc] = _answer(out, [row for row in one.rows if row.offset <= pc - one.start][-1])
    return answers


def _answer(out: _Writer, row: _Row) -> Answer:
    cfa = row.rules[CFA_NAME]
    place = f"r{out.numbers[cfa.base]}{cfa.offset:+d}"
    return (
        f"m({place})" if cfa.is_saved else place,
        _rule_text(out, row.rules[RA_NAME]),
        _rule_text(out, row.rules[out.fp]) if out.fp in row.rules else "u",
    )


def _rule_text(out: _Writer, rule: _Rule) -> str:
    if rule.base != CFA_NAME:
        return f"r{out.numbers[rule.base]}{rule.offset:+d}"
    return f"{'c' if rule.is_saved else 'v'}{rule.offset:+d}"


def _described(out: _Writer, one: _Function) -> dict[str, Any]:
    rows = [{"offset": row.offset, **dict(zip(FIELDS, _answer(out, row), strict=True))} for row in one.rows]
    return {"start": one.start, "size": one.size, "rows": rows}


# --- faults -------------------------------------------------------------------------------------------------------


def _letters(letter: bytes) -> Values:
    """The field's last character is another one."""

    def stored(case: Case, field: WireField) -> list[int]:
        found = bytearray(case.data[field.offset : field.offset + field.size])
        found[-1:] = letter
        return [int.from_bytes(found, case.byte_order)]

    return stored


def _other_name(case: Case, _field: WireField) -> list[int]:
    return [int.from_bytes(b".cfx:", case.byte_order)]


def _over_the_next(case: Case, field: WireField) -> list[int]:
    """A size that reaches into the function at the next address."""
    one = case.functions[int(field.name.split("[")[1].partition("]")[0])]
    text = case.data[field.offset : field.offset + field.size]
    stored = b"f" + text[1:]
    end = one["start"] + int(stored, 16)
    is_over = stored != text and any(one["start"] < other["start"] < end for other in case.functions)
    return [int.from_bytes(stored, case.byte_order)] * is_over


FAULTS: dict[str, FaultKind] = {
    "address": FaultKind(r"function\[\d+\]\.row\[\d+\]\.address", _letters(b"g"), "not a hexadecimal number"),
    "size": FaultKind(r"function\[\d+\]\.row\[0\]\.size", _letters(b"x"), "not a hexadecimal number"),
    "range": FaultKind(r"function\[\d+\]\.row\[0\]\.size", _over_the_next, "overlaps the next function"),
    "cfa": FaultKind(r"function\[\d+\]\.row\[0\]\.cfa", _other_name, "no rule for .cfa; no such register"),
    "operator": FaultKind(r"function\[\d+\]\.row\[\d+\]\.operator", _letters(b"?"), "no such operator"),
}


def break_breakpad(draw: Draw, case: Case, names: Collection[str]) -> Case | None:
    """The case with one word broken; None if no fault of these names is possible."""
    return break_field(draw, case, FAULTS, names, _decision)


def _decision(case: Case, name: str, field: WireField, pc: int) -> Answer | None:
    """Records after the broken one may give the same rules again."""
    function, row = (int(part.partition("]")[0]) for part in field.name.split("[")[1:])
    one = case.functions[function]
    offset = pc - one["start"]
    if name == "range":
        # A reader may take either of the functions that cover a PC, or none.
        return UNDECIDED if offset >= one["size"] else None
    if not one["rows"][row]["offset"] <= offset < one["size"]:
        return None
    following = one["rows"][row + 1 :]
    # Without an INIT record that can be read, those after it are without a range.
    return UNDECIDED if following and offset >= following[0]["offset"] else FAULTY
