"""`info`, `dump`, `find` and `convert` on objects, archives, raw sections, symbol files and bytes in memory.

Strategy: one program and its objects, built once. Each form is compared with the same content in the linked file, or
with readelf 2.47, which reads objects and archives itself.
"""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import unwindkit as library
from unwindkit import BuildError, FoundRow, ParseError, SectionInfo, by_pc, dump_json, dump_sections, find_in_file, info
from unwindkit.converters.elf.inputs import Input
from unwindkit.converters.files.inputs import KINDS

from ..support.binutils import gcc
from ..support.commands import DONE, unwindkit
from ..support.oracles import oracle_command
from ..support.programs import compiled

SOURCE = """
int g(int);
int f(int a) { int b[20]; for (int i = 0; i < a; i++) b[i % 20] = g(i); return b[3]; }
static __attribute__((noinline)) int h(int a) { return g(g(a)) + 1; }
int k(int a) { return h(a) + h(a + 1); }
int main(int c, char **v) { return f(c) + k(c); }
"""
OTHER = "int g(int a) { return a * 3; }\n"
# Line number programs and macros of DWARF 4 are self-contained.
DEBUG = ("-O2", "-gdwarf-4", "-gstrict-dwarf", "-g3", "-gpubnames")
NAMES = ("f", "h", "k", "main", "g")


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """main.o and other.o with all kinds of sections, both.a and thin.a of them, and the program `linked`."""
    compiled.require()
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "main.c").write_text(SOURCE)
    (folder / "other.c").write_text(OTHER)
    (folder / "notes.txt").write_text("notes\n")
    for name in ("main", "other"):
        gcc(folder, *DEBUG, "-ffunction-sections", "-fasynchronous-unwind-tables", "-c", f"{name}.c")
    gcc(folder, "main.o", "other.o", "-o", "linked")
    library.write_sframe(folder / "linked", folder / "linked")
    for name in ("main.o", "other.o"):
        library.write_sframe(folder / name, folder / name, 3)
    subprocess.run(["ar", "rc", "both.a", "main.o", "notes.txt", "other.o"], cwd=folder, check=True)
    # readelf ends at a member of a thin archive that is not an ELF file.
    subprocess.run(["ar", "rcT", "thin.a", "main.o", "other.o"], cwd=folder, check=True)
    return folder


def text(source: Input, *names: str, interpreted: bool = False, kind: str | None = None, address: int = 0) -> bytes:
    architecture = "x86_64" if kind not in (None, "sframe") and not isinstance(source, Path) else None
    known = {"source": kind, "architecture": architecture}
    return b"".join(dump_sections(source, names or None, interpreted, address=address, **known))


def raw_sections(path: Path) -> dict[str, tuple[int, bytes]]:
    """The address and bytes of each section of a kind that can be given alone."""
    image = library.open_elf(path)
    headers = [one for one in image.sections if one.name.removeprefix(".") in KINDS and not one.is_nobits]
    return {one.name.removeprefix("."): (one.address, bytes(image.contents(one).data)) for one in headers}


# --- bytes in memory ------------------------------------------------------------------------------------------


def test_a_file_its_bytes_and_a_stream(folder: Path) -> None:
    for name in ("linked", "main.o", "both.a"):
        path = folder / name
        data = path.read_bytes()
        for given in (data, bytearray(data), memoryview(data), io.BytesIO(data)):
            assert find_in_file(given, NAMES[:2]) == find_in_file(path, NAMES[:2])
        assert replace(info(data), file="", members=()) == replace(info(path), file="", members=())
        assert text(data).replace(b"File: (", f"File: {path}(".encode()) == text(path)
        piped = subprocess.run(
            [sys.executable, "-m", "unwindkit", "dump", "-"], input=data, capture_output=True, check=True
        )
        assert piped.stdout.replace(b"File: -(", f"File: {path}(".encode()) == text(path)
    lines = library.read_lines(folder / "linked")
    assert library.same_lines(library.read_lines((folder / "linked").read_bytes()), lines)


