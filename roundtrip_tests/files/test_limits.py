"""Every limit on what a small file may amplify, on both sides of its boundary, and raised.

Strategy: a case reads an input of a given size; `most` is the largest that is within the limit, by the constants in
docs/limits.md; for texts, qualified names and register rules it was found by trying. One more is refused with the
option that raises it, and read when limits are doubled. Where an input at a limit would have millions of rows, its
constant is made small.
"""

from __future__ import annotations

import gzip
import lzma
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import unwindkit
from unwindkit import BuildError, FormatError, Section, by_pc, flatten_macros, raised_limits, read_macros
from unwindkit.converters import limits
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.breakpad.demangle import demangle_names
from unwindkit.converters.elf.debug_files import _unpacked
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.elf.symbols import name_ranges
from unwindkit.converters.packages.streams import Unpacked
from unwindkit.converters.strings import Strings
from unwindkit.converters.table.cut import trim
from unwindkit.converters.table.model import Function, UnwindTable, table_of
from unwindkit.converters.table.runs import cut_runs
from unwindkit.jobs.dump import dump_json

from ..support.handmade import at, octets, row, sp
from ..support.made.debug_entries import Layout
from ..support.tiny_elf import CODE, COMPRESSED, Content, patched, tiny_elf

RAISED = " (--raise-limits)"
LAYOUT = Layout(4)


def sections_together(size: int) -> object:
    """Two sections of 0x400 bytes in all; the names have 37 bytes. The file has 0x400 bytes and 5 headers of 64."""
    data = tiny_elf(CODE, Content(".a"), Content(".b"))
    stated = len(CODE.data) + len(b"\0.text\0.a\0.b\0.shstrtab\0")
    patched(data, 2, sh_offset=0, sh_size=size)
    patched(data, 3, sh_offset=0, sh_size=len(data) - stated - 100)
    return open_elf(bytes(data))


def compressed_content(size: int) -> object:
    """The sizes that headers state count; nothing is decompressed before it is read. `size` is beside 16 for each byte
    of the file."""
    header = struct.pack("<IIQQ", 1, 0, 0, 1)
    parts = [Content(name, header + zlib.compress(b""), flags=COMPRESSED) for name in (".a", ".b")]
    data = tiny_elf(CODE, *parts)
    first = data.index(header) + 8
    second = data.index(header, first) + 8
    data[first : first + 8] = size.to_bytes(8, "little")
    data[second : second + 8] = (16 * len(data)).to_bytes(8, "little")
    return open_elf(bytes(data))


def debug_data(size: int) -> object:
    """A `.gnu_debugdata` of `size` bytes beside 16 for each of its own; zeros after the file's bytes are no fault."""
    inner = bytes(tiny_elf())
    # Zeros after the end of a stream are no part of it.
    packed = lzma.compress(inner + bytes(size + 16 * 1024 - len(inner)), preset=0).ljust(1024, b"\0")
    image = open_elf(bytes(tiny_elf(CODE, Content(".gnu_debugdata", packed, flags=0))))
    return _unpacked(image.contents(next(one for one in image.sections if one.name == ".gnu_debugdata")))


def symbol_names(size: int) -> object:
    """16 symbols of 24 bytes that all name one string of `size` bytes: 8 * (384 + size + 2) is 16 * size for 386."""
    symbols = np.zeros(16, [("name", "<u4"), ("rest", "V20")])
    symbols["name"] = 1
    return name_ranges(symbols, b"\0" + b"x" * size + b"\0", ".symtab")


def cut_rows(rows: int) -> object:
    """Three functions that end in one run of 8 rows, after 4, `rows` and all of them; 2 bytes may have 8 rows."""
    section = Section.of(".sframe", bytes(2))
    offsets = np.arange(8, dtype=np.uint64)
    reach = np.array([4, rows, 8], np.uint64)
    return cut_runs(section, np.zeros(3, np.uint32), reach, np.array([0, 8]), offsets)


def sframe_rows(count: int) -> object:
    """FDEs that name all FREs from the first, the second, ...: 1,447 name 1,047,628, of 1,048,576 that are allowed."""
    fres = b"".join(struct.pack("<HBb", number, 3, 8) for number in range(count))
    fdes = b"".join(
        struct.pack("<iIIIBBH", 0x10000 * number, 0x10000, 4 * number, count - number, 1, 0, 0)
        for number in range(count)
    )
    header = struct.pack("<HBBBbbBIIIII", 0xDEE2, 2, 1, 3, 0, -8, 0, count, count * count, len(fres), 0, len(fdes))
    return unwindkit.from_sframe(header + fdes + fres)


def blocks(size: int) -> UnwindTable:
    """A function of `size` bytes in blocks of two bytes, with a row for each."""
    rows = (row(0, sp(8), at(16, -8)), row(1, sp(16), at(16, -8)))
    return table_of(ARCHITECTURES["x86_64"], [Function(0x1000, size, rows, repetition=2)])


