"""STACK CFI and STACK WIN records evaluated: the document's examples, with memory made by hand."""

from __future__ import annotations

import io

import pytest
from unwindkit import ParseError
from unwindkit.converters.breakpad.stack_cfi.evaluate import (
    RuleIndex,
    RuleRow,
    caller_registers,
    evaluate_rules,
    missing_rules,
    rule_index,
    rule_ranges,
    rule_rows,
)
from unwindkit.converters.breakpad.stack_win import caller_by_stack_win, stack_win_at
from unwindkit.converters.dwarf.expressions import ReadMemory
from unwindkit.schemas.breakpad.files import parse_record, read_records
from unwindkit.schemas.breakpad.records import StackWin


def memory_of(words: dict[int, int], word_size: int = 4) -> ReadMemory:
    """Memory with words at these addresses only, read in whole words."""

    def read(address: int, size: int) -> int:
        assert size == word_size
        return words[address]

    return read


def index_of(text: bytes) -> RuleIndex:
    return rule_index(rule_ranges(read_records(io.BytesIO(text))))


def row_at(index: RuleIndex, address: int) -> RuleRow:
    row = index.at(address)
    assert row is not None
    return row


# --- the document's function at 0x1000 -----------------------------------------------------------------------

# The document's records, plus the INIT's size, which it omits: func+22 is the last instruction.
FUNC = b"""STACK CFI INIT 1000 17 .cfa: $sp .ra: .cfa ^
STACK CFI      1001 .cfa: $sp 16 +
STACK CFI      1002 $r0: .cfa 4 - ^
STACK CFI      100b .cfa: $sp 20 +
STACK CFI      1015 $r0: $r0
STACK CFI      1016 .cfa: $sp
"""
# The document's table: offsets from func, .cfa, r0; .ra is cfa[0] in all rows.
TABLE = [
    (range(1), "$sp", None),
    (range(1, 2), "$sp 16 +", None),
    (range(2, 11), "$sp 16 +", ".cfa 4 - ^"),
    (range(11, 21), "$sp 20 +", ".cfa 4 - ^"),
    (range(21, 22), "$sp 20 +", "$r0"),
    (range(22, 23), "$sp", "$r0"),
]
ENTRY_SP, RETURN, SAVED, CLOBBERED = 0x8000, 0x4242, 0x77, 0xDEAD
STACK = memory_of({ENTRY_SP: RETURN, ENTRY_SP - 4: SAVED})
# The stack pointer before each instruction of the document's listing, and where r0 holds something else.
DEPTHS = {**dict.fromkeys(range(1, 11), 16), **dict.fromkeys(range(11, 22), 20)}
R0_IN_USE = range(2, 21)


@pytest.mark.parametrize(("offsets", "cfa", "r0"), TABLE, ids=[str(row[0].start) for row in TABLE])
def test_the_documents_table_row_by_row(offsets: range, cfa: str, r0: str | None) -> None:
    index = index_of(FUNC)
    for offset in offsets:
        row = row_at(index, 0x1000 + offset)
        assert (row.start, row.end) == (0x1000 + offsets.start, 0x1000 + offsets.stop)
        expected = {".cfa": cfa, ".ra": ".cfa ^"} | ({} if r0 is None else {"$r0": r0})
        assert row.rules == expected


def test_the_documents_function_recovers_its_caller_at_every_instruction() -> None:
    index = index_of(FUNC)
    for offset in range(23):
        registers = {
            "$sp": ENTRY_SP - DEPTHS.get(offset, 0),
            "$r0": CLOBBERED if offset in R0_IN_USE else SAVED,
            "$r1": 0x11,
        }
        found = caller_registers(
            row_at(index, 0x1000 + offset).rules, registers, STACK, 4, stack_pointer="$sp", callee_saved=("$r0", "$r1")
        )
        assert found.values == {".cfa": ENTRY_SP, ".ra": RETURN, "$sp": ENTRY_SP, "$r0": SAVED, "$r1": 0x11}, offset
        assert found.undefined == frozenset()
    assert index.at(0xFFF) is None
    assert index.at(0x1017) is None