def test_convert_of_bytes(folder: Path, tmp_path: Path) -> None:
    for to, name in (("eh_frame", "linked"), ("sframe", "linked"), ("sframe", "both.a"), ("directives", "main.o")):
        one = library.convert(folder / name, tmp_path / "one", to)
        two = library.convert((folder / name).read_bytes(), tmp_path / "two", to)
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        assert (one.file, two.file) == (str(folder / name), "")
        assert one.into == (str(folder / name) if name == "linked" else None)
        same = {"file": "", "output": "", "into": None, "warnings": ()}
        assert replace(one, **same) == replace(two, **same)


# --- raw sections ---------------------------------------------------------------------------------------------


def test_each_raw_section_is_dumped_as_in_its_file(folder: Path) -> None:
    sections = raw_sections(folder / "linked")
    assert {"eh_frame", "eh_frame_hdr", "sframe", "debug_line", "debug_aranges", "debug_pubnames"} <= set(sections)
    for kind, (address, data) in sections.items():
        if kind != "debug_macro":  # its strings are in another section
            assert text(data, kind=kind, address=address) == text(folder / "linked", KINDS[kind])
    address, data = sections["eh_frame"]
    rows = text(folder / "linked", ".eh_frame", interpreted=True)
    assert text(data, kind="eh_frame", address=address, interpreted=True) == rows
    with pytest.raises(ParseError, match=r"\.debug_line: is a raw section, which has no such section"):
        text(data, ".debug_line", kind="eh_frame", address=address)


def test_info_and_find_on_raw_sections(folder: Path) -> None:
    whole = {one.name: one for one in info(folder / "linked").sections}
    _, expected = find_in_file(folder / "linked", NAMES)
    pcs = [one.pc for one in expected if one.source == ".eh_frame"]
    for kind in ("eh_frame", "sframe"):
        address, data = raw_sections(folder / "linked")[kind]
        architecture = "x86_64" if kind == "eh_frame" else None
        found = info(data, source=kind, address=address, architecture=architecture)
        assert (found.type, found.architecture, found.code_bytes) == ("raw section", "x86_64", 0)
        assert found.sections == (replace(whole[f".{kind}"], covered_bytes=0),)
        _, rows = find_in_file(data, pcs, source=kind, address=address, architecture=architecture)
        assert rows == tuple(replace(one, name=None) for one in expected if one.source == f".{kind}")
        # The same option on the ELF file chooses the section.
        assert find_in_file(folder / "linked", NAMES, source=kind)[1] == tuple(
            one for one in expected if one.source == f".{kind}"
        )
        assert [one.name for one in info(folder / "linked", source=kind).sections] == [f".{kind}"]
    assert info(b"", source="debug_line", architecture="s390x").sections == (SectionInfo(".debug_line", 0, 0),)


# --- objects --------------------------------------------------------------------------------------------------


def rules(found: tuple[FoundRow, ...]) -> list[object]:
    """What rows are apart from where they are."""
    return [(one.source, one.name, one.size, one.row) for one in found]


def test_functions_of_an_object_have_the_rows_of_the_program(folder: Path) -> None:
    for name in NAMES:
        _, expected = find_in_file(folder / "linked", [name], source="eh_frame")
        _, found = find_in_file(folder / ("other.o" if name == "g" else "main.o"), [name], source="eh_frame")
        assert rules(found) == rules(expected)
        assert [(one.pc, one.start) for one in found] == [(0, 0)]
        assert found[0].section == (".text.startup.main" if name == "main" else f".text.{name}")
    for offset in range(expected[0].size):
        start = find_in_file(folder / "linked", ["f"], source="eh_frame")[1][0].start
        _, there = find_in_file(folder / "linked", [start + offset], source="eh_frame")
        _, here = find_in_file(folder / "main.o", [f".text.f+{offset}"], source="eh_frame")
        assert rules(here) == rules(there)
        assert (here[0].pc, here[0].section) == (offset, ".text.f")


