"""Arguments that no caller can mean, to methods of public classes: ValueError, TypeError, IndexError or FormatError.

Strategy: as in test_arguments.py, with an object for each method. A public method in no table fails a test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import unwindkit
from unwindkit import FormatError, testing
from unwindkit.schemas.macros import MacroOperand
from unwindkit.schemas.pointers import PointerBases

from ..support.bad_arguments import INDICES, bad_values
from .test_arguments import (
    ARANGES,
    ELF,
    FRAMES,
    IMAGE,
    LINES,
    MACROS,
    NAMES,
    RANGE,
    SECTION,
    TABLE,
    X86_64,
)

HEADER = IMAGE.named(".debug_line")[0]
SHARED = unwindkit.SharedRanges(*(np.zeros(1, one.dtype) for one in unwindkit.SharedRanges.declared))
REFUSALS = unwindkit.Refusals(
    np.zeros(1, np.int64), np.zeros(1, np.uint64), np.ones(1, np.uint64), np.ones(1, np.uint8)
)
RANGE_FINDINGS = unwindkit.check_address_ranges(ARANGES)
PROBLEM = next(iter(RANGE_FINDINGS.kinds))
STRINGS = unwindkit.Strings.of([b"a", b"bc"])
PATHS = unwindkit.paths_of(LINES)[1]
BY_PC = unwindkit.by_pc(TABLE)
UNITS = unwindkit.read_units(ELF)
CALL_FRAMES = testing.CallFrames(X86_64, "little", ".eh_frame", 0, FRAMES, PointerBases(), tuple(TABLE), frozenset())
CASE = testing.Case("", 2, X86_64, "little", ".eh_frame", 0, FRAMES, (), {})
# By method: the object or the class, and the arguments of a good call.
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "RuleIndex.at": (unwindkit.rule_index([RANGE]), {"address": 0x1000}),
    "EditedCfi.at": (unwindkit.edit_cfi(SECTION, X86_64), {"section_address": 0}),
    "DebugUnits.__getitem__": (UNITS, {"unit": 0}),
    "DebugUnits.at": (UNITS, {"offset": np.zeros(1, np.int64)}),
    "DebugUnits.text": (UNITS, {"number": 0}),
    "ElfImage.content_size": (IMAGE, {"header": HEADER}),
    "ElfImage.contents": (IMAGE, {"header": HEADER}),
    "ElfImage.dynamic_value": (IMAGE, {"tag": 3}),
    "ElfImage.named": (IMAGE, {"name": ".text"}),
    "ElfImage.part_of": (IMAGE, {"header": HEADER}),
    "ElfImage.stored_like": (IMAGE, {"header": HEADER, "content": b""}),
    "UnitMacros.__getitem__": (next(unwindkit.read_unit_macros(ELF)), {"index": 0}),
    "Findings.of": (RANGE_FINDINGS, {"problem": PROBLEM}),
    "LinesAt.__getitem__": (unwindkit.find_lines(LINES, [0x1000]), {"index": 0}),
    "Paths.__getitem__": (PATHS, {"index": 0}),
    "Paths.select": (PATHS, {"which": [0]}),
    "Paths.whole": (PATHS, {"source": ".debug_line"}),
    "LineTable.comp_dir_of": (LINES, {"unit": 0}),
    "LineTable.directories_of": (LINES, {"unit": 0}),
    "LineTable.file_numbers": (LINES, {"rows": np.zeros(1, np.int64)}),
    "LineTable.files_of": (LINES, {"unit": 0}),
    "LineTable.name_of": (LINES, {"unit": 0}),
    "LineTable.row": (LINES, {"number": 0}),
    "LineTable.sequence": (LINES, {"number": 0}),
    "Names.name_of": (NAMES, {"index": 0}),
    "Names.part": (NAMES, {"field": "kind", "names": slice(None)}),
    "FoundNames.__getitem__": (unwindkit.find_names(NAMES, "main"), {"wanted": 0}),
    "MacroSources.file_name": (unwindkit.macro_sources(), {"line_offset": 0, "file": 1}),
    "MacroSources.file_names": (unwindkit.macro_sources(), {"line_offset": 0}),
    "Macros.flag": (MACROS, {"name": "offset_size"}),
    "Macros.has_operand": (MACROS, {"entries": np.zeros(1, np.int64), "operands": [MacroOperand.TEXT]}),
    "Macros.is_described": (MACROS, {"entries": np.zeros(1, np.int64)}),
    "Macros.text_of": (MACROS, {"index": 0}),
    "Macros.unit_of": (MACROS, {"entries": np.zeros(1, np.int64)}),
    "Refusals.__getitem__": (REFUSALS, {"index": 0}),
    "SharedRanges.__getitem__": (SHARED, {"index": 0}),
    "SourceFrames.__getitem__": (unwindkit.symbolize(ELF, [0x1000]), {"index": 0}),
    "Strings.__getitem__": (STRINGS, {"index": 0}),
    "Strings.first": (STRINGS, {"index": 0, "count": 1}),
    "Strings.join": (STRINGS, {"which": np.arange(2)}),
    "Strings.join_parts": (STRINGS, {"which": np.arange(2)}),
    "Strings.last": (STRINGS, {"index": 0, "count": 1}),
    "Strings.limit": (STRINGS, {"references": 1}),
    "Strings.of": (unwindkit.Strings, {"texts": [b"a"]}),
    "Strings.select": (STRINGS, {"which": [0]}),
    "Strings.within": (
        unwindkit.Strings,
        {"data": np.zeros(2, np.uint8), "start": np.zeros(1, np.int64), "size": np.ones(1, np.int64)},
    ),
    "RulesByPc.differences": (BY_PC, {"other": BY_PC}),
    "UnwindTable.cfa": (TABLE, {"index": 0}),
    "UnwindTable.function": (TABLE, {"index": 0}),
    "UnwindTable.row": (TABLE, {"index": 0}),
    "UnwindTable.rule_slice": (TABLE, {"first": 0, "count": 1}),
    "UnwindTable.run": (TABLE, {"index": 0}),
    "UnwindTable.select": (TABLE, {"which": [0]}),
    "testing.Case.to_json": (CASE, {"title": "case", "file_name": "case.elf"}),
    "testing.CallFrames.function_at": (CALL_FRAMES, {"pc": 0x1000}),
    "testing.CallFrames.row_at": (CALL_FRAMES, {"pc": 0x1000}),
}
# Of test_arguments.py.
ELSEWHERE = {"Section.of"}
# Their first argument is of a class that is not public.
INTERNAL = {"MacroSources.add_indexed", "MacroSources.add_line_strings", "MacroSources.add_strings"}
# Parameters of indices, and of arrays of them: IndexError for those that are not there.
OF_INDICES = {"index", "number", "unit", "wanted", "which", "rows", "entries", "first", "count"}


def public_classes() -> Iterator[tuple[str, type]]:
    """The public classes, by name."""
    for module, prefix in ((unwindkit, ""), (testing, "testing.")):
        for name in module.__all__:
            if inspect.isclass(found := getattr(module, name)):
                yield prefix + name, found


def public_methods() -> Iterator[str]:
    """The methods that take arguments. Those of Columns, which only classes of columns share, are not public."""
    for name, found in public_classes():
        for key, value in vars(found).items():
            function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            is_public = not key.startswith("_") or key == "__getitem__"
            if is_public and inspect.isfunction(function) and len(inspect.signature(function).parameters) > 1:
                yield f"{name}.{key}"


def method_of(name: str) -> Callable[..., Any]:
    """A method of CALLS, of its object."""
    method: Callable[..., Any] = getattr(CALLS[name][0], name.rpartition(".")[2])
    return method


def run(name: str, arguments: dict[str, Any]) -> None:
    """Call, and read all of what yields items."""
    method = method_of(name)
    positional: list[Any] = []
    for one in inspect.signature(method).parameters.values():
        if one.name in arguments:
            value = arguments[one.name]
            positional += value if one.kind is one.VAR_POSITIONAL else [value]
    found = method(*positional)
    if isinstance(found, Iterator):
        list(found)


def wrong(name: str, parameter: inspect.Parameter) -> list[Any] | None:
    """The bad values of a parameter. A sequence counts negative indices from its end; -1 is no string of a unit."""
    if name.endswith("__getitem__") or name == "DebugUnits.text":
        return [one for one in INDICES if one != -1]
    return bad_values(parameter)


def test_every_public_method_has_a_call_or_a_reason() -> None:
    assert set(public_methods()) == {*CALLS, *ELSEWHERE, *INTERNAL}


@pytest.mark.parametrize("name", CALLS)
def test_a_good_call_succeeds(name: str) -> None:
    """So that a bad argument is the only reason for an error below."""
    run(name, CALLS[name][1])


@pytest.mark.parametrize(("name", "parameter"), [(name, one) for name, (_, good) in CALLS.items() for one in good])
def test_a_bad_argument_is_refused_as_one(name: str, parameter: str) -> None:
    good = CALLS[name][1]
    values = wrong(name, inspect.signature(method_of(name)).parameters[parameter])
    assert values, "a parameter of no kind"
    for bad in values:
        with pytest.raises((ValueError, TypeError, IndexError, FormatError)) as caught:
            run(name, {**good, parameter: bad})
        allowed = (ValueError, TypeError, IndexError) if parameter in OF_INDICES else (ValueError, TypeError)
        assert type(caught.value) in allowed or isinstance(caught.value, FormatError), (bad, caught.value)


SEQUENCES = [name for name in CALLS if name.endswith("__getitem__")]


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_counts_negative_indices_from_its_end(name: str) -> None:
    found = CALLS[name][0]
    assert found[-1] == found[len(found) - 1]
    assert found[-len(found)] == found[0]
    for beyond in (len(found), -len(found) - 1):
        with pytest.raises(IndexError):
            found[beyond]


def test_a_selection_is_of_functions_that_are_there() -> None:
    assert len(TABLE.select([])) == 0
    assert len(TABLE.select(np.array([True]))) == len(TABLE.select(slice(5))) == 1
    for indices in ([1], [-1]):
        with pytest.raises(IndexError):
            TABLE.select(indices)
    with pytest.raises(ValueError, match="mask"):
        TABLE.select(np.array([True, False]))


def test_a_string_is_inside_its_bytes() -> None:
    data = np.zeros(2, np.uint8)
    for start, size in ((0, 3), (3, 0), (-1, 1), (1, -1)):
        with pytest.raises(ValueError, match="outside the 2 bytes"):
            unwindkit.Strings.within(data, np.array([start]), np.array([size]))
