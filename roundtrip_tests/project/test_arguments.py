"""Arguments that no caller can mean: ValueError, TypeError or FormatError from each public function, never another one.

Strategy: the table of calls has the arguments of every public function. One argument at a time becomes a bad value of
the parameter's kind (`support/bad_arguments.py`). A public name in no table, or a parameter of no kind, fails a test.
"""

from __future__ import annotations

import atexit
import io
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unwindkit
from unwindkit import FormatError, testing
from unwindkit.schemas.breakpad.records import StackCfiInit, StackWin

from ..support.bad_arguments import INDICES, bad_values, parameters
from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame, octets
from ..support.linked_elf import linked_elf
from ..support.made.cores import core_of
from ..support.tiny_elf import tiny_elf

FRAMES = eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40, "41 0e10"))
X86_64 = unwindkit.ARCHITECTURES["x86_64"]
SECTION = unwindkit.Section.of(".eh_frame", FRAMES)
TABLE = unwindkit.from_eh_frame(FRAMES, 0, "x86_64")
SFRAME = unwindkit.to_sframe(TABLE)[0]
HDR = unwindkit.Section.of(".eh_frame_hdr", unwindkit.to_eh_frame_hdr(FRAMES, 0, 0x100, "x86_64"), 0x100)
LINES = unwindkit.from_line_records(b"FILE 0 a.c\nFUNC 1000 40 0 main\n1000 40 5 0\n")
ARANGES = unwindkit.Section.of(".debug_aranges", unwindkit.to_debug_aranges(LINES))
RANGES = unwindkit.read_address_ranges(ARANGES)
# Length, version, offset and length of the unit, offset and name of one entry, the terminator.
PUBNAMES = unwindkit.Section.of(
    ".debug_pubnames", octets("17000000 0200 00000000 30000000 0b000000 6d61696e00 00000000")
)
MACRO = unwindkit.Section.of(".debug_macro", octets("0500 00 01 05 582031 00 00"))
ELF = linked_elf()
IMAGE = unwindkit.open_elf(ELF)
RANGE = unwindkit.RuleRange(StackCfiInit(0x1000, 0x40, ((".cfa", "$rsp 8 +"), (".ra", ".cfa 8 - ^"))), ())
CASE = testing.Case("", 2, X86_64, "little", ".eh_frame", 0, FRAMES, (), {})
FUNCTIONS = unwindkit.from_function_records(b"")
WIN = StackWin(4, 0x1000, 0x40, 0, 0, 0, 0, 0, 0, 1, "$T0 $esp =")


def memory(_address: int, _size: int) -> int:
    return 0


