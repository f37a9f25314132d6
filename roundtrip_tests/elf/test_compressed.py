"""Compressed sections, SHF_COMPRESSED with zlib and zstd and GNU's `.zdebug_*`: read as if they were not compressed."""

from __future__ import annotations

import struct
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import unwindkit
from unwindkit import ParseError, by_pc, convert, dump_sections, find_in_file, info, read_elf, read_lines
from unwindkit.converters.elf.image import open_elf
from unwindkit.jobs import section_dumps

from ..support.binutils import Binutils, gcc
from ..support.binutils import chosen as toolchain
from ..support.commands import unwindkit as command
from ..support.handmade import place
from ..support.oracles import run_oracle
from ..support.tiny_elf import CODE, COMPRESSED, Content, tiny_elf
from ..support.work import at_most_allocated, at_most_calls

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

METHODS = ("zstd", "zlib-gnu", "zlib")
# readelf's options, by the sections that they show.
VIEWS = {
    "-wNl": section_dumps.LINE_SECTIONS,
    "-wNf": section_dumps.CFI_SECTIONS,
    "-wNr": section_dumps.ARANGES_SECTIONS,
    "-wNp": section_dumps.PUBNAMES_SECTIONS,
    "-wNt": section_dumps.PUBTYPES_SECTIONS,
    "-wNm": section_dumps.MACROS,
}
SOURCE = """
static int twice(int x) { return 2 * x + 1; }
int sum(int n) { int all[40], i; for (i = 0; i < 40; i++) all[i] = twice(n + i); return all[n % 40]; }
int main(int count, char **values) { return sum(count) + values[0][0]; }
"""
FLAGS = ("-g3", "-gdwarf-5", "-gpubnames", "-fno-asynchronous-unwind-tables")