def test_a_number_is_an_offset_in_each_section(folder: Path) -> None:
    done = unwindkit("find", folder / "main.o", "0", "0x5000", "k")
    assert (done.returncode, done.stderr) == (DONE, "")
    titles = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    sections = [f".text.{name}+0x0" for name in ("f", "h", "k")]
    assert sorted(titles) == sorted([*sections, ".text.startup.main+0x0", "0x5000", ".text.k+0x0 <k>"])
    assert "0x5000\n  .eh_frame    no function\n  .sframe      no function\n.text.k+0x0 <k>\n" in done.stdout
    (section,) = library.open_elf(folder / "main.o").named(".text.f")
    assert find_in_file(folder / "main.o", [f".text.f+{section.size - 1}"])[1][0].size == section.size
    with pytest.raises(ParseError, match=rf"no function is called \.text\.f\+{section.size}"):
        find_in_file(folder / "main.o", [f".text.f+{section.size}"])
    with pytest.raises(ParseError, match="no function is called absent"):
        find_in_file(folder / "main.o", ["absent"])
    with pytest.raises(ParseError, match=r"no function is called \.text\.k\+0x5000"):
        find_in_file(folder / "main.o", [".text.k+0x5000"])


def test_at_in_an_object_is_one_section(folder: Path) -> None:
    for option, heading in (("--frames-interp", " FDE "), ("--sframe", "func idx")):
        done = unwindkit("dump", option, "--at", "k", folder / "main.o")
        assert (done.returncode, done.stdout.count(heading)) == (DONE, 1)
        every = unwindkit("dump", option, "--at", "0", folder / "main.o")
        assert every.stdout.count(heading) == 4


# --- archives -------------------------------------------------------------------------------------------------


@pytest.mark.oracle("forky")
@pytest.mark.parametrize("name", ["main.o", "both.a", "thin.a"])
def test_objects_and_archives_as_readelf_prints_them(name: str, folder: Path) -> None:
    for ours, theirs in (
        ("--frames", "-wNf"),
        ("--frames-interp", "-wNF"),
        ("--sframe", "--sframe"),
        ("--rawline", "-wNl"),
        ("--decodedline", "-wNL"),
        ("--aranges", "-wNr"),
    ):
        done = unwindkit("dump", ours, folder / name)
        assert (done.returncode, done.stderr) == (DONE, "")
        # It ends with 1 because of notes.txt.
        expected = subprocess.run([*oracle_command("readelf"), theirs, folder / name], capture_output=True, check=False)
        assert done.stdout == expected.stdout.decode()


def test_members_of_an_archive(folder: Path) -> None:
    found = info(folder / "both.a")
    names = [f"{folder}/both.a({name})" for name in ("main.o", "notes.txt", "other.o")]
    assert [one.file for one in found.members] == names
    assert (found.type, found.architecture, found.members[1].fault) == ("archive", "x86_64", "not an ELF file")
    for name, member in zip(("main.o", "other.o"), found.members[::2], strict=True):
        assert replace(member, file="") == replace(info(folder / name), file="")
    _, rows = find_in_file(folder / "both.a", ["k", "g"])
    alone = [
        (one, name)
        for name, wanted in (("main.o", "k"), ("other.o", "g"))
        for one in find_in_file(folder / name, [wanted])[1]
    ]
    assert rows == tuple(replace(one, member=name) for one, name in alone)
    members = {(one.fields["member"], one.fields["section"]) for one in dump_json(folder / "thin.a")}
    assert members == {(name, section) for name in ("main.o", "other.o") for section in (".eh_frame", ".sframe")}
    only = text(folder / "both.a", ".sframe")
    assert only.count(b"File: ") == 3
    with pytest.raises(ParseError, match=r"no function is called absent"):
        find_in_file(folder / "both.a", ["k", "absent"])
    with pytest.raises(ParseError, match=r"\.debug_frame: the archive's files have no such section"):
        text(folder / "both.a", ".debug_frame")