CORE = core_of("x86_64", {16: 0x1000})
FRAME = unwindkit.Frame(0x1000, {7: 0x8000})
REGISTERS = {"$esp": 16, "$ebp": 16, "$eip": 1, "$ebx": 0, "$rsp": 16}
RULES = dict(RANGE.init.rules)
POSTFIX = {"names": REGISTERS, "memory": memory}
NAMES = unwindkit.read_pubnames(PUBNAMES)
MACROS = unwindkit.read_macros(MACRO)
# The other arguments of a call. PATH is a file in an empty folder, OUT one that is not there, PID that of a
# process that waits.
PATH, OUT, PID = object(), object(), object()
VALID: dict[str, dict[str, Any]] = {
    "function_directives": {"table": TABLE, "function": 0},
    "to_directives": {"table": TABLE},
    "from_line_records": {"text": b""},
    "to_line_records": {"table": LINES},
    "evaluate_postfix": {"expression": "$esp 4 +", **POSTFIX},
    "from_function_records": {"text": b""},
    "to_function_records": {"table": FUNCTIONS[0], "lines": FUNCTIONS[1]},
    "prefix_map": {"text": "a=b"},
    "repository_map": {"system": "git", "text": "/a=b@c"},
    "read_functions": {"path": ELF},
    "read_source_map": {"path": ELF},
    "run_postfix": {"program": "$T0 $esp =", **POSTFIX},
    "caller_registers": {"rules": RULES, "registers": REGISTERS, "memory": memory, "stack_pointer": "$rsp"},
    "evaluate_rules": {"rules": RULES, "registers": REGISTERS, "memory": memory},
    "rule_index": {"ranges": [RANGE]},
    "rule_ranges": {"records": [(1, RANGE.init)]},
    "rule_rows": {"found": RANGE},
    "from_stack_cfi": {"text": b"", "arch": "x86_64"},
    "to_stack_cfi": {"table": TABLE},
    "caller_by_stack_win": {"record": WIN, "registers": REGISTERS, "memory": memory},
    "parameter_size_at": {"records": [WIN], "address": 0x1000},
    "stack_win_at": {"records": [WIN], "address": 0x1000},
    "from_stack_win": {"text": b""},
    "edit_cfi": {"section": SECTION, "architecture": X86_64},
    "raised_limits": {"factor": 2},
    "merge_cfi": {"sections": [SECTION], "architecture": X86_64},
    "check_eh_frame_hdr": {"section": HDR, "frames": [(SECTION, TABLE)]},
    "from_debug_frame": {"data": b"", "arch": "x86_64"},
    "from_eh_frame": {"data": FRAMES, "section_address": 0, "arch": "x86_64"},
    "to_debug_frame": {"table": TABLE},
    "to_eh_frame": {"table": TABLE},
    "to_eh_frame_hdr": {"eh_frame": FRAMES, "section_address": 0, "address": 0x100, "arch": "x86_64"},
    "read_units": {"path": ELF},
    "open_elf": {"source": ELF},
    "addresses_of_names": {"image": IMAGE, "names": ["main"]},
    "from_directives": {"text": b"", "arch": "x86_64"},
    "find_in_file": {"path": ELF, "pcs": [0x1000]},
    "explain": {"path": ELF, "pc": 0x1000},
    "read_elf": {"path": ELF},
    "report": {"paths": [ELF]},
    "read_unit_macros": {"path": ELF},
    "symbolize": {"path": ELF, "pcs": [0x1000]},
    "find_lines": {"source": LINES, "pcs": [0x1000]},
    "paths_of": {"table": LINES},
    "from_debug_line": {"data": b""},
    "read_lines": {"path": ELF},
    "same_lines": {"one": LINES, "other": LINES},
    "to_debug_line": {"table": LINES},
    "address_ranges_of_units": {
        "debug_info_offset": np.zeros(1, np.uint64),
        "count": np.ones(1, np.int64),
        "address": np.ones(1, np.uint64),
        "length": np.ones(1, np.uint64),
    },
    "check_address_ranges": {"section": ARANGES},
    "read_address_ranges": {"section": ARANGES},
    "write_address_ranges": {"table": RANGES},
    "to_debug_aranges": {"table": LINES},
    "check_pubnames": {"section": PUBNAMES},
    "read_pubnames": {"section": PUBNAMES},
    "write_pubnames": {"table": NAMES},
    "find_address_ranges": {"table": RANGES, "pcs": [0x1000]},
    "find_names": {"table": NAMES, "wanted": "main"},
    "check_macros": {"section": MACRO},
    "flatten_macros": {"table": MACROS, "unit": 0},
    "macro_sources": {},
    "read_macros": {"section": MACRO},
    "write_macros": {"table": MACROS},
    "find_fres": {"data": SFRAME, "pcs": [0x1000]},
    "project_sframe": {"table": TABLE},
    "from_sframe": {"data": SFRAME},
    "to_sframe": {"table": TABLE},
    "by_pc": {"table": TABLE},
    "find_rows": {"table": TABLE, "pcs": [0x1000]},
    "table_of": {"architecture": X86_64, "functions": list(TABLE)},
    "walk_core": {"path": CORE},
    "walk_process": {"pid": PID},
    "walk_frames": {"frame": FRAME, "caller_of": lambda frame: unwindkit.caller_frame(TABLE, frame, memory)},
    "caller_frame": {"table": TABLE, "frame": FRAME, "memory": memory},
    "write_breakpad_many": {"paths": [PATH], "store": OUT},
    "write_sframe_many": {"pairs": [(PATH, OUT)]},
    "write_sframe_tree": {"paths": [PATH], "output_dir": OUT},
    "write_symbol_store": {"paths": [PATH], "store": OUT},
    "export_file": {"path": PATH, "out_dir": OUT},
    "export_tree": {"paths": [PATH], "out_dir": OUT},
    "store_breakpad": {"path": PATH, "store": OUT},
    "write_breakpad": {"path": PATH, "out": OUT},
    "check": {"first": PATH},
    "convert": {"path": PATH, "out_path": OUT, "to": "sframe"},
    "dump_cfi": {"path": ELF},
    "dump_json": {"path": ELF},
    "dump_lines": {"path": ELF},
    "dump_sections": {"path": ELF},
    "dump_sframe": {"path": ELF},
    "edit_eh_frame": {"path": PATH, "out_path": OUT},
    "write_eh_frame": {"path": PATH, "out_path": OUT, "table": unwindkit.read_elf(ELF)},
    "info": {"path": ELF},
    "merge_sframe": {"paths": [PATH], "out_path": OUT},
    "remove_sframe": {"path": PATH, "out_path": OUT},
    "write_sframe": {"path": PATH, "out_path": OUT},
    "verify": {"command": ["/bin/true"], "steps": 10},
    "write_sframe_section": {"path": PATH, "out_path": OUT},
    "testing.call_frames": {},
    "testing.corpus_cases": {"form": "sframe-v2"},
    "testing.elf_files": {},
    "testing.expressions": {},
    "testing.line_tables": {},
    "testing.unwind_tables": {},
    "testing.file_bytes": {"case": CASE},
    "testing.build_elf": {"architecture": X86_64, "byte_order": "little", "sections": []},
    "Section.of": {"name": ".x", "data": b""},
    "PathMap": {"old": b"a", "new": b"b"},
    "Section": {"name": ".x", "data": b""},
}

