"""Values that no caller can mean, by what the signature of a public function says of a parameter.

Strategy: the annotation names the kind of a parameter; for integers, texts and choices its name does. A parameter of
neither table has no kind, which a test refuses: whoever adds one says here what is wrong for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import unwindkit

BEYOND = [-1, 1 << 64, 1 << 70, -(1 << 70)]
NOT_INTEGERS = [1.5, "x", b"x", [1]]
ADDRESSES = [*BEYOND, *NOT_INTEGERS, None]
INDICES = [-1, 1 << 40, 1 << 70, -(1 << 70), 1.5, None, "x"]
PCS = [
    *BEYOND,
    1.5,
    float("nan"),
    None,
    "x",
    [-1],
    [1 << 64],
    [-1, 1 << 63],
    [1.5],
    ["x"],
    [None],
    [[1], [1, 2]],
    np.array([1.0]),
    np.array([np.nan]),
    np.zeros((2, 2), np.uint64),
    np.array([object()]),
]
VIEWS = [
    memoryview(bytes(64))[::2],
    memoryview(bytes(64)).cast("B", (8, 8)),
    memoryview(bytes(64)).cast("I"),
    np.zeros((8, 8), np.uint8),
    np.zeros(16, np.uint32),
]
BYTES = [*VIEWS, 5, "x", None, [1, 2], object()]
# Lone surrogates; those of PEP 383, U+DC80 to U+DCFF, stand for bytes.
SURROGATES = ["\ud800", "a\ud800", "\udc80\ud800"]
TEXTS = [*SURROGATES, 5, None]
PATHS = [*TEXTS, "a\0b", object()]
OBJECTS = [5, "x", b"x", [], object(), unwindkit.Refusals, None]
COUNTS = [-1, 1.5, "x"]
CHOICES = ["x", "\ud800", 5, b"x", ["x"], {}]
COLUMNS = [[-1.5], np.zeros((2, 2)), np.array([1.5]), "x", np.array(["x"])]


def without_none(values: list[Any]) -> list[Any]:
    """The values that are wrong where None is meant."""
    return [one for one in values if one is not None]


COUNTS_63 = [*COUNTS, 1 << 63, None]
SECONDS = [-1.0, float("nan"), float("inf"), "x", [1], None]
CALLBACKS = [5, "x", None]
MAPPINGS = [5, "x", None, [1]]
SEQUENCES = [5, None, [5], [None]]

BY_ANNOTATION: dict[str, list[Any]] = {
    "Input": [*PATHS, *VIEWS, 5, None],
    "Sequence[Input]": [5, None, "x", *([one] for one in (*PATHS, *VIEWS))],
    "StrPath": PATHS,
    "StrPath | BinaryIO": PATHS,
    "StrPath | None": without_none(PATHS),
    "bytes": BYTES,
    "bytes | memoryview": BYTES,
    "memoryview": BYTES,
    "bytes | None": without_none(BYTES),
    "bytes | str": [*VIEWS, *TEXTS, [1, 2]],
    "ArrayLike": PCS,
    "ByteOrder": [*CHOICES, None],
    "ByteOrder | None": CHOICES,
    "Compact | None": CHOICES,
    "Writer": [*CHOICES, None],
    "Target | LineTarget": [*CHOICES, None],
    "FrameSource": [*CHOICES, None],
    "FrameSection": [*CHOICES, None],
    "LineView": [*CHOICES, None],
    "tuple[LineView, ...]": [("x",), (5,), ("raw", None), 5],
    "DebugFiles": OBJECTS,
    "UnwindTable": OBJECTS,
    "Frame": OBJECTS,
    "Places": OBJECTS,
    "UnwindTable | None": without_none(OBJECTS),
    "LineTable": OBJECTS,
    "LineTable | Input": [*PATHS, *VIEWS, unwindkit.Refusals],
    "Names": OBJECTS,
    "FunctionTable": OBJECTS,
    "LineRanges": OBJECTS,
    "FunctionSymbols | None": without_none(OBJECTS),
    "Sequence[PathMap]": SEQUENCES,
    "Literal['git', 'hg']": [*CHOICES, None],
    'Literal["git", "hg"]': [*CHOICES, None],
    "AddressRanges": OBJECTS,
    "Macros": OBJECTS,
    "Architecture": OBJECTS,
    "ElfImage": OBJECTS,
    "ElfSection": OBJECTS,
    "Case": OBJECTS,
    "Section": OBJECTS,
    "Section | None": without_none(OBJECTS),
    "Dialect": OBJECTS,
    "PointerBases": OBJECTS,
    "DwarfFormat": [5.5, "x", 3, None],
    "Refusals | None": without_none(OBJECTS),
    "MacroSources | None": without_none(OBJECTS),
    "Imports | None": without_none(OBJECTS),
    "RulesByPc": OBJECTS,
    "slice": OBJECTS,
    # The kind of a finding, and operands one by one.
    "P": OBJECTS,
    "MacroOperand": [[one] for one in OBJECTS],
    "RuleRange": OBJECTS,
    "StackWin": OBJECTS,
    "ReadMemory": CALLBACKS,
    "Callable[[Frame], Caller]": CALLBACKS,
    "Callable[[int], None] | None": without_none(CALLBACKS),
    "Iterable[StrPath]": [5, None, *([one] for one in PATHS)],
    "Executor | None": without_none(OBJECTS),
    "Mapping[str, int]": MAPPINGS,
    "Mapping[str, str]": [*MAPPINGS, {5: "x"}, {".cfa": 5, ".ra": 5}],
    "dict[int | None, int] | None": without_none(MAPPINGS),
    "Iterable[RuleRange]": SEQUENCES,
    # Records of other kinds are passed over.
    "Iterable[Record]": [5, None],
    "Iterable[StackWin]": SEQUENCES,
    "Iterable[tuple[int, Record]]": SEQUENCES,
    "Iterable[Function]": [*SEQUENCES, "x"],
    "Iterable[bytes]": [*SEQUENCES, "x", ["x"], [memoryview(bytes(8))[::2]]],
    "Iterable[int | str]": [*([one] for one in BEYOND), *([one] for one in SURROGATES), [1.5], [None], 5, None],
    "Sequence[int | str]": [*([one] for one in BEYOND), *([one] for one in SURROGATES), [1.5], [None], 5, None],
    "Sequence[str | int]": [*([one] for one in BEYOND), *([one] for one in SURROGATES), [1.5], [None], 5, None],
    "Sequence[int]": [[-1], [1 << 70], [1.5], ["x"], [None], 5, None],
    "Sequence[int] | None": [[1.5], ["x"], [None], 5],
    "Sequence[str]": [*SEQUENCES, ["\ud800"]],
    "Iterable[str]": [*SEQUENCES, ["\ud800"], ["x"]],
    "Sequence[str] | None": [5, [5], [None], ["\ud800"], ["a\nb"]],
    "Sequence[Section]": SEQUENCES,
    "Sequence[ElfSection]": SEQUENCES,
    "Sequence[tuple[Section, UnwindTable]]": [*SEQUENCES, [(5, 5)]],
    "Sequence[StrPath]": [5, None, *([one] for one in PATHS)],
    # A path that no file can have fails alone, as a `Failure` of the batch.
    "Sequence[tuple[StrPath, StrPath]]": [5, None, [5], [(5, "x")]],
    "Sequence[StrPath | tuple[StrPath, int]]": [5, None, *([one] for one in PATHS), [("x", -1)]],
    "str | bytes | Sequence[str | bytes]": [*SURROGATES, ["\ud800"], 5, None, [5], *VIEWS[:1]],
    "tuple[str, ...] | None": [5, (5,), ("\ud800",)],
    "Collection[Feature]": [5, None, ["x"], [5]],
    "Collection[str]": [5, None],
    "I64": COLUMNS,
    "U64": COLUMNS,
    "U8": COLUMNS,
    "I64 | None": COLUMNS,
    "ArrayLike | None": [*COLUMNS, [1 << 64]],
    "NDArray[np.int64] | None": COLUMNS,
    "NDArray[np.integer]": COLUMNS,
    "NDArray[np.bool_] | None": COLUMNS,
    "NDArray[np.integer[Any]]": COLUMNS,
    "NDArray[np.integer[Any]] | slice": COLUMNS,
    "NDArray[np.integer[Any]] | NDArray[np.bool_] | slice": COLUMNS,
    "Which": COLUMNS,
}
BY_NAME: dict[str, list[Any]] = {
    "factor": [0, -1, 1025, 1.5, "2", None],
    "section_address": ADDRESSES,
    "load_address": ADDRESSES,
    "address": ADDRESSES,
    "to_address": without_none(ADDRESSES),
    "segment": ADDRESSES,
    "next_parameter_size": ADDRESSES,
    "load_bias": [*NOT_INTEGERS, None],
    "signature_bits": ADDRESSES,
    "limit": [0, *COUNTS],
    "address_size": [*ADDRESSES, 0, 3],
    "pc": ADDRESSES,
    "line_offset": [*NOT_INTEGERS, None],
    "file": [*NOT_INTEGERS, None],
    "field": [*CHOICES, None],
    "word_size": [*ADDRESSES, 0],
    "version": [0, 9, -1, 1 << 70, 2.5, "2", b"x", [2]],
    "max_rows": [0, *COUNTS],
    "max_entries": COUNTS,
    "initial_depth": COUNTS,
    "pid": without_none(COUNTS_63),
    "steps": without_none(COUNTS_63),
    "burst": COUNTS_63,
    "seconds": without_none(SECONDS),
    "pause": SECONDS,
    "page": [0, *COUNTS],
    "count": COUNTS,
    "form": [*CHOICES, None],
    "title": TEXTS,
    "file_name": TEXTS,
    "references": COUNTS,
    "arch": CHOICES,
    "architecture": CHOICES,
    "section": CHOICES,
    "source": [5, b"x", ["x"]],
    "second_source": [5, b"x", ["x"]],
    "stack_pointer": [5, None],
    "expression": [*TEXTS, "x", "1 +"],
    "program": [*TEXTS, "x", "1 +"],
    "text": [*TEXTS, "", "\ud800=a", "/a=\ud800@b", "/a=b\n@c", "/a=b@c\0", "/a\n=b@c"],
    "name": TEXTS,
    "stored_name": TEXTS,
    "file_offset": without_none(ADDRESSES),
    "index": INDICES,
    "number": INDICES,
    "function": INDICES,
    "unit": INDICES,
    "tag": [1.5, "x"],
    "first": INDICES,
}
OF_NO_KIND = {
    "bool": "every object is true or false",
    "Any": "the choices are those of the function that is called for each file",
}


def bad_values(parameter: inspect.Parameter) -> list[Any] | None:
    """What is wrong for a parameter; None if that is not known."""
    annotation = str(parameter.annotation)
    if annotation in OF_NO_KIND:
        return []
    if annotation in BY_ANNOTATION:
        return BY_ANNOTATION[annotation]
    values = BY_NAME.get(parameter.name)
    return values if values is None or "None" not in annotation else without_none(values)


def parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters of a function, or of a method without its object."""
    return list(inspect.signature(function).parameters.values())
