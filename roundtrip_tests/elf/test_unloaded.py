"""Sections that are not loaded, replaced and added: the file around them, in every layout, and what the check notices.

Strategy: programs run or are read by readelf and eu-elflint before and after; layouts that linkers do not produce are
made by hand. The check is compared with the input after one bit of any header field has been flipped.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from unwindkit import BuildError, ParseError, open_elf
from unwindkit.writers.elf.checks.unloaded import ExpectedUnloaded, check_unloaded
from unwindkit.writers.elf.section_table import read_section_table
from unwindkit.writers.elf.unloaded import AddedSection, write_unloaded

from ..support.made.made_lines import assembled
from ..support.programs.elf_programs import fields_of, run, tool, unnoticed

LINE = ".debug_line"
SOURCE = '#include <stdio.h>\nint main(void) { puts("works"); return 0; }\n'


@pytest.fixture(scope="module", name="program")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unloaded")
    (folder / "a.c").write_text(SOURCE)
    tool("gcc", "-g", folder / "a.c", "-o", folder / "program")
    return folder / "program"


def index_of(path: Path, name: str) -> int:
    (found,) = (one.index for one in open_elf(path).sections if one.name == name)
    return found


def contents(path: Path) -> dict[str, bytes]:
    """The bytes of every section, by index and name."""
    image = open_elf(path)
    kept = (one for one in image.sections if not one.is_nobits and one.type != "SHT_NULL")
    return {f"{one.index} {one.name}": bytes(image.contents(one).data) for one in kept}


def replaced(source: Path, out: Path, data: bytes, *added: AddedSection, name: str = LINE) -> None:
    """The section gets other bytes; all others keep theirs, but for names of added sections."""
    write_unloaded(source, out, {index_of(source, name): data}, added)
    before, after = contents(source), contents(out)
    before[f"{index_of(source, name)} {name}"] = data
    before |= {f"{len(open_elf(source).sections) + number} {one.name}": one.data for number, one in enumerate(added)}
    for changed in [one for one in before if added and one.endswith(".shstrtab")]:
        assert after.pop(changed).startswith(before.pop(changed))
    assert after == before


@pytest.mark.parametrize("size", [0, 1, 10, 5000, 100_000])
def test_sections_after_it_move_and_no_space_is_lost(program: Path, tmp_path: Path, size: int) -> None:
    out, added = tmp_path / "out", AddedSection(".debug_new", b"new")
    replaced(program, out, b"\1" * size)
    old = index_of(program, LINE)
    assert abs(out.stat().st_size - program.stat().st_size - (size - open_elf(program).sections[old].size)) < 32
    assert run(out) == (0, "works\n")
    assert "readelf:" not in run("readelf", "-SlW", out)[1]
    replaced(program, tmp_path / "added", b"\1" * size, added)
    assert run(tmp_path / "added") == (0, "works\n")
    # Again, and back: nothing depends on how often a section was replaced.
    replaced(out, tmp_path / "again", b"\1" * size)
    assert (tmp_path / "again").read_bytes() == out.read_bytes()
    replaced(out, tmp_path / "back", contents(program)[f"{old} {LINE}"])
    assert (tmp_path / "back").read_bytes() == program.read_bytes()
    if shutil.which("eu-elflint") is not None:
        assert run("eu-elflint", "--gnu-ld", out) == run("eu-elflint", "--gnu-ld", program)


def test_appended_data_stays_last(program: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(program.read_bytes() + b"PK data that no header describes")
    for size in (1, 5000):
        replaced(archive, tmp_path / "out", b"\1" * size, AddedSection(".debug_new", b"new"))
        assert (tmp_path / "out").read_bytes().endswith(b"PK data that no header describes")


def section_headers_first(program: Path, out: Path) -> Path:
    """The section headers in the padding of the last page of a segment, as Go's linker has them near the start."""
    data = bytearray(program.read_bytes())
    offset, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    image = open_elf(program)
    stored = [one for one in image.sections if not one.is_nobits]
    ends = sorted(one.file_offset + one.size for one in stored)
    starts = sorted(one.file_offset for one in stored if one.size)
    gaps = ((-(-end // 8) * 8, next((one for one in starts if one >= end), 0)) for end in ends)
    place = next(begin for begin, end in gaps if end - begin >= 64 * count)
    data[place : place + 64 * count] = data[offset : offset + 64 * count]
    del data[offset:]
    struct.pack_into("<Q", data, 40, place)
    out.write_bytes(data)
    out.chmod(0o755)
    return out


def test_section_headers_before_the_sections(program: Path, tmp_path: Path) -> None:
    first = section_headers_first(program, tmp_path / "first")
    assert run(first) == (0, "works\n")
    for added in ((), (AddedSection(".debug_new", b"new"),)):
        replaced(first, tmp_path / "out", b"\1" * 5000, *added)
        assert run(tmp_path / "out") == (0, "works\n")
        before, after = (struct.unpack_from("<Q", path.read_bytes(), 40)[0] for path in (first, tmp_path / "out"))
        assert (before == after) == (added == ())


def test_a_section_between_loaded_ones(program: Path, tmp_path: Path) -> None:
    """Nothing can move: a larger section goes to the end of the file, a smaller one stays."""
    image = open_elf(program)
    header, text = image.named(LINE)[0], image.named(".fini")[0]
    free = text.file_offset + text.size
    data = bytearray(program.read_bytes())
    shoff = struct.unpack_from("<Q", data, 40)[0]
    assert not any(data[free : free + 64])
    struct.pack_into("<QQ", data, shoff + 64 * header.index + 24, free, 64)
    middle = tmp_path / "middle"
    middle.write_bytes(data)
    middle.chmod(0o755)
    replaced(middle, tmp_path / "smaller", b"\1" * 10)
    replaced(middle, tmp_path / "larger", b"\1" * 100, AddedSection(".debug_new", b"new"))
    offsets = [open_elf(tmp_path / name).named(LINE)[0].file_offset for name in ("smaller", "larger")]
    assert offsets == [free, len(data)]
    assert [run(tmp_path / name) for name in ("smaller", "larger")] == [(0, "works\n")] * 2


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize("prefix", ["i686-linux-gnu-", "powerpc-linux-gnu-", "arm-linux-gnueabihf-"])
def test_elf32(prefix: str, tmp_path: Path) -> None:
    program = assembled(tmp_path, 5, prefix, "forky-cross", linked=True)
    for size in (1, 5000):
        replaced(program, tmp_path / "out", b"\1" * size, AddedSection(".debug_new", b"new"))
        assert "readelf:" not in run("readelf", "-SlW", tmp_path / "out")[1]


def test_separate_debug_file(program: Path, tmp_path: Path) -> None:
    """Its program headers describe the file that it was made from."""
    for command in (("objcopy", "--only-keep-debug", program, tmp_path / "debug"),
                    ("eu-strip", program, "-f", tmp_path / "debug2", "-o", tmp_path / "stripped")):  # fmt: skip
        tool(*command)
    for name in ("debug", "debug2"):
        replaced(tmp_path / name, tmp_path / "out", b"\1" * 5000)


def test_what_is_refused(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(BuildError, match=r"\.text: sh_flags: the section is loaded"):
        write_unloaded(program, out, {index_of(program, ".text"): b""})
    data = program.read_bytes()
    cases = {
        "e_ident: is not an ELF file of a known class": b"\x7fELF\3" + data[5:],
        "e_shoff: there are no section headers of 64 bytes": data[:40] + bytes(8) + data[48:],
        "e_shnum: .* is outside the file": data[:60] + b"\xff\x7f" + data[62:],
        "e_shstrndx: is 32767, which is not": data[:62] + b"\xff\x7f",
        r"section header\[1\]: is outside the file": with_field(data, 64 + 32, 1 << 40),
    }
    for says, bad in cases.items():
        (tmp_path / "bad").write_bytes(bad + data[len(bad) :])
        with pytest.raises(ParseError, match=says):
            write_unloaded(tmp_path / "bad", out, {1: b""})
    assert not out.exists()


def with_field(data: bytes, place: int, value: int) -> bytes:
    """The file with an 8-byte field of its section header table changed."""
    shoff = struct.unpack_from("<Q", data, 40)[0]
    return data[: shoff + place] + struct.pack("<Q", value) + data[shoff + place + 8 :]


def test_the_check_notices_a_change_of_any_field(program: Path, tmp_path: Path) -> None:
    index = index_of(program, LINE)
    wanted, added = b"\1" * 5000, (AddedSection(".debug_new", b"new"),)
    out = tmp_path / "out"
    write_unloaded(program, out, {index: wanted}, added)
    expected = ExpectedUnloaded({index: wanted}, tuple((one.name, one.data) for one in added))
    assert check_unloaded(program, out, expected) == ()
    fields = fields_of(out)
    with out.open("rb") as file:
        table = read_section_table(file)
    count = len(table.sections)
    # A fifth of all fields, and all of the first section header, the section names, and the added section.
    whole = {field for field in fields if (field - table.offset) // 64 in (0, count - 2, count - 1)}
    chosen = sorted({*fields[::5], *whole})
    missed = unnoticed(out, tmp_path / "bad", chosen, lambda path: check_unloaded(program, path, expected))
    # What has no effect: the offset of a section without bytes.
    empty = [64 * place + 24 for place, one in enumerate(table.sections) if not one.size or one.type in (0, 8)]
    assert [place - table.offset for place in missed if place - table.offset not in empty] == []


def test_the_check_notices_other_bytes(program: Path, tmp_path: Path) -> None:
    index = index_of(program, LINE)
    expected = ExpectedUnloaded({index: b"\1" * 50}, ())
    write_unloaded(program, tmp_path / "out", {index: b"\1" * 50})
    data = (tmp_path / "out").read_bytes()
    image = open_elf(tmp_path / "out")
    for name in (".text", LINE, ".debug_info", ".symtab", ".shstrtab"):
        place = image.named(name)[0].file_offset + 1
        (tmp_path / "bad").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        (tmp_path / "bad").chmod(0o755)
        faults = check_unloaded(program, tmp_path / "bad", expected)
        assert any(name in fault for fault in faults) or name == ".shstrtab", name
        assert faults
    assert check_unloaded(program, program, expected)
    assert check_unloaded(program, tmp_path / "out", ExpectedUnloaded({}, ()))
