"""STACK WIN records as rows of the table: programs worked out by hand, refusals, overlaps, and parameter sizes.

Strategy: the evaluator of programs, which knows no rows, is the referee: with random registers and memory both ways
give the same caller.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from unwindkit import (
    ARCHITECTURES,
    ParseError,
    Reason,
    RefusedCount,
    RefusedRecords,
    UnwindTable,
    caller_by_stack_win,
    convert,
    expressions,
    from_stack_win,
    parameter_size_at,
    stack_win_at,
    to_stack_cfi,
)
from unwindkit.converters.breakpad.stack_win_rules import MAX_WORDS, win_rules
from unwindkit.converters.dwarf.expressions import ReadMemory
from unwindkit.converters.rules import CfaKind, RuleKind
from unwindkit.converters.table.model import Row
from unwindkit.schemas.breakpad.files import build_record, parse_record
from unwindkit.schemas.breakpad.records import StackWin

from ..support.programs.minidumps import Module, State
from ..support.texts.stackwalks import BY_CFI, store, walk

# In the order of their DWARF numbers.
REGISTERS = ("$eax", "$ecx", "$edx", "$ebx", "$esp", "$ebp", "$esi", "$edi", "$eip")
ESP, EIP = 4, 8
WORD = 0xFFFFFFFF

# type, rva, code, prologue, epilogue, parameters c, saved registers 8, locals 10, max stack
FIELDS = "1000 20 1 2 c 8 10 40"


def record_of(line: str) -> StackWin:
    record = parse_record(line.encode())
    assert isinstance(record, StackWin)
    return record


def program(text: str) -> StackWin:
    return record_of(f"STACK WIN 4 {FIELDS} 1 {text}")


def rules(record: StackWin, next_parameter_size: int = 0) -> dict[str, str]:
    found = win_rules(record, REGISTERS, next_parameter_size)
    assert not isinstance(found, Reason)
    return found


def whole(table: UnwindTable, refused: RefusedRecords) -> UnwindTable:
    assert len(refused) == 0
    return table


# --- programs by hand ----------------------------------------------------------------------------------------

# Programs of MSVC, as in Breakpad's test_app.sym and kernel32.sym, and what they mean.
BY_HAND = {
    "a frame pointer": (
        "$T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + = $L $T0 .cbSavedRegs - = $P $T0 8 + .cbParams + =",
        {".cfa": "$ebp 8 +", ".ra": ".cfa -4 + ^", "$ebp": ".cfa -8 + ^"},
    ),
    # 0x18 bytes below the return address; its slot is at .raSearchStart.
    "no frame pointer": (
        "$T2 $esp .cbLocals + .cbSavedRegs + = $T0 .raSearchStart = $eip $T0 ^ = $esp $T0 4 + = $ebx $T0 12 - ^ =",
        {".cfa": "$esp 28 +", ".ra": ".cfa -4 + ^", "$ebx": ".cfa -16 + ^"},
    ),
    "MSVC's name, and no space after =": (
        "$T0 .raSearch =$eip $T0 ^ =$esp $T0 4 + =$20 $T0 56 - ^ =",
        {".cfa": "$esp 28 +", ".ra": ".cfa -4 + ^"},
    ),
    "a register in another variable": (
        "$T0 $ebp = $T2 $esp = $T1 .raSearchStart = $eip $T1 ^ = $ebp $T0 = $esp $T1 4 + =",
        {".cfa": "$esp 28 +", ".ra": ".cfa -4 + ^", "$ebp": "$ebp"},
    ),
    "a frame above the frame pointer": (
        "$T0 $ebp 40 + = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + =",
        {".cfa": "$ebp 48 +", ".ra": ".cfa -4 + ^", "$ebp": ".cfa -8 + ^"},
    ),
    "an aligned frame": (
        "$T1 .raSearch = $T0 $T1 4 - 8 @ = $ebp $T1 4 - ^ = $eip $T1 ^ = $esp $T1 4 + = $edi $T0 16 - ^ =",
        {".cfa": "$esp 28 +", ".ra": ".cfa -4 + ^", "$ebp": ".cfa -8 + ^", "$edi": "$esp 20 + 8 @ -16 + ^"},
    ),
    "a CFA in memory": (
        "$T0 $ebp 4 - ^ = $eip $T0 4 + ^ = $esp $T0 8 + = $ebx $T0 = $esi $T0 ^ 1 + =",
        {".cfa": "$ebp -4 + ^ 8 +", ".ra": ".cfa -4 + ^", "$ebx": ".cfa -8 +", "$esi": "$ebp -4 + ^ ^ 1 +"},
    ),
    # The name is looked up when the operator takes it: $ebp has its new value.
    "a name before its assignment": (
        "$esp $ebp $ebp 4 = 4 + = $eip 0 =", {".cfa": "8", ".ra": "0", "$ebp": "4"},
    ),
    "differences, constants and products": (
        "$eip 2 3 * ^ = $esp $ebp $ebp 4 + - 4 + $esp + = $ebx 4 $esp - $ebp - = $edi 7 $esp $esp 4 + - + =",
        {".cfa": "$esp", ".ra": "6 ^", "$ebx": "0 $esp - $ebp - 4 +", "$edi": "3"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_programs_by_hand(name: str) -> None:
    text, expected = BY_HAND[name]
    assert rules(program(text)) == expected


def test_records_without_a_program_by_hand() -> None:
    # frame_size 0x10 + 8: %ebp is saved at %esp + 0 + 8 - 8, the return address at %esp + 0x18.
    expected = {".cfa": "$esp 28 +", ".ra": ".cfa -4 + ^", "$ebp": ".cfa -28 + ^"}
    assert rules(record_of(f"STACK WIN 0 {FIELDS} 0 1")) == expected
    assert rules(record_of(f"STACK WIN 0 {FIELDS} 0 0")) == expected | {"$ebp": "$ebp"}
    # 8 bytes of parameters of the called function are below both.
    assert rules(record_of(f"STACK WIN 0 {FIELDS} 0 1"), 8) == expected | {".cfa": "$esp 36 +"}


def test_text_of_a_symbol_file_becomes_a_table() -> None:
    """Breakpad's test_app.sym: the prologue of a function, with records for what is left of it."""
    text = (
        "MODULE windows x86 5A9832E5287241C1838ED98914E9B7FF1 test_app.pdb\r\n"
        "STACK WIN 4 18d5 1c 6 0 8 0 8 0 1 $T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + =\r\n"
        "STACK WIN 0 18d5 1c 0 0 8 0 8 0 0 0\r\n"
        "STACK WIN 4 18db  15 0 0 8 4 8 0 1 $T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + =\r\n"
        "STACK WIN 4 2000 8 0 0 0 0 0 0 1 $T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + =\n"
    )
    table = whole(*from_stack_win(text, 0x400000, 0))
    assert (table.source, table.architecture, table.load_address) == ("STACK WIN", ARCHITECTURES["x86"], 0x400000)
    assert [(one.start, one.size, len(one.rows)) for one in table] == [(0x4018D5, 0x1C, 3), (0x402000, 8, 1)]
    assert to_stack_cfi(table)[0] == (
        b"STACK CFI INIT 18d5 1c $ebp: .cfa -8 + ^ .cfa: $ebp 8 + .ra: .cfa -4 + ^\n"
        b"STACK CFI 18db $ebp: $ebp .cfa: $esp 16 +\n"
        b"STACK CFI 18f0 $ebp: .cfa -8 + ^ .cfa: $ebp 8 +\n"
        b"STACK CFI INIT 2000 8 $ebp: .cfa -8 + ^ .cfa: $ebp 8 + .ra: .cfa -4 + ^\n"
    )
    assert len(from_stack_win(b"STACK CFI INIT 1 1 .cfa: $esp .ra: 1\n")[0]) == 0


