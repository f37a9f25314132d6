"""Small files that name much: a right answer or a FormatError, within 10 times the input and 150 MB, in 2 s.

Strategy: a case writes a file whose harm grows with `scale`; a separate process with limits reads it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ..breakpad.test_demangle import doubling_name, rust_doubling_name
from ..support.handmade import entry
from ..support.limited import MEGABYTE, compiled_only, run
from ..support.tiny_elf import CFI, CODE, COMPRESSED, STRTAB, SYMTAB, Content, patched, tiny_elf

BREAKPAD = "out = io.BytesIO(); unwindkit.write_breakpad(path, out); print(len(out.getvalue()) <= 2 * size)"
DUMP = "print(sum(map(len, unwindkit.dump_sections(path))) <= 20 * size)"


def with_symbols(names: list[int], strings: bytes) -> bytearray:
    """A program with a function for each offset of a name in a string table."""
    symbols = b"".join(struct.pack("<IBBHQQ", name, 0x12, 0, 1, 0x1000 + at, 1) for at, name in enumerate(names))
    table, pool = (
        Content(".symtab", bytes(24) + symbols, SYMTAB, flags=0),
        Content(".strtab", strings, STRTAB, flags=0),
    )
    return patched(tiny_elf(CODE, CFI, table, pool), section=3, sh_link=4, sh_entsize=24)


def suffixes(scale: int) -> bytearray:
    """Names that are the ends of one long string."""
    count = 20_000 * scale
    return with_symbols([1 + 24 * number for number in range(count)], b"\0" + b"x" * (24 * count) + b"\0")


def doubling(made: Callable[[int], str]) -> Callable[[int], bytearray]:
    def one(scale: int) -> bytearray:
        return with_symbols([1], b"\0" + made(12 + 11 * scale).encode() + b"\0")

    return one


def same_bytes(scale: int) -> bytearray:
    """Section headers that all name the same bytes."""
    count = 200 * scale
    data = tiny_elf(CODE, CFI, *[Content(".eh_frame", b"", flags=0)] * count)
    for index in range(3, 3 + count):
        patched(data, section=index, sh_offset=0x180, sh_size=0x2000)
    return data


def inflating(scale: int) -> bytearray:
    """200 MB of terminators in 200 kB."""
    engine, content = zlib.compressobj(9), bytearray()
    for _ in range(200 * scale):
        content += engine.compress(bytes(MEGABYTE))
    header = struct.pack("<IIQQ", 1, 0, 200 * scale << 20, 1)
    return tiny_elf(CODE, Content(".eh_frame", header + content + engine.flush(), flags=COMPRESSED))


def of_zeros(scale: int) -> bytearray:
    """10 MB of terminators."""
    return tiny_elf(CODE, Content(".eh_frame", bytes(10 * scale * MEGABYTE)))


def of_tiny_records(scale: int) -> bytearray:
    """FDEs of 12 bytes, whose addresses have 2 bytes and which have no instructions."""
    count = 100_000 * scale
    cie = entry(bytes.fromhex("00000000 01 7a5200 01 78 10 01 02"))  # augmentation zR: DW_EH_PE_udata2
    fdes = b"".join(
        struct.pack("<IIHHB", 9, len(cie) + 13 * number + 4, number & 0xFFF, 1, 0) for number in range(count)
    )
    return tiny_elf(CODE, Content(".eh_frame", cie + fdes))


REFUSED_NAMES = ".symtab: st_name: the names of {} symbols have {} bytes, in tables of {} bytes (--raise-limits)"
REFUSED_HEADERS = "section headers: the sections are together larger than the file (--raise-limits)"
CASES = [
    pytest.param(doubling(doubling_name), BREAKPAD, ["True"] * 2, id="C++ names that double"),
    pytest.param(doubling(rust_doubling_name), BREAKPAD, ["True"] * 2, id="Rust names that double"),
    pytest.param(
        suffixes,
        BREAKPAD,
        # The sum of 24 to 24 * count, and symbols and characters of 24 bytes each, with two terminators.
        [REFUSED_NAMES.format(count, 12 * count * (count + 1), 48 * count + 2) for count in (20_000, 40_000)],
        id="names that are ends of one string",
    ),
    pytest.param(same_bytes, DUMP, [REFUSED_HEADERS] * 2, id="headers that name the same bytes"),
    pytest.param(
        inflating,
        DUMP,
        [
            ".eh_frame+0x8: ch_size: is 0xc800000, the limit for a file of this size is {limit:#x} (--raise-limits)",
            ".eh_frame+0x8: ch_size: is 0x19000000, the limit for a file of this size is {limit:#x} (--raise-limits)",
        ],
        id="compressed terminators",
    ),
    pytest.param(of_zeros, DUMP, ["True"] * 2, id="terminators"),
    pytest.param(of_tiny_records, DUMP, ["True"] * 2, id="records of 13 bytes"),
]


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize(("made", "code", "expected"), CASES)
def test_a_small_file_does_no_harm(
    tmp_path: Path, made: Callable[[int], bytearray], code: str, expected: list[str], scale: int
) -> None:
    compiled_only()
    path = tmp_path / "hostile"
    path.write_bytes(made(scale))
    size = path.stat().st_size
    program = f"""
import io, unwindkit, unwindkit.jobs.dump, unwindkit.jobs.breakpad
path, size = {str(path)!r}, {size}
LIMITS
try:
    {code}
except FormatError as error:
    print(error)
"""
    assert run(program, 150 + 10 * size // MEGABYTE, 2) == expected[scale - 1].format(limit=(8 << 20) + 16 * size)
