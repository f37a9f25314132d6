"""Inputs of every kind: an ELF file, its bytes, a stream, an archive's members, raw sections, symbol files.

Strategy: one small file made by hand, in every form that the readers accept; each has to give the same table as the
ordinary file. What cannot be read is refused with one sentence.
"""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from random import Random

import pytest
from unwindkit import (
    BuildError,
    FormatError,
    ParseError,
    by_pc,
    dump_json,
    dump_sections,
    find_in_file,
    info,
    open_elf,
    read_elf,
    to_stack_cfi,
)
from unwindkit.converters.arch.table import architecture_of_abi
from unwindkit.converters.files.inputs import KINDS, Raw, open_image, open_parts
from unwindkit.converters.files.read_elf import table_of_image
from unwindkit.schemas.archive import members_of
from unwindkit.schemas.sframe_abi import SFRAME_ABI

from ..elf.test_archives import LONG_NAME, LONG_NAMES, member
from ..support.made.made_sframe import AMD64, ONE, TRACKED, section
from ..support.tiny_elf import BASE, CFI, CODE, tiny_elf

FILE = bytes(tiny_elf(CODE, CFI))
TABLE = read_elf(FILE)
CFI_ADDRESS = open_elf(FILE).named(".eh_frame")[0].address
ARCHIVE, THIN = b"!<arch>\n", b"!<thin>\n"


def test_a_file_in_memory_is_read_like_one_on_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(FILE)
    expected = by_pc(read_elf(tmp_path / "file"))
    assert len(TABLE) == 2
    with (tmp_path / "file").open("rb") as stream:
        for given in (FILE, bytearray(FILE), memoryview(FILE), memoryview(b"x" + FILE)[1:], io.BytesIO(FILE), stream):
            assert by_pc(read_elf(given)) == expected


def test_a_stream_is_read_from_where_it_is() -> None:
    stream = io.BytesIO(b"before" + FILE)
    stream.seek(6)
    assert by_pc(read_elf(stream)) == by_pc(TABLE)


def test_bytes_may_change_after_the_call() -> None:
    data = bytearray(FILE)
    image = open_elf(data)
    data[:] = bytes(len(data))
    assert by_pc(table_of_image(image)) == by_pc(TABLE)


def test_a_pipe_has_a_path_but_no_size(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(FILE,))
    writer.start()
    assert by_pc(read_elf(tmp_path / "pipe")) == by_pc(TABLE)
    writer.join()


@pytest.mark.parametrize("nothing", [b"", bytearray(), io.BytesIO(b"")])
def test_nothing_is_refused(nothing: bytes) -> None:
    with pytest.raises(ParseError, match=r"\Athe file is empty\Z"):
        read_elf(nothing)


# --- raw sections ---------------------------------------------------------------------------------------------


def test_a_raw_section_is_an_image_with_that_section_only() -> None:
    image = open_image(CFI.data, Raw("eh_frame", CFI_ADDRESS, "x86_64"))
    assert [(one.name, one.address, one.size) for one in image.sections] == [
        ("", 0, 0),
        (".eh_frame", CFI_ADDRESS, len(CFI.data)),
    ]
    assert (image.type, image.is_elf, image.load_address) == ("raw section", False, 0)
    assert bytes(image.contents(image.sections[1]).data) == CFI.data
    assert by_pc(table_of_image(image)) == by_pc(TABLE)


@pytest.mark.parametrize("abi", SFRAME_ABI)
def test_sframe_is_known_by_its_magic_number(abi: SFRAME_ABI) -> None:
    image = open_image(section(TRACKED, abi=abi) if abi != AMD64 else section(ONE), Raw(address=0x2000))
    architecture = architecture_of_abi(abi)
    assert (image.architecture, image.byte_order) == (architecture, architecture.byte_order)
    found = table_of_image(image)
    assert [(function.start, function.size) for function in found] == [(0x3000, 16)]


def test_symbol_files_are_known_by_their_first_words() -> None:
    text, _ = to_stack_cfi(TABLE)
    expected = by_pc(TABLE)
    for whole, architecture in (
        (b"MODULE Linux x86_64 0 name\nPUBLIC 1000 0 f\n" + text, None),
        (b"MODULE Linux x86_64 0 name\n" + text, "x86_64"),
        (text, "x86_64"),
    ):
        image = open_image(whole, Raw(None, BASE, architecture))
        assert (image.type, image.is_elf, image.architecture) == ("symbol file", False, TABLE.architecture)
        table = table_of_image(image)
        assert by_pc(table) == expected
        assert (table.source, table.load_address) == ("STACK CFI", BASE)
    moved = table_of_image(open_image(text, Raw("breakpad", 0x100, "x86_64")))
    assert moved.function(0).start == 0x1000 - BASE + 0x100