# --- refusals ------------------------------------------------------------------------------------------------

DOUBLED = "$T0 $ebp $ebx * = " + "$T0 $T0 $T0 * = " * 6 + "$eip $T0 ^ = $esp $T0 ="
REFUSED = {
    "the document's example": (Reason.WIN_PROGRAM, "4", "1 $eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ ="),
    "a value that is left": (Reason.WIN_PROGRAM, "4", "1 $eip 1 = $esp 2 = $ebp"),
    "an unknown variable": (Reason.WIN_PROGRAM, "4", "1 $eip $T0 = $esp 1 ="),
    "a number as a name": (Reason.WIN_PROGRAM, "4", "1 4 $esp ="),
    "a divisor of 0": (Reason.WIN_PROGRAM, "4", "1 $eip 8 0 / = $esp 1 ="),
    "no program": (Reason.WIN_RESULT, "4", "1 "),
    "no $esp": (Reason.WIN_RESULT, "4", "1 $eip 1 ="),
    "no $eip": (Reason.WIN_RESULT, "4", "1 $esp 1 ="),
    "an unknown divisor": (Reason.WIN_OPERATOR, "4", "1 $eip $esp $ebp / = $esp 1 ="),
    "a divisor that is no power of 2": (Reason.WIN_OPERATOR, "4", "1 $eip $esp 3 / = $esp 1 ="),
    "long": (Reason.WIN_LENGTH, "4", f"1 {DOUBLED}"),
    "another type": (Reason.WIN_TYPE, "3", "0 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_line_and_the_reason(name: str) -> None:
    reason, frame_type, last = REFUSED[name]
    table, refused = from_stack_win(f"\nSTACK WIN {frame_type} {FIELDS} {last}\n", 0x400000)
    assert len(table) == 0
    assert [refused.record(index) for index in range(len(refused))] == [
        {"line": 2, "start": 0x401000, "end": 0x401020, "reason": reason}
    ]


def test_a_long_expression_ends_where_it_is_too_long() -> None:
    assert win_rules(program("$T0 $ebp = " + "$T0 $T0 $ebx + = " * 49 + "$eip $T0 = $esp 1 ="), REGISTERS, 0) == {
        ".cfa": "1", ".ra": "$ebp" + " $ebx +" * 49}  # fmt: skip
    assert MAX_WORDS == 100
    longer = program("$T0 $ebp = " + "$T0 $T0 $ebx + = " * 50 + "$eip $T0 = $esp 1 =")
    assert win_rules(longer, REGISTERS, 0) is Reason.WIN_LENGTH


def test_a_refused_record_leaves_a_gap_where_it_would_be_used() -> None:
    """Walkers would use it there, and not the record around it."""
    good = "STACK WIN 4 1000 20 0 0 0 0 0 0 1 $eip $ebp 4 + ^ = $esp $ebp 8 + ="
    table, refused = from_stack_win(
        f"{good}\nSTACK WIN 4 1008 8 0 0 0 0 0 0 1 $eip\nSTACK WIN 1 1000 20 0 0 0 0 0 0 0 0"
    )
    assert [(one.start, one.size) for one in table] == [(0x1000, 8), (0x1010, 0x10)]
    assert (refused.line.tolist(), refused.start.tolist(), refused.end.tolist()) == (
        [2, 3],
        [0x1008, 0x1000],
        [0x1010, 0x1020],
    )


def test_records_that_need_the_called_functions_parameters() -> None:
    lines = [f"STACK WIN 0 {FIELDS} 0 1", f"STACK WIN 0 {FIELDS} 0 0", "STACK WIN 4 {} 1 $eip .raSearch ^ = $esp 1 ="]
    text = "\n".join(f"{line.format(FIELDS)}".replace("1000", f"{index}000") for index, line in enumerate(lines, 1))
    fixed = "\nSTACK WIN 4 5000 8 0 0 0 0 0 0 1 $eip $ebp 4 + ^ = $esp $ebp 8 + = $T0 .raSearch ="
    table, refused = from_stack_win(text + fixed, 0x400000)
    assert [one.start for one in table] == [0x405000]
    assert refused.start.tolist() == [0x401000, 0x402000, 0x403000]
    assert (refused.line.tolist(), set(refused.reason.tolist())) == ([1, 2, 3], {Reason.WIN_CALLEE})
    (first, *_) = whole(*from_stack_win(text + fixed, next_parameter_size=8))
    assert first.rows[0].cfa.value == 0x10 + 8 + 8 + 4


def test_records_that_only_touch_are_two_functions() -> None:
    lines = (f"STACK WIN 0 {start} 10 0 0 0 0 0 0 0 0" for start in ("1000", "1010"))
    assert [(one.start, one.size) for one in whole(*from_stack_win("\n".join(lines), 0, 0))] == [
        (0x1000, 16),
        (0x1010, 16),
    ]


def test_equal_last_fields_can_be_a_flag_and_a_program() -> None:
    table, refused = from_stack_win("STACK WIN 0 1000 8 0 0 0 0 0 0 0 1\nSTACK WIN 0 2000 8 0 0 0 0 0 0 1 1\n", 0, 0)
    assert [one.start for one in table] == [0x1000]
    assert (refused.line.tolist(), refused.reason.tolist()) == ([2], [Reason.WIN_PROGRAM])


def test_malformed_lines_are_errors() -> None:
    with pytest.raises(ParseError, match=r"^line 2: STACK WIN\.rva: found 'x 1 0"):
        from_stack_win("\nSTACK WIN 4 x 1 0 0 0 0 0 0 1 a")
    with pytest.raises(ParseError, match=r"^STACK WIN: line 1: the range reaches past the address space$"):
        from_stack_win("STACK WIN 4 ffffffffffffffff 1 0 0 0 0 0 0 1 a")


# --- the referee ---------------------------------------------------------------------------------------------


def memory_of(seed: int) -> ReadMemory:
    """Any word anywhere, always the same."""
    return lambda address, size: random.Random((seed << 40) + address).getrandbits(8 * size)


PIECES = (
    *("$T0", "$T1", "$esp", "$ebp", "$ebx", ".raSearchStart", ".raSearch", ".cbLocals", ".cbSavedRegs", ".cbParams"),
    *("4", "-8", "16", "0", "65535", "-1"),
)


def random_program(source: random.Random) -> str:
    """Assignments of random expressions; the first two give $T0 and $T1 a value, the last two the result."""
    names = ["$T0", "$T1", *source.choices(("$ebp", "$ebx", "$esi", "$edi", "$T0", "$L"), k=source.randrange(4))]
    words, known = [], [piece for piece in PIECES if not piece.startswith("$T")]
    for name in [*names, "$eip", "$esp"]:
        value = source.choice(known)
        for _ in range(source.randrange(4)):
            match source.randrange(6):
                case 0 | 1 | 2:
                    value += f" {source.choice(known)} {source.choice('+-')}"
                case 3:
                    value += " ^"
                case 4:
                    value += f" {source.choice(('1', '4', '16', '64'))} {source.choice('@/%')}"
                case 5:
                    value += f" {source.choice(known)} *"
        words.append(f"{name} {value} =")
        known.append(name)
    if source.randrange(2):
        # A slot of the frame, at some distance from the caller's %esp.
        words.append(f"$ebx $esp {source.randrange(-64, 64)} + ^ =")
    return " ".join(words)


def random_record(source: random.Random, rva: int = 0x1000, size: int = 0x20) -> StackWin:
    sizes = [source.choice((0, 4, 8, 0x20, 0x1234)) for _ in range(3)]
    if source.randrange(3):
        return StackWin(4, rva, size, 0, 0, *sizes, 0, 1, random_program(source))
    return StackWin(0, rva, size, 0, 0, *sizes, 0, 0, source.randrange(2))


def caller_by_row(row: Row, registers: dict[str, int], memory: ReadMemory) -> dict[str, int]:
    """The caller's registers by a row of x86 (DWARF5 6.4.1); without a rule they are unchanged."""
    frame = list(registers.values())

    def value_of(expression: int | bytes, initial: int | None = None) -> int:
        assert isinstance(expression, bytes)
        return expressions.evaluate(expressions.parse(expression, "little", 4), frame.__getitem__, memory, 4, initial)

    is_sum = row.cfa.kind is CfaKind.REGISTER
    cfa = frame[row.cfa.register] + int(row.cfa.value) & WORD if is_sum else value_of(row.cfa.value)
    caller = frame.copy()
    caller[ESP] = cfa
    for register, kind, value in row.registers:
        match kind, value:
            case RuleKind.OFFSET, int():
                caller[register] = memory(cfa + value & WORD, 4)
            case RuleKind.VAL_OFFSET, int():
                caller[register] = cfa + value & WORD
            case RuleKind.REGISTER, int():
                caller[register] = frame[value]
            case RuleKind.EXPRESSION, bytes():
                caller[register] = memory(value_of(value, cfa), 4)
            case RuleKind.VAL_EXPRESSION, bytes():
                caller[register] = value_of(value, cfa)
            case RuleKind.UNDEFINED, _:
                assert register == EIP
                caller[register] = 0
            case _:
                assert kind is RuleKind.SAME_VALUE
    return dict(zip(REGISTERS, caller, strict=True))


def test_rows_give_the_caller_that_the_program_gives() -> None:
    source = random.Random(17)
    kinds, compared = set(), 0
    for seed in range(800):
        record, size = random_record(source), source.choice((0, 0, 4, 12))
        table, refused = from_stack_win(build_record(record), next_parameter_size=size)
        if len(refused):
            assert set(refused.reason.tolist()) <= {Reason.WIN_OPERATOR, Reason.WIN_LENGTH}
            continue
        (row,) = next(iter(table)).rows
        for _ in range(3):
            registers = {name: source.getrandbits(32) for name in REGISTERS}
            expected = caller_by_stack_win(record, registers, memory_of(seed), size)
            found = caller_by_row(row, registers, memory_of(seed))
            assert {name: found[name] for name in expected} == expected, record
        kinds |= {(name_of(rule.register), rule.kind) for rule in row.registers} | {("cfa", row.cfa.kind)}
        compared += 1
    assert compared > 500
    assert {("cfa", kind) for kind in (CfaKind.REGISTER, CfaKind.EXPRESSION)} <= kinds
    saved = (RuleKind.OFFSET, RuleKind.VAL_OFFSET, RuleKind.REGISTER, RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION)
    assert {("$ebx", kind) for kind in saved} <= kinds


def name_of(register: int) -> str:
    return REGISTERS[register]


def test_the_row_at_a_pc_is_that_of_the_record_that_is_used() -> None:
    """Overlapping and nested records of all types, at every PC."""
    source = random.Random(5)
    compared = 0
    for seed in range(60):
        records = [
            random_record(source, 0x1000 + source.randrange(40), source.choice((0, 1, 2, 5, 13, 40)))
            for _ in range(source.randrange(1, 12))
        ]
        records += [replace(source.choice(records), type=source.choice((1, 2, 3)))]
        source.shuffle(records)
        table, refused = from_stack_win(b"".join(map(build_record, records)), 0, 0)
        registers = {name: source.getrandbits(32) for name in REGISTERS}
        for address in range(0xFFE, 0x1060):
            record, row = stack_win_at(records, address), row_at(table, address)
            if row is None:
                lost = (refused.start <= address) & (address < refused.end) & (refused.reason != Reason.WIN_TYPE)
                assert (record is not None) == lost.any()
                continue
            assert record is not None
            expected = caller_by_stack_win(record, registers, memory_of(seed))
            found = caller_by_row(row, registers, memory_of(seed))
            assert {name: found[name] for name in expected} == expected
            compared += 1
    assert compared > 500


def row_at(table: UnwindTable, address: int) -> Row | None:
    """The row in force; functions are disjoint."""
    for function in table:
        if function.start <= address < function.start + function.size:
            return [row for row in function.rows if function.start + row.offset <= address][-1]
    return None


def test_many_records_take_time_in_proportion() -> None:
    """Ranges nested 5,000 deep, each with another row."""
    count = 5_000
    lines = (
        f"STACK WIN 4 {one:x} {2 * (count - one):x} 0 0 0 0 {one:x} 0 1 $eip .raSearch ^ = $esp .raSearch 4 + =\n"
        for one in range(count)
    )
    table = whole(*from_stack_win("".join(lines), 0, 0))
    assert (len(table), len(table.rows)) == (1, 2 * count - 1)
    # The middle record covers two bytes.
    assert table.rows.offset.tolist() == [*range(count), *range(count + 1, 2 * count)]
    assert (table.rows.cfa_offset - 4).tolist() == [*range(count), *range(count - 2, -1, -1)]


# --- parameter sizes -----------------------------------------------------------------------------------------

SIZES = """PUBLIC 800 1 p
FUNC 1000 10 2 f
FUNC 1000 10 99 not the first at its address
PUBLIC 1008 8 inside f
PUBLIC 1020 3 q
FUNC 1030 8 4 g
PUBLIC 1040 5 r
STACK WIN 0 1034 10 0 0 6 0 0 0 0 0
STACK WIN 4 1036 2 0 0 7 0 0 0 1 x
STACK WIN 3 1000 100 0 0 99 0 0 0 0 0
"""
# The document: a FUNC record wins over a PUBLIC one, whose code extends to the next address mentioned.
SIZE_AT = {
    0x7FF: None, 0x800: 1, 0xFFF: 1, 0x1000: 2, 0x1008: 2, 0x100F: 2, 0x1010: 8, 0x101F: 8, 0x1020: 3, 0x102F: 3,
    0x1030: 4, 0x1033: 4, 0x1034: 6, 0x1035: 6, 0x1036: 7, 0x1037: 7, 0x1038: 6, 0x1043: 6, 0x1044: 5,
}  # fmt: skip


@pytest.mark.parametrize("address", SIZE_AT, ids=hex)
def test_parameter_size_of_the_called_function(address: int) -> None:
    records = [parse_record(line) for line in SIZES.encode().splitlines()]
    assert parameter_size_at(records, address) == SIZE_AT[address]
    # g ends at 0x1038; without the PUBLIC and STACK WIN records no size is known there.
    assert parameter_size_at(records[:6], 0x1038) is None


def test_a_called_function_that_pops_its_parameters() -> None:
    """A (no frame pointer, 8 bytes of locals) has pushed 12 bytes for B, a stdcall function, which called C: walking
    from B, %esp is at B's parameters, and A's return address is above these and the locals."""
    symbols = "FUNC 2000 40 0 A\nFUNC 3000 40 c B\nSTACK WIN 0 2000 40 0 0 0 0 8 0 0 0\n"
    records = [parse_record(line) for line in symbols.encode().splitlines()]
    record = record_of(symbols.splitlines()[2])
    size = parameter_size_at(records, 0x3010)
    assert size == 0xC
    memory = {0x100 + 0xC + 8: 0x4242}
    found = caller_by_stack_win(record, {"$esp": 0x100, "$ebp": 7}, lambda at, _: memory[at], size)
    assert found == {"$eip": 0x4242, "$esp": 0x118, "$ebp": 7}


# --- whole files ---------------------------------------------------------------------------------------------

WHOLE = """MODULE windows x86 5A9832E5287241C1838ED98914E9B7FF1 a.pdb
FUNC 1000 20 4 f
STACK WIN 4 1000 20 0 0 4 0 0 0 1 $T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + =
STACK WIN 0 1008 8 0 0 4 0 c 0 0 0
STACK WIN 0 1100 8 0 0 4 0 c 0 0 0
STACK WIN 4 2000 8 0 0 0 0 0 0 1 $eip $T1 ^ = $esp 4 =
STACK CFI INIT 1010 20 .cfa: $esp 4 + .ra: .cfa 4 - ^
"""


def test_stack_win_records_come_before_stack_cfi_records(tmp_path: Path) -> None:
    """Walkers use the latter only at PCs that no STACK WIN record covers."""
    (tmp_path / "a.sym").write_text(WHOLE)
    report = convert(tmp_path / "a.sym", tmp_path / "out", "breakpad", source="breakpad")
    assert (tmp_path / "out").read_bytes() == (
        b"STACK CFI INIT 1000 20 $ebp: .cfa -8 + ^ .cfa: $ebp 8 + .ra: .cfa -4 + ^\n"
        b"STACK CFI INIT 1020 10 .cfa: $esp 4 + .ra: .cfa -4 + ^\n"
    )
    refused = {"WIN_CALLEE": RefusedCount(1, 8), "WIN_PROGRAM": RefusedCount(1, 8)}
    assert (report.functions, report.refused, report.warnings) == (2, refused, ())
    # Other architectures have none.
    (tmp_path / "a.sym").write_text(WHOLE.replace("$esp", "$rsp").replace("x86", "x86_64"))
    report = convert(tmp_path / "a.sym", tmp_path / "out", "breakpad", source="breakpad")
    assert (report.functions, report.refused, report.warnings) == (1, {}, ())


# --- Breakpad's own walker -----------------------------------------------------------------------------------

MODULE = Module("handmade", 0x400000, 0x10000, bytes(range(1, 21)))
HEADING = f"MODULE windows x86 0403020106050807090A0B0C0D0E0F100 {MODULE.name}\nPUBLIC 1000 0 f\nPUBLIC 2000 0 g\n"
STACK = 0x7FFF0000
END = "STACK WIN 4 2000 100 0 0 0 0 0 0 1 $eip 0 = $esp $esp 4 + ="
WALKED = {
    "a frame pointer": "4 1000 100 0 0 0 8 10 0 1 $T0 $ebp = $eip $T0 4 + ^ = $ebp $T0 ^ = $esp $T0 8 + =",
    "no frame pointer": "4 1000 100 0 0 0 8 10 0 1 $T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + = $ebp $T0 8 - ^ =",
    "no program": "0 1000 100 0 0 0 8 10 0 0 0",
    "no program, %ebp in use": "0 1000 100 0 0 0 8 10 0 0 1",
}


@pytest.mark.oracle("npm")
@pytest.mark.parametrize("name", WALKED)
def test_minidump_stackwalk_finds_the_same_caller_with_both_texts(name: str, tmp_path: Path) -> None:
    words = [0x5000 + number for number in range(64)]
    # %ebp points at word 20, the return address above it; without a frame pointer it is in word 6 (0x18 bytes).
    words[21] = words[6] = MODULE.base + 0x2020
    registers = {"eip": MODULE.base + 0x1008, "esp": STACK, "ebp": STACK + 80, "ebx": 1, "esi": 2, "edi": 3}
    state = State(registers, STACK, b"".join(word.to_bytes(4, "little") for word in words), (MODULE,))
    programs = f"STACK WIN {WALKED[name]}\n{END}\n"
    table = whole(*from_stack_win(programs, 0, 0))
    rules_text = to_stack_cfi(table)[0].decode()
    ours, theirs = (
        walk("x86", state, store(tmp_path / folder, [HEADING + text]))
        for folder, text in (("cfi", rules_text), ("win", programs))
    )
    assert (ours[1].pc, ours[1].found_by) == (MODULE.base + 0x2020, BY_CFI)
    for register in ("eip", "esp", "ebp"):
        assert ours[1].registers[register] == theirs[1].registers[register]