# Classes of records store what they are given: functions make them, and check them where they take them.
RECORDS = [
    "FunctionTable",
    "LineRanges",
    "SourceFrame",
    "SourceFrames",
    "SourceMap",
    "AddressRanges",
    "Architecture",
    "Backtrace",
    "BreakpadReport",
    "BuildError",
    "Caller",
    "CallerRegisters",
    "CheckReport",
    "CheckedPair",
    "LintFindings",
    "LintedSection",
    "RangeCount",
    "RowDifference",
    "CfaKind",
    "CfaRule",
    "ConvertReport",
    "CoreTraces",
    "CoreFrame",
    "DebugFiles",
    "DebugUnits",
    "EditReport",
    "EditedCfi",
    "EhFrameReport",
    "ElfImage",
    "ElfSection",
    "Failure",
    "FileInfo",
    "Findings",
    "FlatMacros",
    "CodeLine",
    "ExplainedField",
    "ExplainedRecord",
    "Explanation",
    "FormatError",
    "FoundNames",
    "FoundRow",
    "Frame",
    "FresAt",
    "Function",
    "FunctionFlag",
    "HdrFindings",
    "JsonSection",
    "LineAt",
    "LineReport",
    "LineTable",
    "LinesAt",
    "Macro",
    "MacroSources",
    "Macros",
    "MergeReport",
    "MergedCfi",
    "NameAt",
    "Names",
    "ParseError",
    "Paths",
    "Places",
    "RaState",
    "RangesAt",
    "Reason",
    "Refusal",
    "Refusals",
    "RefusedCount",
    "RefusedRecords",
    "RegisterRule",
    "RemoveReport",
    "Row",
    "RowsAt",
    "RuleIndex",
    "RuleKind",
    "RuleRange",
    "RuleRow",
    "RulesByPc",
    "SectionInfo",
    "SframeFigures",
    "SframeReport",
    "ExportReport",
    "SharedRange",
    "SharedRanges",
    "Strings",
    "ThreadTrace",
    "UnitAttributes",
    "UncoveredCode",
    "UnitMacros",
    "UnwindTable",
    "VerifiedFile",
    "VerifiedSource",
    "VerifyReport",
    "WalkedFrame",
    "WalkEnd",
    "WrongRow",
    "testing.CallFrames",
    "testing.Case",
    "testing.DwarfExpression",
    "testing.ElfSection",
    "testing.ElfWithFrames",
    "testing.Fault",
    "testing.Feature",
]
# Types of choices, which are not called.
CHOICES = ["Compact", "Writer"]

TABLE_INDICES: list[tuple[str, Callable[[Any], object]]] = [
    ("UnwindTable.function", TABLE.function),
    ("UnwindTable.run", TABLE.run),
    ("UnwindTable.row", TABLE.row),
    ("function_directives", lambda bad: unwindkit.function_directives(TABLE, bad)),
    ("flatten_macros", lambda bad: unwindkit.flatten_macros(MACROS, bad)),
]


def function_of(name: str) -> Callable[..., Any]:
    """The public function of a name in CALLS."""
    found: Any = testing if name.startswith("testing.") else unwindkit
    for part in name.removeprefix("testing.").split("."):
        found = getattr(found, part)
    result: Callable[..., Any] = found
    return result