REFUSED = {
    "no kind": (CFI.data, Raw(), ParseError, "not an ELF file"),
    "no kind, but an architecture": (CFI.data, Raw(None, 0, "x86_64"), BuildError, "source: is missing: a raw section"),
    "no kind, but an address": (CFI.data, Raw(address=1), BuildError, "source: is missing: a raw section is one of"),
    "no architecture": (CFI.data, Raw("eh_frame"), BuildError, ".eh_frame: architecture: is missing"),
    "unknown kind": (CFI.data, Raw("text", 0, "x86_64"), BuildError, "source: 'text' is not one of sframe, eh_frame"),
    "unknown architecture": (CFI.data, Raw("debug_line", 0, "vax"), BuildError, ".debug_line: architecture: 'vax' is"),
    "negative address": (CFI.data, Raw("eh_frame", -1, "x86_64"), ParseError, ".eh_frame: address: -0x1 is not a 64-"),
    "ELF with an address": (FILE, Raw(None, 1), BuildError, "address: is known from the ELF file"),
    "ELF with an architecture": (FILE, Raw(None, 0, "x86_64"), BuildError, "architecture: is known from the ELF file"),
    "ELF as a symbol file": (FILE, Raw("breakpad"), BuildError, "source: breakpad is a symbol file, but the input is"),
    "SFrame with an architecture": (b"\xe2\xde\x02" + bytes(99), Raw(None, 0, "x86_64"), BuildError, ".sframe: arch"),
    "SFrame, only its magic": (b"\xe2\xde", Raw(), ParseError, ".sframe+0x0: preamble: 2 bytes do not hold"),
    "not SFrame": (bytes(28), Raw("sframe"), ParseError, ".sframe+0x0: header.magic: 0000 is not 0xdee2"),
    "symbols of another machine": (
        *(b"MODULE Linux x86_64 0 name\n", Raw(None, 0, "s390x"), BuildError),
        "STACK CFI: architecture: is 'x86_64' in MODULE, which is not s390x",
    ),
    "symbols of an unknown machine": (b"MODULE mac vax 0 n\n", Raw(), BuildError, "STACK CFI: architecture: 'vax' in"),
    "rules without MODULE": (b"STACK CFI INIT 0 1 .cfa: $rsp 8 +\n", Raw(), BuildError, "STACK CFI: architecture: is"),
    "an archive": (ARCHIVE, Raw(), ParseError, "not an ELF file but an archive of object files"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read(name: str) -> None:
    data, raw, error, says = REFUSED[name]
    with pytest.raises(error) as caught:
        open_image(data, raw)
    assert str(caught.value).startswith(says)


def test_every_kind_becomes_a_section_of_its_name() -> None:
    for kind, name in KINDS.items():
        if kind != "sframe":
            (_, header) = open_image(b"x", Raw(kind, 0, "s390x")).sections
            texts = {"breakpad": "STACK CFI", "directives": "directives"}
            assert header.name == name == texts.get(kind, f".{kind}")
            assert open_image(b"x", Raw(kind, 0, "s390x")).byte_order == "big"


# --- archives -------------------------------------------------------------------------------------------------


def bsd_member(name: str, data: bytes) -> bytes:
    """A member whose name is at the start of its contents, padded with zeros to 4 bytes."""
    stored = name.encode() + bytes(-len(name) % 4)
    return member(f"#1/{len(stored)}", stored + data)


GNU = ARCHIVE + member("//", LONG_NAMES) + member("/0", FILE) + member("notes.txt/", b"odd") + member("empty/", b"")
GNU += member("b.o/", FILE)
BSD = ARCHIVE + member("__.SYMDEF", bytes(8)) + bsd_member("__.SYMDEF SORTED", bytes(8)) + bsd_member(LONG_NAME, FILE)
BSD += member("b.o", FILE)


@pytest.mark.parametrize(
    ("data", "names"),
    [(GNU, [LONG_NAME, "notes.txt", "empty", "b.o"]), (BSD, [LONG_NAME, "b.o"])],
    ids=["GNU", "BSD"],
)
def test_members_of_an_archive(data: bytes, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "lib.a").write_bytes(data)
    path = str(tmp_path / "lib.a")
    parts = list(open_parts(path))
    assert [(part.member, part.file) for part in parts] == [(name, f"{path}({name})") for name in names]
    for part in parts:
        if (part.member or "").endswith(".o"):
            assert part.image is not None
            assert by_pc(table_of_image(part.image)) == by_pc(TABLE)
        else:
            assert part.image is None
    assert [part.file for part in open_parts(data)] == [f"({name})" for name in names]


def test_a_file_has_one_part() -> None:
    ((image, name, file),) = [(part.image, part.member, part.file) for part in open_parts(FILE)]
    assert image is not None
    assert by_pc(table_of_image(image)) == by_pc(TABLE)
    assert (name, file) == (None, "")


def test_members_of_a_thin_archive_are_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.o").write_bytes(FILE)
    names = member("//", b"sub/a.o/\nsub/missing.o/\n")
    header = member("/0", b"")[:48] + f"{len(FILE):<10}`\n".encode()
    (tmp_path / "thin.a").write_bytes(THIN + names + header)
    (part,) = open_parts(tmp_path / "thin.a")
    assert (part.member, part.file) == ("sub/a.o", f"{tmp_path}/thin.a[sub/a.o]")
    assert part.image is not None
    assert by_pc(table_of_image(part.image)) == by_pc(TABLE)
    with pytest.raises(BuildError, match="is a thin archive without a path: its members are separate files"):
        list(open_parts(THIN + names + header))
    (tmp_path / "thin.a").write_bytes(THIN + names + header.replace(b"/0 ", b"/9 "))
    with pytest.raises(FileNotFoundError):
        list(open_parts(tmp_path / "thin.a"))


NO_SIZE = "is not the size of a name in a member of 0x5 bytes"
BROKEN = {
    "long BSD name": (
        ARCHIVE + member("#1/20", b"short"),
        "archive+0x8: ar_name: '#1/20' is not the size of a name in",
    ),
    "odd BSD name": (ARCHIVE + member("#1/-1", b"short"), f"archive+0x8: ar_name: '#1/-1' {NO_SIZE}"),
    "member's headers": (ARCHIVE + member("a.o/", FILE[:-1]), "e_shnum: "),
    "cut": (GNU[:-2], "archive+"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_archives(name: str) -> None:
    data, says = BROKEN[name]
    with pytest.raises(ParseError) as caught:
        list(open_parts(data))
    assert str(caught.value).startswith(says)


def test_a_member_may_have_an_empty_name() -> None:
    """It is a member all the same."""
    data = ARCHIVE + member("//", b"/\n") + member("/0", FILE)
    (part,) = open_parts(data)
    assert part.member == ""
    assert part.image is not None
    found = info(data)
    assert [(one.file, one.code_bytes) for one in found.members] == [("()", info(FILE).code_bytes)]


def test_an_error_names_the_member(tmp_path: Path) -> None:
    (tmp_path / "lib.a").write_bytes(ARCHIVE + member("a.o/", FILE) + member("b.o/", FILE[:-1]))
    with pytest.raises(FormatError) as caught:
        list(open_parts(tmp_path / "lib.a"))
    assert caught.value.file == f"{tmp_path}/lib.a(b.o)"


def test_what_an_archive_tells_itself() -> None:
    with pytest.raises(BuildError, match="architecture: is known from the ELF file"):
        list(open_parts(GNU, Raw(None, 0, "x86_64")))


def test_contents_of_members_are_not_copied() -> None:
    found = {one.name: one.data for one in members_of(GNU)}
    assert found["b.o"] == FILE
    assert found["b.o"].obj is GNU


SYMBOLS = (
    b"MODULE Linux x86_64 0 name\nFUNC 100 40 0 f\n" + to_stack_cfi(TABLE)[0] + b"STACK WIN 4 1 2 3 0 0 0 0 0 1 $T0 =\n"
)


@pytest.mark.parametrize("data", [GNU, BSD, SYMBOLS, section(ONE)], ids=["GNU", "BSD", "symbols", "SFrame"])
def test_only_format_errors_on_damaged_inputs(data: bytes) -> None:
    """Seeded: some bytes are changed, or the end is cut off."""
    chance, refused = Random(17), 0
    for _ in range(60):
        damaged = bytearray(data[: len(data) if chance.random() < 0.8 else chance.randrange(len(data))])
        for _ in range(chance.randint(0, 4) if damaged else 0):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        for read in (
            info,
            lambda given: find_in_file(given, [0, 0x1000, "f"]),
            lambda given: list(dump_sections(given)),
            lambda given: [list(one.parts) for one in dump_json(given, interpreted=True)],
            lambda given: list(dump_sections(given, at=[0x1000])),
        ):
            try:
                read(bytes(damaged))
            except FormatError:
                refused += 1
    assert 0 < refused < 300


def test_a_symbol_file_without_stack_records() -> None:
    assert b"".join(dump_sections(b"MODULE Linux x86_64 0 name\n")) == b"Contents of the STACK records:\n\n\n"
    assert info(b"MODULE Linux x86_64 0 name\n").sections[0].size == 0


def thin_archive(*names: bytes) -> bytes:
    """A thin archive (GNU ar, T) of members with long names, which are paths of files."""
    table = b"".join(name + b"/\n" for name in names)
    header = b"%-16s%-12d%-6d%-6d%-8s%-10d`\n"
    found = b"!<thin>\n" + header % (b"//", 0, 0, 0, b"0", len(table)) + table + b"\n" * (len(table) % 2)
    for index in range(len(names)):
        place = sum(len(name) + 2 for name in names[:index])
        found += header % (b"/%d" % place, 0, 0, 0, b"644", 100)
    return found


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ((b"/dev/zero",), "'/dev/zero' is not a regular file"),
        ((b"a\0b",), r"'a\x00b' is not a regular file"),
        ((b"member.o", b"member.o"), "member.o is the file of an earlier member"),
    ],
)
def test_thin_archive_that_names_what_has_no_end(tmp_path: Path, names: tuple[bytes, ...], reason: str) -> None:
    (tmp_path / "member.o").write_bytes(b"not ELF")
    path = tmp_path / "thin.a"
    path.write_bytes(thin_archive(*names))
    with pytest.raises(ParseError) as caught:
        info(path)
    assert (caught.value.section, caught.value.record, caught.value.reason) == ("archive", "ar_name", reason)