@pytest.fixture(scope="module", name="folder")
def folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object and a program, and of each a copy with its sections compressed by each method."""
    folder = tmp_path_factory.mktemp("compressed")
    (folder / "main.c").write_text(SOURCE)
    gcc(folder, *FLAGS, "-c", "main.c", "-o", "object")
    gcc(folder, *FLAGS, "main.c", "-o", "program")
    for name in ("object", "program"):
        for method in METHODS:
            argument = f"--compress-debug-sections={method}"
            run_oracle("objcopy", argument, folder / name, folder / f"{name}.{method}")
    return folder


@pytest.mark.oracle
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["object", "program"])
class TestObjcopy:
    """Files whose sections GNU objcopy 2.47 compressed."""

    def test_every_reader_sees_the_same_content(self, folder: Path, name: str, method: str) -> None:
        plain, compressed = folder / name, folder / f"{name}.{method}"
        stored = open_elf(compressed).named(".debug_frame")[0]
        assert stored.is_compressed
        assert stored.stored_name == (".zdebug_frame" if method == "zlib-gnu" else ".debug_frame")
        assert by_pc(read_elf(plain, ".debug_frame")) == by_pc(read_elf(compressed, ".debug_frame"))
        assert unwindkit.same_lines(read_lines(plain), read_lines(compressed))

    def test_dumps_are_those_of_readelf(self, folder: Path, name: str, method: str) -> None:
        compressed = folder / f"{name}.{method}"
        for option, sections in VIEWS.items():
            text = b"".join(dump_sections(compressed, sections)).decode()
            assert text == run_oracle("readelf", option, compressed), option

    def test_info_states_the_real_size(self, folder: Path, name: str, method: str) -> None:
        sections, expected = (
            {one.name: one for one in info(folder / file).sections} for file in (f"{name}.{method}", name)
        )
        found, plain = sections[".debug_frame"], expected[".debug_frame"]
        assert plain.stored_size is None
        assert found.stored_size == open_elf(folder / f"{name}.{method}").named(".debug_frame")[0].size
        assert replace(found, stored_size=None) == plain


@pytest.mark.oracle
@pytest.mark.parametrize("method", METHODS)
def test_find_and_convert_read_compressed_sections(folder: Path, method: str, tmp_path: Path) -> None:
    plain, compressed = folder / "program", folder / f"program.{method}"
    assert find_in_file(compressed, ["sum", "main"])[1] == find_in_file(plain, ["sum", "main"])[1]
    written = []
    for file in (plain, compressed):
        report = convert(file, tmp_path / "out", "eh_frame", source="debug_frame", section_only=True)
        written.append((report.source_bytes, report.functions, (tmp_path / "out").read_bytes()))
    assert written[0] == written[1]


@pytest.mark.oracle
def test_info_prints_both_sizes(folder: Path) -> None:
    plain, stored = (open_elf(folder / name).named(".debug_frame")[0].size for name in ("program", "program.zlib-gnu"))
    done = command("info", folder / "program.zlib-gnu")
    assert f".debug_frame: {plain} bytes ({stored} compressed) at 0x0" in done.stdout


@pytest.mark.oracle("bookworm")
def test_object_of_an_old_assembler(folder: Path, tmp_path: Path) -> None:
    """GNU as 2.40 with --compress-debug-sections=zlib-gnu: `.rela.zdebug_line` applies to the decompressed bytes."""
    tools = toolchain(tmp_path, Binutils("2.40", "bookworm", 1))
    source = folder / "main.c"
    gcc(tmp_path, *tools, *FLAGS, "-c", source, "-o", "plain.o")
    gcc(tmp_path, *tools, *FLAGS, "-Wa,--compress-debug-sections=zlib-gnu", "-c", source, "-o", "old.o")
    names = {one.stored_name for one in open_elf(tmp_path / "old.o").sections}
    assert {".zdebug_line", ".rela.zdebug_line"} <= names
    assert by_pc(read_elf(tmp_path / "plain.o")) == by_pc(read_elf(tmp_path / "old.o"))
    assert unwindkit.same_lines(read_lines(tmp_path / "plain.o"), read_lines(tmp_path / "old.o"))


# One CIE and one FDE of 16 bytes.
FRAME = (
    bytes.fromhex("09000000 ffffffff 03 00 01 78 10 14000000 00000000") + bytes(8) + bytes.fromhex("1000000000000000")
)


def shf_compressed(data: bytes, size: int, kind: int = 2) -> bytearray:
    """A file whose `.debug_frame` is these bytes after an Elf64_Chdr with this `size`."""
    return tiny_elf(CODE, Content(".debug_frame", struct.pack("<IIQQ", kind, 0, size, 8) + data, flags=COMPRESSED))


def zdebug(data: bytes, size: int, magic: bytes = b"ZLIB") -> bytearray:
    """A file with a `.zdebug_frame`."""
    return tiny_elf(CODE, Content(".zdebug_frame", magic + struct.pack(">Q", size) + data, flags=0))


SKIPPABLE = bytes.fromhex("502a4d18 04000000 01020304")
HALVES = zstd.compress(FRAME[:20]) + zstd.compress(FRAME[20:])
GOOD = {
    "one frame": shf_compressed(zstd.compress(FRAME), len(FRAME)),
    "several frames": shf_compressed(HALVES, len(FRAME)),
    "skippable frame": shf_compressed(SKIPPABLE + HALVES, len(FRAME)),
    "zdebug": zdebug(zlib.compress(FRAME), len(FRAME)),
    # As in readelf: without the magic number the bytes are those of the section.
    "zdebug, not compressed": tiny_elf(CODE, Content(".zdebug_frame", FRAME, flags=0)),
}


@pytest.fixture(params=["isal", "zlib"])
def inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What decompresses zlib streams: the library isal if it is there, and zlib where it is not."""
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "isal", None)
    return str(request.param)