def blocks_by_pc(size: int) -> object:
    return by_pc(blocks(size))


def blocks_cut(size: int) -> object:
    """The first two bytes are another function's. Of 1,028 bytes, 513 whole blocks and the row of the last byte remain:
    1,027 rows; the table has 3, which count beside."""
    first = table_of(ARCHITECTURES["x86_64"], [Function(0x1000, 2, (row(0, sp(8), at(16, -8)),))])
    both = [*first, *(Function(0x1001, one.size, one.rows, repetition=2) for one in blocks(size))]
    return trim(table_of(ARCHITECTURES["x86_64"], both))


def texts(size: int) -> object:
    """100 macros that name one string of `size` bytes, in JSON: 27,900 bytes for 279, and 27,936 are allowed: 16 for
    each byte of the sections, and for 8 of each macro."""
    entries = b"".join(b"\5" + bytes([number]) + bytes(4) for number in range(100))
    names = Content(".debug_str", b"x" * size + b"\0", flags=0)
    data = tiny_elf(CODE, Content(".debug_macro", b"\5\0\0" + entries + b"\0", flags=0), names)
    return [part for section in dump_json(bytes(data), (".debug_macro",)) for part in section.parts]


def macros(count: int) -> object:
    """Units, each of which imports the next one twice; the last is empty. Two imports, and what is before, between and
    after them, count as five, an empty unit as one: 15 * 5 + 16 for 4, 31 * 5 + 32 for 5, of 100 that are allowed."""
    size = 3 + 2 * 5 + 1  # of a unit
    units = [b"\5\0\0" + (b"\7" + (size * (number + 1)).to_bytes(4, "little")) * 2 + b"\0" for number in range(count)]
    return flatten_macros(read_macros(Section.of(".debug_macro", b"".join(units) + b"\5\0\0\0")), 0, max_entries=100)


def nested_ranges(depth: int) -> object:
    """`depth` inlined functions without code, one in the other, and 100 with code in the innermost: each of these gives
    its range to all that contain it, 100 * `depth` and 101 of their own; 16 * (depth + 101 + 101) are allowed."""
    leaves = b"".join(b"\x04" + LAYOUT.address(2 * number) + b"\x01" for number in range(100))
    entries = b"\x01\x02" + LAYOUT.address(0) + b"\xf0" + b"\x03\0\0\0\0" * depth + leaves
    abbreviations = octets("""
        01 11 01 00 00  02 2e 01 11 01 12 0b 00 00  03 1d 01 55 17 00 00  04 1d 00 11 01 12 0b 00 00  00
    """)
    return LAYOUT.functions(LAYOUT.unit(entries), abbreviations, debug_ranges=bytes(16))


def qualified_names(size: int) -> object:
    """A function in 4 namespaces that all have one name of `size` bytes: 14 * `size` and 23 bytes in all."""
    entries = b"\x01" + (b"\x02" + bytes(4)) * 4 + b"\x03f\0" + LAYOUT.address(0) + b"\x10"
    abbreviations = octets("01 11 01 00 00  02 39 01 03 0e 00 00  03 2e 00 03 08 11 01 12 0b 00 00  00")
    return LAYOUT.functions(LAYOUT.unit(entries), abbreviations, debug_str=b"n" * size + b"\0")


def range_lists(count: int) -> object:
    """Functions whose ranges are tails of one list of as many entries: 135 have 9,180, of 4 * (136 * 16 + 135) that are
    allowed; 136 have 9,316, of 9,312."""
    entries = b"\x01" + b"".join(b"\x02" + (16 * n).to_bytes(4, "little") for n in range(count)) + b"\0"
    lists = (LAYOUT.address(0) + LAYOUT.address(1)) * count + bytes(16)
    return LAYOUT.functions(
        LAYOUT.unit(entries), octets("01 11 01 00 00  02 2e 00 55 17 00 00  00"), debug_ranges=lists
    )


def register_rules(rows: int) -> object:
    """256 rules are set, and one of them again in each of `rows` rows, at 3 bytes each: 256 * 1,839 is 64 * 6,332 and
    65,536."""
    names = b"".join(bytes([7, 0x80 | n & 0x7F, n >> 7]) for n in range(256))
    cie = octets("10000000 00000000 01 00 01 78 10 0c 07 08 00 00 00 00")
    body = (len(cie) + 4).to_bytes(4, "little") + bytes(8) + (1 << 20).to_bytes(8, "little")
    body += names + b"\x80\x01\x41" * rows
    body += bytes(-len(body) % 4)
    return unwindkit.from_eh_frame(cie + len(body).to_bytes(4, "little") + body, 0, "x86_64")


def unpacked(size: int) -> object:
    """A stream of `size` bytes; the bytes of the stream itself count for nothing here."""
    return Unpacked("x", memoryview(gzip.compress(bytes(size)))).read(1 << 20)


