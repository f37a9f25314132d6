"""What a symbol file is about: its MODULE record, how many records of each type it has, and where functions are.

Strategy: texts are searched in the whole file, and only the lines that matter are parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.breakpad.files import parse_record
from ...schemas.breakpad.records import RECORDS, Func, Module, Public
from ...schemas.text_records import bytes_from

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODULE = b"MODULE "
# Longer than the longest first line: operating system, architecture, id, and a file's name.
FIRST_LINE = 1 << 13
FUNCTION_STARTS = (b"FUNC ", b"PUBLIC ")
STACK = b"STACK "
LINE_RECORDS = "line records"


def module_record(data: memoryview) -> Module | None:
    """The MODULE record, which is in the first line; None if there is none. Raises ParseError if it is malformed."""
    line = bytes(data[:FIRST_LINE]).partition(b"\n")[0]
    if not line.startswith(MODULE):
        return None
    record = parse_record(line)
    return record if isinstance(record, Module) else None


def count_records(data: bytes) -> dict[str, int]:
    """The number of records of each type that a symbol file has, by their first words; all other lines, most of them
    line records, together."""
    found = {words: _lines_with(data, words.encode() + b" ") for words in RECORDS if words}
    # What begins with the words of a longer name, too.
    for words in found:
        found[words] -= sum(count for longer, count in found.items() if longer.startswith(f"{words} "))
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    blank = data.count(b"\n\n") + data.startswith(b"\n")
    found[LINE_RECORDS] = lines - blank - sum(found.values())
    return {words: count for words, count in found.items() if count}


def _lines_with(data: bytes, start: bytes) -> int:
    """The number of lines with this start."""
    return data.count(b"\n" + start) + data.startswith(start)


def lines_of(data: memoryview) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The offset of each line and of its end, which includes the line feed."""
    end = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")).astype(np.int64) + 1
    if len(data) and (not len(end) or end[-1] < len(data)):
        end = np.append(end, len(data))
    return np.append(0, end)[: len(end)], end


def lines_starting_with(data: memoryview, begin: NDArray[np.int64], words: bytes) -> NDArray[np.int64]:
    """The indices of the lines, which begin at these offsets, with this start."""
    text = np.frombuffer(data, np.uint8)
    found = np.flatnonzero(begin + len(words) <= len(text))
    for offset, letter in enumerate(words):
        found = found[text[begin[found] + offset] == letter]
    return found


def stack_size(data: memoryview) -> int:
    """The size in bytes of the STACK records, which are the unwind information of a symbol file."""
    begin, end = lines_of(data)
    lines = lines_starting_with(data, begin, STACK)
    return int((end[lines] - begin[lines]).sum())


def functions_of_names(data: bytes, names: Sequence[str], load_address: int) -> dict[str, tuple[int, ...]]:
    """The addresses of the functions of each name, from FUNC and PUBLIC records, ascending; none for an unknown name.
    Raises ParseError for a malformed record of a name."""
    return {name: tuple(sorted({one + load_address for one in _starts(data, name)})) for name in names}


def _starts(data: bytes, name: str) -> list[int]:
    """The addresses in FUNC and PUBLIC records with a name."""
    wanted, found = bytes_from(name), []
    number, begin = 1, 0
    at = data.find(wanted) if wanted else -1
    while at >= 0:
        number, begin = number + data.count(b"\n", begin, at), data.rfind(b"\n", begin, at) + 1 or begin
        end = data.find(b"\n", at)
        line = data[begin : end if end >= 0 else len(data)]
        if line.startswith(FUNCTION_STARTS) and line.rstrip(b"\r").endswith(wanted):
            record = parse_record(line, number)
            if isinstance(record, Func | Public) and record.name == name:
                found.append(record.address)
        at = data.find(wanted, begin + len(line))
    return found