# --- the document's pair at 804c4b0 --------------------------------------------------------------------------

PAIR = b"""STACK CFI INIT 804c4b0 40 .cfa: $esp 4 + $eip: .cfa 4 - ^
STACK CFI 804c4b1 .cfa: $esp 8 + $ebp: .cfa 8 - ^
"""


def test_the_documents_pair_at_804c4b0() -> None:
    index = index_of(PAIR)
    memory = memory_of({0x100: 0x8041234, 0xFC: 0x180})
    entry = evaluate_rules(row_at(index, 0x804C4B0).rules, {"$esp": 0x100, "$ebp": 0x180}, memory, 4)
    assert entry.values == {".cfa": 0x104, "$eip": 0x8041234}
    # %ebp has been pushed: %esp is four less, and holds it.
    for address in (0x804C4B1, 0x804C4EF):
        pushed = evaluate_rules(row_at(index, address).rules, {"$esp": 0xFC, "$ebp": 0}, memory, 4)
        assert pushed.values == {".cfa": 0x104, "$eip": 0x8041234, "$ebp": 0x180}
    assert index.at(0x804C4F0) is None
    # It has $eip where walkers need .ra.
    assert missing_rules(row_at(index, 0x804C4B0).rules) == (".ra",)
    with pytest.raises(ParseError, match=r"no rule for \.ra is in force"):
        caller_registers(row_at(index, 0x804C4B0).rules, {"$esp": 0x100}, memory, 4, stack_pointer="$esp")


# --- rules -------------------------------------------------------------------------------------------------


def test_an_expression_sees_the_callees_registers_whatever_stands_before_it() -> None:
    rules = {"$a": "$b 1 +", "$b": "$a 2 +", ".ra": "$b", ".cfa": "$a", "$sp": ".cfa 3 +"}
    found = caller_registers(rules, {"$a": 10, "$b": 20, "$sp": 30}, memory_of({}), stack_pointer="$sp")
    assert found.values == {".cfa": 10, ".ra": 20, "$a": 21, "$b": 12, "$sp": 13}


def test_an_undefined_register_has_no_value_and_is_not_unchanged() -> None:
    rules = {".cfa": "$sp", ".ra": "1", "$a": ".undef", "$sp": ".undef"}
    found = caller_registers(
        rules, {"$sp": 5, "$a": 6, "$b": 7}, memory_of({}), stack_pointer="$sp", callee_saved=("$a", "$b", "$c")
    )
    assert found.values == {".cfa": 5, ".ra": 1, "$b": 7}
    assert found.undefined == {"$a", "$sp"}


@pytest.mark.parametrize(
    ("rules", "missing"),
    [
        ({}, (".cfa", ".ra")),
        ({".ra": "1"}, (".cfa",)),
        ({".cfa": "1", ".ra": ".undef"}, (".ra",)),
        ({".cfa": "1", ".ra": "0"}, ()),
    ],
)
def test_missing_rules_are_named(rules: dict[str, str], missing: tuple[str, ...]) -> None:
    assert missing_rules(rules) == missing
    if missing:
        with pytest.raises(ParseError, match=" and ".join(missing)):
            caller_registers(rules, {}, memory_of({}), stack_pointer="$sp")


def test_a_rule_without_value_says_whose_it_is() -> None:
    with pytest.raises(ParseError, match=r"^postfix\+0x5: \$a: \$b 8 \+: \$b has no value$"):
        evaluate_rules({"$a": "$b 8 +", ".cfa": "1"}, {}, memory_of({}))
    # .cfa has no value in its own rule, nor .ra in any.
    for rules in ({".cfa": ".cfa 8 +"}, {".cfa": "8", ".ra": "1", "$a": ".ra"}):
        with pytest.raises(ParseError, match="has no value"):
            evaluate_rules(rules, {}, memory_of({}))