@pytest.mark.usefixtures("inflater")
@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD)
def test_section_by_hand(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert [(function.start, function.size) for function in read_elf(tmp_path / "file")] == [(0, 16)]


# What is left of FRAME when 20 bytes of its zlib stream are.
TRUNCATED = len(zlib.decompressobj().decompress(zlib.compress(FRAME)[:20]))
NOT_A_FRAME = "is not a valid Zstandard frame: "
BAD = {
    "size too small": (
        shf_compressed(zstd.compress(FRAME), 0x24),
        (8, "ch_size"),
        "is 0x24, but the data inflates to more than 0x24 bytes",
    ),
    "size too large": (
        shf_compressed(zstd.compress(FRAME), 0x26),
        (8, "ch_size"),
        "is 0x26, but the data inflates to 0x25 bytes",
    ),
    "second frame too many": (
        shf_compressed(zstd.compress(FRAME) * 2, 0x25),
        (8, "ch_size"),
        "is 0x25, but the data inflates to more than 0x25 bytes",
    ),
    "no frame": (shf_compressed(b"", 0x25), (8, "ch_size"), "is 0x25, but the data inflates to 0x0 bytes"),
    "truncated frame": (
        shf_compressed(zstd.compress(FRAME)[:-1], 0x25),
        (24, "compressed data"),
        NOT_A_FRAME + "Src size is incorrect.",
    ),
    "no magic number": (
        shf_compressed(bytes(20), 0x25),
        (24, "compressed data"),
        NOT_A_FRAME + "Unknown frame descriptor.",
    ),
    "zdebug, size too large": (
        zdebug(zlib.compress(FRAME), 1 << 63),
        (4, "ch_size"),
        "is 0x8000000000000000, the limit for a file of this size is 0x{limit:x} (--raise-limits)",
    ),
    "zdebug, size too small": (
        zdebug(zlib.compress(FRAME), 0x24),
        (4, "ch_size"),
        "is 0x24, but the data inflates to more than 0x24 bytes",
    ),
    "zdebug, truncated": (
        zdebug(zlib.compress(FRAME)[:20], 0x25),
        (4, "ch_size"),
        "is 0x25, but the data inflates to 0x{truncated:x} bytes",
    ),
    "zdebug, checksum": (
        zdebug(zlib.compress(FRAME)[:-4] + bytes(4), 0x25),
        (12, "compressed data"),
        "Error -3 while decompressing data: incorrect data check",
    ),
    "zdebug, dictionary": (
        zdebug(bytes.fromhex("78bb") + zlib.compress(FRAME)[2:], 0x25),
        (12, "compressed data"),
        "Error 2 while decompressing data",
    ),
    "zdebug, not zlib": (
        zdebug(b"\xff" * 20, 100),
        (12, "compressed data"),
        "Error -3 while decompressing data: incorrect header check",
    ),
}


@pytest.mark.usefixtures("inflater")
@pytest.mark.parametrize(("data", "place_of_fault", "reason"), BAD.values(), ids=BAD)
def test_compressed_section_that_lies(
    tmp_path: Path, data: bytes, place_of_fault: tuple[int, str], reason: str
) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ParseError) as caught:
        read_elf(tmp_path / "file")
    assert place(caught.value) == (".debug_frame", *place_of_fault)
    assert caught.value.reason == reason.format(limit=(8 << 20) + 16 * len(data), truncated=TRUNCATED)
    assert info(tmp_path / "file").sections[0].fault == str(caught.value)


def test_zstd_beyond_the_ratio_that_is_accepted(tmp_path: Path) -> None:
    """A gigabyte in 33 kB: refused before anything is decompressed."""
    data = zstd.compress(bytes(1 << 24)) * 64
    file = shf_compressed(data, 1 << 30)
    (tmp_path / "file").write_bytes(file)
    with at_most_allocated(1 << 20):
        with pytest.raises(ParseError) as caught:
            read_elf(tmp_path / "file")
        limit = (8 << 20) + 16 * len(file)
        assert caught.value.reason == f"is 0x40000000, the limit for a file of this size is {limit:#x} (--raise-limits)"


def test_zstd_window_larger_than_the_section(tmp_path: Path) -> None:
    """A frame of one byte that asks for a window of 2 GiB (RFC 8878, Window_Descriptor: exponent 21)."""
    frame = bytes.fromhex("28b52ffd 00 a8 090000 41")
    (tmp_path / "file").write_bytes(shf_compressed(frame, 1))
    with pytest.raises(ParseError, match="Frame requires too much memory for decoding"):
        read_elf(tmp_path / "file")


def test_many_small_frames_are_read_in_time(tmp_path: Path) -> None:
    """50,000 empty frames before the content: no frame costs a copy of those after it."""
    data = zstd.compress(b"") * 50_000 + zstd.compress(FRAME)
    (tmp_path / "file").write_bytes(shf_compressed(data, len(FRAME)))
    with at_most_calls(1_000_000):
        assert len(read_elf(tmp_path / "file")) == 1
