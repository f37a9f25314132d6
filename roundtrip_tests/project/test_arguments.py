"""Arguments that no caller can mean: ValueError, TypeError or FormatError from each public function, never another one.

Strategy: one table of functions and the names of their arguments, one of bad values for each kind of argument.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unwindkit
from unwindkit import FormatError

from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame
from ..support.tiny_elf import tiny_elf

ADDRESSES = [-1, 1 << 64, 1 << 70, -(1 << 70)]
PCS = [
    *ADDRESSES,
    1.5,
    None,
    "x",
    [-1],
    [1 << 64],
    [-1, 1 << 63],
    [1.5],
    ["x"],
    [None],
    np.array([1.0]),
    np.zeros((2, 2), np.uint64),
    np.array([object()]),
]
BYTES = [
    memoryview(bytes(64))[::2],
    memoryview(bytes(64)).cast("B", (8, 8)),
    memoryview(bytes(64)).cast("I"),
    np.zeros((8, 8), np.uint8),
    np.zeros(16, np.uint32),
    5,
    None,
    [1, 2],
]
# Lone surrogates; those of PEP 383, U+DC80 to U+DCFF, stand for bytes.
TEXTS = ["\ud800", "a\ud800", "\udc80\ud800", 5, None]
PATHS = [*TEXTS, "a\0b"]

FRAMES = eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40, "41 0e10"))
TABLE = unwindkit.from_eh_frame(FRAMES, 0, "x86_64")
SFRAME = unwindkit.to_sframe(TABLE)[0]

CALLS: list[tuple[str, Callable[[Any], object], list[Any]]] = [
    *(
        (name, partial(getattr(unwindkit, name)), PATHS)
        for name in ("read_elf", "read_lines", "info", "dump_sframe", "dump_cfi", "dump_lines", "dump_sections")
    ),
    *((f"{name}: bytes", getattr(unwindkit, name), BYTES[:-3]) for name in ("read_elf", "info", "dump_sections")),
    ("write_breakpad: out", lambda bad: unwindkit.write_breakpad(bytes(tiny_elf()), bad), PATHS),
    ("from_sframe", unwindkit.from_sframe, BYTES),
    ("from_eh_frame", lambda bad: unwindkit.from_eh_frame(bad, 0, "x86_64"), BYTES),
    ("from_debug_frame", lambda bad: unwindkit.from_debug_frame(bad, "x86_64"), BYTES),
    ("from_stack_cfi", lambda bad: unwindkit.from_stack_cfi(bad, "x86_64"), [*BYTES, *TEXTS]),
    ("from_stack_win", unwindkit.from_stack_win, [*BYTES, *TEXTS]),
    ("from_line_records", unwindkit.from_line_records, [*BYTES, *TEXTS]),
    ("from_function_records", unwindkit.from_function_records, [*BYTES, *TEXTS]),
    ("from_function_records: address", lambda bad: unwindkit.from_function_records(b"", bad), ADDRESSES),
    (
        "to_function_records: address",
        lambda bad: unwindkit.to_function_records(*unwindkit.from_function_records(b""), bad),
        ADDRESSES,
    ),
    ("prefix_map", unwindkit.prefix_map, ["", "\ud800=a"]),
    ("repository_map", lambda bad: unwindkit.repository_map("git", bad), ["", "/a=\ud800@b"]),
    ("from_directives", lambda bad: unwindkit.from_directives(bad, "x86_64"), [*BYTES, *TEXTS]),
    ("from_sframe: address", lambda bad: unwindkit.from_sframe(SFRAME, bad), ADDRESSES),
    ("to_sframe: address", lambda bad: unwindkit.to_sframe(TABLE, section_address=bad), ADDRESSES),
    ("from_stack_cfi: address", lambda bad: unwindkit.from_stack_cfi(b"", "x86_64", bad), ADDRESSES),
    ("from_stack_win: address", lambda bad: unwindkit.from_stack_win(b"", bad), ADDRESSES),
    ("from_line_records: address", lambda bad: unwindkit.from_line_records(b"", bad), ADDRESSES),
    ("from_line_records: size", lambda bad: unwindkit.from_line_records(b"", address_size=bad), [*ADDRESSES, 0, 3]),
    ("from_directives: address", lambda bad: unwindkit.from_directives(b"", "x86_64", bad), ADDRESSES),
    ("from_debug_line", unwindkit.from_debug_line, BYTES),
    ("from_debug_line: line_str", lambda bad: unwindkit.from_debug_line(b"", bad), BYTES),
    ("from_eh_frame: address", lambda bad: unwindkit.from_eh_frame(FRAMES, bad, "x86_64"), ADDRESSES),
    ("to_eh_frame: address", lambda bad: unwindkit.to_eh_frame(TABLE, bad), ADDRESSES),
    ("Section.of", lambda bad: unwindkit.Section.of(".x", bad), BYTES),
    ("find_lines", lambda bad: unwindkit.find_lines(unwindkit.from_line_records(b""), bad), PCS),
    ("find_rows", lambda bad: unwindkit.find_rows(TABLE, bad), PCS),
    ("find_fres", lambda bad: unwindkit.find_fres(SFRAME, bad), PCS),
    ("dump_sections: at", lambda bad: unwindkit.dump_sections(bytes(tiny_elf()), at=[bad]), [*ADDRESSES, "\ud800"]),
]


def read(call: Callable[[Any], object], argument: object) -> None:
    """Call, and read the first item of what yields items."""
    found = call(argument)
    if isinstance(found, Iterator):
        next(found)


@pytest.mark.parametrize(
    ("call", "bad"), [pytest.param(c, b, id=f"{n}-{i}") for n, c, v in CALLS for i, b in enumerate(v)]
)
def test_a_bad_argument_is_refused_as_one(call: Callable[[Any], object], bad: object) -> None:
    with pytest.raises((ValueError, TypeError, FormatError)) as caught:
        read(call, bad)
    assert type(caught.value) in (ValueError, TypeError) or isinstance(caught.value, FormatError)


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