def test_a_delta_changes_what_it_names_until_the_next_init() -> None:
    index = index_of(
        b"STACK CFI INIT 10 10 .cfa: 1 .ra: 2 a: 3\nSTACK CFI 14 a: .undef\nSTACK CFI 18 a: 5 .ra: 6\n"
        b"FILE 0 a.c\nSTACK CFI 1c b: 7\nSTACK CFI INIT 20 10 .cfa: 8 .ra: 9\n"
    )
    assert [row_at(index, address).rules for address in (0x10, 0x13, 0x14, 0x18, 0x1C, 0x1F, 0x20)] == [
        {".cfa": "1", ".ra": "2", "a": "3"},
        {".cfa": "1", ".ra": "2", "a": "3"},
        {".cfa": "1", ".ra": "2", "a": ".undef"},
        {".cfa": "1", ".ra": "6", "a": "5"},
        {".cfa": "1", ".ra": "6", "a": "5", "b": "7"},
        {".cfa": "1", ".ra": "6", "a": "5", "b": "7"},
        {".cfa": "8", ".ra": "9"},
    ]


def test_deltas_out_of_order_or_range() -> None:
    # At the INIT's own address, twice at one, descending, before it, at its end and after.
    (found,) = rule_ranges(
        read_records(
            io.BytesIO(
                b"STACK CFI INIT 10 10 a: 1\nSTACK CFI 10 b: 2\nSTACK CFI 18 a: 3\nSTACK CFI 18 a: 4\n"
                b"STACK CFI 14 b: 5\nSTACK CFI f a: 6\nSTACK CFI 20 a: 7\nSTACK CFI 21 a: 8\n"
            )
        )
    )
    assert list(rule_rows(found)) == [
        RuleRow(0x10, 0x14, {"a": "1", "b": "2"}),
        RuleRow(0x14, 0x18, {"a": "1", "b": "5"}),
        RuleRow(0x18, 0x20, {"a": "4", "b": "5"}),
    ]


def test_ranges_that_overlap_or_are_empty() -> None:
    index = index_of(
        b"STACK CFI INIT 30 8 a: 4\nSTACK CFI INIT 10 10 a: 1\nSTACK CFI INIT 10 20 a: 2\nSTACK CFI INIT 18 20 a: 3\n"
        b"STACK CFI INIT 32 0 a: 5\nSTACK CFI INIT 10 0 a: 6\nSTACK CFI INIT 50 0 a: 7\nSTACK CFI INIT 50 1 a: 8\n"
    )
    found = {address: index.at(address) for address in (0xF, 0x10, 0x1F, 0x20, 0x2F, 0x30, 0x37, 0x38, 0x50, 0x51)}
    assert {address: row.rules["a"] for address, row in found.items() if row} == {
        0x10: "1",
        0x1F: "1",
        0x30: "4",
        0x37: "4",
        0x50: "8",
    }
    assert RuleIndex((), ()).at(5) is None


def test_a_delta_without_init_is_an_error() -> None:
    with pytest.raises(ParseError, match=r"^line 2: STACK CFI: no STACK CFI INIT before it$"):
        index_of(b"FILE 0 a\nSTACK CFI 10 a: 1\n")


# --- STACK WIN -----------------------------------------------------------------------------------------------


def stack_win(line: str) -> StackWin:
    record = parse_record(line.encode())
    assert isinstance(record, StackWin)
    return record


# type, rva, code, prologue, epilogue, parameters c, saved registers 8, locals 10, max stack
FIELDS = "1000 20 1 2 c 8 10 40"
REGISTERS = {"$esp": 0x100, "$ebp": 0x500, "$ebx": 9}


def test_fpo_with_a_base_pointer_of_its_own() -> None:
    record = stack_win(f"STACK WIN 0 {FIELDS} 0 1")
    # frame_size 0x10 + 8 + 0: return address at 0x118; %ebp at 0x100 + 0 + 8 - 8.
    memory = memory_of({0x118: 0x4000, 0x100: 0x600})
    assert caller_by_stack_win(record, REGISTERS, memory) == {"$eip": 0x4000, "$esp": 0x11C, "$ebp": 0x600}
    # Four bytes of arguments pushed for the function that this one called.
    memory = memory_of({0x11C: 0x4000, 0x104: 0x600})
    assert caller_by_stack_win(record, REGISTERS, memory, 4) == {"$eip": 0x4000, "$esp": 0x120, "$ebp": 0x600}


