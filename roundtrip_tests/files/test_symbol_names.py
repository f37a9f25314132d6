"""The names of symbols: where they are in the string table, their size together, and where their functions are."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from unwindkit import ParseError, addresses_of_names, write_breakpad
from unwindkit.converters.elf.function_symbols import function_symbols
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.files.symbol_names import frames_of_symbols

from ..support.tiny_elf import CFI, CODE, STRTAB, SYMTAB, Content, patched, tiny_elf


def written(names: list[int], strings: bytes, tmp_path: Path) -> Path:
    """A program with functions of 1 byte from 0x1000 on, whose names start at these offsets."""
    symbols = b"".join(struct.pack("<IBBHQQ", name, 0x12, 0, 1, 0x1000 + at, 1) for at, name in enumerate(names))
    table, pool = Content(".symtab", bytes(24) + symbols, SYMTAB, 0), Content(".strtab", strings, STRTAB, 0)
    path = tmp_path / "program"
    path.write_bytes(patched(tiny_elf(CODE, CFI, table, pool), section=3, sh_link=4, sh_entsize=24))
    return path


def publics(path: Path) -> list[bytes]:
    out = io.BytesIO()
    write_breakpad(path, out)
    return [line for line in out.getvalue().splitlines() if line.startswith(b"PUBLIC")]


def test_names_may_be_ends_of_others_or_lack_a_terminator(tmp_path: Path) -> None:
    # 1: abc, 2: bc, 5: de, 7: past the end of the table.
    path = written([1, 2, 5, 7], b"\0abc\0de", tmp_path)
    assert publics(path) == [b"PUBLIC 100 0 abc", b"PUBLIC 101 0 bc", b"PUBLIC 102 0 de"]


def test_names_have_together_at_most_eight_times_the_bytes_of_the_tables(tmp_path: Path) -> None:
    """100 functions of 24 bytes with one name of n bytes and two terminators: 100 n <= 8 (2400 + n + 2) for n = 208."""
    assert len(publics(written([1] * 100, b"\0" + b"n" * 208 + b"\0", tmp_path))) == 100
    with pytest.raises(ParseError) as caught:
        publics(written([1] * 100, b"\0" + b"n" * 209 + b"\0", tmp_path))
    assert (caught.value.section, caught.value.record) == (".symtab", "st_name")
    assert caught.value.reason == "the names of 100 symbols have 20900 bytes, in tables of 2611 bytes (--raise-limits)"


def test_every_place_of_a_name_is_found(tmp_path: Path) -> None:
    """`a` is a name, the end of one, and what versioned names start with."""
    path = written([1, 3, 7, 8, 10], b"\0a\0a@V\0ba\0b", tmp_path)
    assert addresses_of_names(open_elf(path), ["a"]) == {"a": (0x1000, 0x1001, 0x1003)}


def test_symbols_at_some_addresses_are_those_of_the_whole_table(tmp_path: Path) -> None:
    """`a`, `bc` and `d`, each of 1 byte, from 0x1000 on."""
    path = written([1, 3, 6], b"\0a\0bc\0d", tmp_path)
    image = open_elf(path)
    whole = function_symbols(image)
    assert whole.name == ["a", "bc", "d"]
    for pcs, names in (([0xFFF], []), ([0x1000], ["a"]), ([0x1001, 0x1001], ["bc"]), ([0x1002, 0x1000], ["a", "d"])):
        some = function_symbols(image, np.array(pcs, np.uint64))
        assert (some.name, some.size.tolist()) == (names, [1] * len(names))
    frames = frames_of_symbols(image, np.array([0xFFF, 0x1000, 0x1001, 0x1002, 0x1003], np.uint64))
    assert [[one.function for one in each] for each in frames] == [[""], ["a"], ["bc"], ["d"], [""]]