def test_convert_of_objects_and_archives(folder: Path, tmp_path: Path) -> None:
    """From the `.sframe` of another version, and from call frame information: the same section, with relocations."""
    out, again = tmp_path / "out", tmp_path / "again"
    for name in ("main.o", "both.a"):
        report = library.convert(folder / name, out, "sframe", version=2)
        library.write_sframe(folder / name, again, 2)
        assert text(out, ".sframe").replace(b"out", b"again") == text(again, ".sframe")
        assert report.sframe is not None
        assert (report.sframe.version, report.members) == (2, 2 * (name == "both.a"))
        assert report.unchanged == (("notes.txt: not a relocatable ELF file",) if name == "both.a" else ())
    for to in ("eh_frame", "debug_frame", "breakpad"):
        with pytest.raises(ParseError, match="relocatable"):
            library.convert(folder / "main.o", out, to)
    for to in ("eh_frame", "debug_frame", "breakpad", "directives"):
        with pytest.raises(BuildError, match=f"to: {to} is written for one file, not for an archive"):
            library.convert(folder / "both.a", out, to)
    library.convert(folder / "main.o", out, "directives")
    table = library.read_elf(folder / "main.o")
    assert out.read_bytes() == library.to_directives(table)[0]


# --- symbol files, and what we wrote --------------------------------------------------------------------------


def test_a_symbol_file_has_the_rows_of_its_file(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "linked.sym"
    library.write_breakpad(folder / "linked", path)
    found = info(path)
    (whole,) = info(folder / "linked", source="eh_frame").sections
    (section,) = found.sections
    assert (found.type, found.architecture, found.module) == ("symbol file", "x86_64", "linked")
    assert (section.name, section.functions, section.rows) == ("STACK CFI", whole.functions, whole.rows)
    lines = path.read_bytes().splitlines(keepends=True)
    stack = b"".join(line for line in lines if line.startswith(b"STACK "))
    assert section.size == len(stack)
    assert found.records is not None
    assert sum(found.records.values()) == len(lines)
    assert found.records["STACK CFI INIT"] == whole.functions
    assert found.records["STACK CFI"] == stack.count(b"STACK CFI ") - stack.count(b"STACK CFI INIT ")
    assert found.records["INFO CODE_ID"] == found.records["MODULE"] == 1
    assert found.records["FUNC"] == sum(line.startswith(b"FUNC ") for line in lines) > 0
    assert found.records["line records"] == sum(line[:1] in b"0123456789abcdef" for line in lines) > 0
    assert text(path) == b"Contents of the STACK records:\n\n" + stack + b"\n"
    _, here = find_in_file(path, NAMES)
    _, there = find_in_file(folder / "linked", NAMES, source="eh_frame")
    assert [(one.pc, one.start, one.size, one.row) for one in here] == [
        (one.pc, one.start, one.size, one.row) for one in there
    ]
    start = here[0].start
    rows = text(path, ".eh_frame", interpreted=True)
    assert f"pc={start:016x}..{start + here[0].size:016x}".encode() in rows
    library.convert(path, tmp_path / "frames", "debug_frame")
    expected = text((tmp_path / "frames").read_bytes(), kind="debug_frame", interpreted=True)
    assert rows == expected.replace(b"the .debug_frame section", b"the STACK CFI section")


def test_what_we_wrote_is_read(folder: Path, tmp_path: Path) -> None:
    """Each target of `convert`, and `sframe --section`, holds the rows of its source."""
    expected = by_pc(library.read_elf(folder / "linked"))
    for to in ("debug_frame", "eh_frame"):
        report = library.convert(folder / "linked", tmp_path / "out", to, section_only=True)
        known = {"source": to, "address": report.address or 0, "architecture": "x86_64"}
        (section,) = info(tmp_path / "out", source=to, address=report.address or 0, architecture="x86_64").sections
        assert (section.functions, section.fault) == (report.functions, None)
        found = find_in_file(tmp_path / "out", [0x1000], source=to, address=report.address or 0, architecture="x86_64")[
            1
        ]
        assert [one.source for one in found] == [f".{known['source']}"]
    library.write_sframe_section(folder / "linked", tmp_path / "raw", 0x9000)
    (section,) = info(tmp_path / "raw", address=0x9000).sections
    assert section.functions is not None
    (start, size) = next((one.start, one.size) for one in library.from_sframe((tmp_path / "raw").read_bytes(), 0x9000))
    (row,) = find_in_file(tmp_path / "raw", [start], address=0x9000)[1]
    assert (row.start, row.size) == (start, size)
    assert expected == by_pc(library.read_elf((folder / "linked").read_bytes()))