def test_fpo_that_leaves_the_base_pointer_alone() -> None:
    record = stack_win(f"STACK WIN 0 {FIELDS} 0 0")
    assert caller_by_stack_win(record, REGISTERS, memory_of({0x11C: 0x4000}), 4) == {
        "$eip": 0x4000,
        "$esp": 0x120,
        "$ebp": 0x500,
    }


def test_addresses_wrap_at_four_bytes() -> None:
    record = stack_win(f"STACK WIN 0 {FIELDS} 0 1")
    memory = memory_of({0x8: 0x4000, 0xFFFFFFF0: 0x600})
    found = caller_by_stack_win(record, {"$esp": 0xFFFFFFF0, "$ebp": 0}, memory)
    assert found == {"$eip": 0x4000, "$esp": 0xC, "$ebp": 0x600}


def test_program_strings_see_the_documents_variables() -> None:
    program = "$T0 .raSearchStart = $eip $T0 ^ = $esp $T0 4 + = $ebp .cbParams = $esi .cbSavedRegs = $edi .cbLocals ="
    record = stack_win(f"STACK WIN 4 {FIELDS} 1 {program}")
    assert caller_by_stack_win(record, REGISTERS, memory_of({0x11C: 0}), 4) == {
        "$eip": 0,
        "$esp": 0x120,
        "$ebp": 0xC,
        "$esi": 8,
        "$edi": 0x10,
    }
    record = stack_win(f"STACK WIN 4 {FIELDS} 1 $ebx $ebx 1 + = $eip .raSearch =")
    assert caller_by_stack_win(record, REGISTERS, memory_of({})) == {"$ebx": 10, "$eip": 0x118}


def test_the_documents_program_string() -> None:
    # As published it lacks a word: `=` has a value and no name.
    with pytest.raises(ParseError, match="too few values on the stack for ="):
        caller_by_stack_win(
            stack_win("STACK WIN 4 2170 14 1 0 0 0 0 0 1 $eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ ="),
            REGISTERS | {"$eip": 0x2171},
            memory_of({0x2175: 1}),
        )
    record = stack_win("STACK WIN 4 2170 14 1 0 0 0 0 0 1 $eip $ebp 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ =")
    memory = memory_of({0x504: 0x4000, 0x500: 0x600})
    assert caller_by_stack_win(record, REGISTERS, memory) == {"$eip": 0x4000, "$esp": 0x508, "$ebp": 0x600}


def test_registers_that_are_not_known() -> None:
    record = stack_win(f"STACK WIN 0 {FIELDS} 0 1")
    for name in ("$esp", "$ebp"):
        with pytest.raises(ParseError, match=rf"STACK WIN: \{name} has no value"):
            caller_by_stack_win(record, {key: value for key, value in REGISTERS.items() if key != name}, memory_of({}))


def test_frame_data_is_preferred_then_the_smaller_range() -> None:
    fpo, small_fpo = stack_win("STACK WIN 0 1000 20 0 0 0 0 0 0 0 0"), stack_win("STACK WIN 0 1000 c 0 0 0 0 0 0 0 0")
    data, inner = stack_win("STACK WIN 4 1008 10 0 0 0 0 0 0 1 x"), stack_win("STACK WIN 4 100c 4 0 0 0 0 0 0 1 y")
    trap = stack_win("STACK WIN 1 1000 1 0 0 0 0 0 0 0 0")
    records = [trap, fpo, small_fpo, data, inner, stack_win("STACK WIN 4 100c 4 0 0 0 0 0 0 1 z")]
    found = [
        stack_win_at(records, address)
        for address in (0xFFF, 0x1000, 0x1007, 0x1008, 0x100C, 0x100F, 0x1010, 0x1018, 0x1020)
    ]
    assert found == [None, small_fpo, small_fpo, data, inner, inner, data, fpo, None]