# What is read, the largest size within the limit, the reason beyond it, and constants that are made small.
CASES = {
    "sections": (sections_together, 100, "the sections are together larger than the file", {}),
    "compressed sections": (compressed_content, 8 << 20, "the content of compressed sections has", {}),
    ".gnu_debugdata": (
        debug_data,
        1 << 12,
        "is truncated or inflates to more than",
        {"elf.debug_files.LEAST_INFLATED": 1 << 12},
    ),
    "names of symbols": (symbol_names, 386, "the names of 16 symbols have 6192 bytes", {}),
    "rows that are cut": (cut_rows, 4, "more than 4 rows for each byte of the section", {}),
    "FREs": (sframe_rows, 1447, "FDEs refer to 1049076 FREs in a sub-section of 5792 bytes", {}),
    "blocks": (
        blocks_by_pc,
        1 << 10,
        "more than 1024 repetitive blocks to expand",
        {"table.by_pc.MAX_RANGES": 1 << 10},
    ),
    "copied rows": (blocks_cut, 1028, "more than 1024 rows must be copied", {"table.cut.MAX_COPIED": 1 << 10}),
    "texts": (texts, 279, "a JSON value has at most", {"strings.LEAST": 0}),
    "macros": (macros, 4, "the unit and its imports have more than", {}),
    "nested ranges": (nested_ranges, 37, "lists of address ranges repeat the same bytes too often", {}),
    "range lists": (range_lists, 135, "lists of address ranges repeat the same bytes too often", {}),
    "qualified names": (qualified_names, 10, "qualified names take more than 4 bytes", {"debug_info.names.LEAST": 0}),
    "register rules": (register_rules, 1839, "more than 64 register rules for each byte of the section", {}),
    "streams": (
        unpacked,
        4096,
        "unpacks to more than 4,096 bytes",
        {"packages.streams.LEAST_UNPACKED": 4096, "packages.streams.MAX_UNPACKED": 0},
    ),
}


def small_constants(monkeypatch: pytest.MonkeyPatch, constants: dict[str, int]) -> None:
    for name, value in constants.items():
        monkeypatch.setattr(f"unwindkit.converters.{name}", value)


@pytest.mark.parametrize("name", CASES)
def test_a_limit_is_met_and_raised(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, most, reason, constants = CASES[name]
    small_constants(monkeypatch, constants)
    read(most)
    with pytest.raises(FormatError) as caught:
        read(most + 1)
    assert reason in caught.value.reason
    assert caught.value.reason.endswith(RAISED)
    with raised_limits(2):
        read(most + 1)


def test_strings_may_be_repeated_more() -> None:
    with raised_limits(3):
        assert Strings.of([]).limit(0) == 3 << 24


def test_more_is_demangled() -> None:
    """Six pairs, each of the one before twice: 60 characters, 4,161 demangled."""
    name = "_Z1f" + "St4pairIiiE" + "".join(f"S_IS{code}_S{code}_E" for code in ("0", "1", "2", "3", "4", "5", "6"))
    assert demangle_names([name]) == [name]
    with raised_limits(8):
        assert demangle_names([name])[0].startswith("f(std::pair<int, int>, std::pair<std::pair<int, int>")


def test_limits_are_raised_inside_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.VARIABLE, "5")
    with raised_limits(7):
        assert limits.raised(10) == 70
        with raised_limits(1):
            assert limits.raised(10) == 10
    assert limits.raised(10) == 50
    monkeypatch.delenv(limits.VARIABLE)
    with pytest.raises(KeyError), raised_limits(2):
        raise KeyError
    assert limits.raised(10) == 10
    assert limits.VARIABLE not in os.environ


@pytest.mark.parametrize("text", ["0", "-1", "1025", "2.0", "x", " 2", "\u0662"])
def test_a_wrong_value_of_the_variable_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.VARIABLE, text)
    with pytest.raises(BuildError, match=r"UNWINDKIT_RAISE_LIMITS: is .*, not a number from 1 to 1024"):
        limits.raised(1)


@pytest.mark.parametrize("factor", [0, -1, 1025])
def test_a_wrong_factor_is_a_wrong_value(factor: int) -> None:
    with pytest.raises(ValueError, match=f"factor is {factor}, expected 1 to 1024"), raised_limits(factor):
        pass


def test_the_option_of_a_command_raises_limits(tmp_path: Path) -> None:
    """The same bytes in two sections."""
    path = tmp_path / "a"
    data = tiny_elf()
    data += bytes(0x100)
    for section in (1, 2):
        patched(data, section, sh_offset=0x100, sh_size=len(data) - 0x100)
    path.write_bytes(data)
    command = [sys.executable, "-m", "unwindkit", "info", str(path)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.endswith(f"the sections are together larger than the file{RAISED}\n")
    raised = subprocess.run([*command, "--raise-limits", "2"], capture_output=True, text=True, check=False)
    assert RAISED not in raised.stderr
    wrong = subprocess.run([*command, "--raise-limits", "0"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (
        2,
        "unwindkit info: error: argument --raise-limits: '0' is not a number from 1 to 1024",
    )