def run(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Call, and read all of what yields items."""
    found = function(**arguments)
    if isinstance(found, Iterator):
        for _ in found:
            pass


def placed(value: Any, folder: Path) -> Any:
    """An argument with paths in place of PATH and OUT."""
    if isinstance(value, list | tuple):
        return type(value)(placed(one, folder) for one in value)
    if value is PID:
        return waiting()
    return folder / "in" if value is PATH else folder / "out" if value is OUT else value


@cache
def waiting() -> int:
    """A process that waits until the tests end."""
    process = subprocess.Popen(["sleep", "3600"])
    atexit.register(process.kill)
    return process.pid


def calls(names: Iterable[str]) -> list[Any]:
    """The names as parameters; what writes Parquet requires pyarrow."""
    mark = pytest.mark.oracle("pyarrow")
    return [pytest.param(name, marks=mark) if name.startswith("export_") else pytest.param(name) for name in names]


@pytest.mark.parametrize("name", calls(VALID))
def test_a_good_call_succeeds(name: str, tmp_path: Path) -> None:
    """So that a bad argument is the only reason for an error below."""
    (tmp_path / "in").write_bytes(ELF)
    arguments = {key: placed(value, tmp_path) for key, value in VALID[name].items()}
    run(function_of(name), arguments)
    assert (tmp_path / "out").exists() == (tmp_path / "out" in flat(list(arguments.values())))


def flat(values: list[Any]) -> list[Any]:
    """The values, and the items of those that are lists or tuples."""
    return [item for one in values for item in (flat(list(one)) if isinstance(one, list | tuple) else [one])]


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        pytest.param(*one.values, parameter.name, marks=one.marks)
        for one in calls(VALID)
        for parameter in parameters(function_of(one.values[0]))
    ],
)
def test_a_bad_argument_is_refused_as_one(
    name: str, parameter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_bytes(ELF)
    function = function_of(name)
    arguments = {key: placed(value, tmp_path) for key, value in VALID[name].items()}
    values = bad_values(next(one for one in parameters(function) if one.name == parameter))
    assert values is not None, "a parameter of no kind"
    for bad in values:
        # The type itself, unless it is FormatError: a UnicodeEncodeError is a ValueError, too.
        with pytest.raises((ValueError, TypeError, IndexError, FormatError)) as caught:
            run(function, {**arguments, parameter: bad})
        is_index = (name, parameter) in (("function_directives", "function"), ("flatten_macros", "unit"))
        allowed = (ValueError, TypeError, IndexError) if is_index else (ValueError, TypeError)
        assert type(caught.value) in allowed or isinstance(caught.value, FormatError), (bad, caught.value)


@pytest.mark.parametrize(("name", "call"), TABLE_INDICES, ids=[name for name, _ in TABLE_INDICES])
def test_an_index_is_of_an_item(name: str, call: Callable[[Any], object]) -> None:
    for bad in INDICES:
        with pytest.raises((IndexError, TypeError)):
            call(bad)


def test_every_public_name_has_calls_or_a_reason() -> None:
    public = {name for name in unwindkit.__all__ if callable(getattr(unwindkit, name))}
    public |= {f"testing.{name}" for name in testing.__all__}
    assert public - {*VALID, *RECORDS, *CHOICES} == set()
    assert {*RECORDS, *CHOICES} <= public


def test_what_is_accepted(tmp_path: Path) -> None:
    """Bytes of any kind, paths that are not UTF-8, PCs of any integer type and of the whole range."""
    for kind in (bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)):
        assert len(unwindkit.from_eh_frame(kind(FRAMES), 0, "x86_64")) == 1
    path = tmp_path / "\udcff"
    path.write_bytes(tiny_elf())
    assert len(unwindkit.read_elf(path)) == 2
    out = io.BytesIO()
    unwindkit.write_breakpad(path, out)
    assert b"STACK CFI INIT" in out.getvalue()
    for pcs in (0x1000, [0x1000], np.array([0x1000], np.int32), (0x1000, (1 << 64) - 1), []):
        assert unwindkit.find_rows(TABLE, pcs).function[:1].tolist() in ([0], [])
    # Without a common type of int64 and uint64 but float64, each address must still be exact.
    moved = unwindkit.from_stack_cfi(b"STACK CFI INIT 0 1 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n", "x86_64", (1 << 64) - 2)
    assert unwindkit.find_rows(moved, [1, (1 << 64) - 2, (1 << 64) - 1]).function.tolist() == [-1, 0, -1]


def test_addresses_of_the_upper_half_are_used_unchanged() -> None:
    start = (1 << 63) + 5
    data = eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(start, 0x10))
    table = unwindkit.from_eh_frame(data, 0, "x86_64")
    assert unwindkit.find_rows(table, [5, start, start + 0x10]).function.tolist() == [-1, 0, -1]
    assert unwindkit.find_rows(table, start).function.tolist() == [0]
