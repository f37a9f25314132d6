"""`.debug_sup` (DWARF5 7.3.6): its record, where a supplementary file is looked up, and which files are not used.

Strategy: small files made by hand, with a link of each kind, and malformed ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import DebugFiles
from unwindkit.converters.elf.debug_files import with_debug_file
from unwindkit.converters.elf.image import ElfImage, open_elf
from unwindkit.converters.elf.supplementary import ALT_LINK, SUPPLEMENTARY_STRINGS
from unwindkit.schemas import engine
from unwindkit.schemas.debug_info.supplementary import DEBUG_SUP, DebugSup
from unwindkit.schemas.section import ByteOrder, ParseError, Section
from unwindkit.schemas.strategies.declarations import records
from unwindkit.schemas.wire import LebBlock

from ..support.handmade import octets
from ..support.tiny_elf import Content, tiny_elf

CHECKSUM = bytes(range(1, 21))
STRINGS = Content(".debug_str", b"first\0moved.c\0", flags=0)
OF_THE_FILE = "05 00  01  00  14" + CHECKSUM.hex()


def link_to(name: str, checksum: bytes = CHECKSUM) -> bytes:
    """The `.debug_sup` of a file that refers to another."""
    return octets("05 00  00") + name.encode() + b"\0" + bytes([len(checksum)]) + checksum


def made(path: Path, data: bytes, *more: Content, name: str = DEBUG_SUP) -> Path:
    """A file with this `.debug_sup`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(tiny_elf(Content(name, data, flags=0), *more)))
    return path


def joined(path: Path, *folders: Path) -> ElfImage:
    return with_debug_file(open_elf(path), DebugFiles(folders=folders))


def strings_of(image: ElfImage) -> bytes | None:
    """The strings of the supplementary file; None if none was found."""
    found = image.named(SUPPLEMENTARY_STRINGS)
    return bytes(image.contents(found[0]).data) if found else None


@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_fields_of_a_link(byte_order: ByteOrder) -> None:
    version = "05 00" if byte_order == "little" else "00 05"
    data = octets(f"""
        {version}
        00                  # is_supplementary
        61 2e 64 77 7a 00   # sup_filename
        83 00 aa bb cc      # sup_checksum_len with a padding byte, sup_checksum
    """)
    section = Section.of(DEBUG_SUP, data, byte_order=byte_order)
    found, end = engine.parse(DebugSup, section, 0, len(section))
    assert found == DebugSup(5, 0, b"a.dwz", LebBlock(b"\xaa\xbb\xcc", 2))
    assert end == len(data)
    assert engine.build(found, byte_order) == data


@given(records(DebugSup), st.sampled_from(["little", "big"]))
def test_a_record_is_parsed_as_it_was_built(record: DebugSup, byte_order: ByteOrder) -> None:
    section = Section.of(DEBUG_SUP, engine.build(record, byte_order), byte_order=byte_order)
    assert engine.parse(DebugSup, section, 0, len(section)) == (record, len(section))


@pytest.mark.parametrize("place", ["relative", "absolute", "dwz folder", "identifier"])
def test_where_the_file_is_looked_up(tmp_path: Path, place: str) -> None:
    folders = tmp_path / "global"
    name, target = {
        "relative": ("../dwz/common", tmp_path / "dwz/common"),
        "absolute": (f"{tmp_path}/dwz/common", tmp_path / "dwz/common"),
        "dwz folder": ("../../.dwz/x86_64/common", folders / ".dwz/x86_64/common"),
        "identifier": ("absent", folders / ".build-id/01" / f"{CHECKSUM[1:].hex()}.debug"),
    }[place]
    program = made(tmp_path / "bin/program", link_to(name))
    image = joined(program, folders)
    assert (strings_of(image), image.notes) == (None, ())
    made(target, octets(OF_THE_FILE), STRINGS)
    image = joined(program, folders)
    assert (strings_of(image), image.notes) == (STRINGS.data, ())
    assert strings_of(with_debug_file(open_elf(program), DebugFiles(links=False, folders=(folders,)))) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (f"05 00 01 00 02 {'ff' * 2}", f" has the checksum ffff, not {CHECKSUM.hex()}: not used"),
        ("05 00 01 00 00", f" has the checksum , not {CHECKSUM.hex()}: not used"),
        (f"05 00 00 00 14 {CHECKSUM.hex()}", " is no supplementary file: not used"),
        (f"04 00 01 00 14 {CHECKSUM.hex()}", " cannot be read (.debug_sup+0x2 (file 0x102): DebugSup.version: "),
        (f"05 00 02 00 14 {CHECKSUM.hex()}", " cannot be read (.debug_sup+0x3 (file 0x103): DebugSup.is_supplementary"),
        (f"05 00 01 00 15 {CHECKSUM.hex()}", " cannot be read (.debug_sup+0x"),
        ("05 00 01 41 41", " cannot be read (.debug_sup+0x"),
        ("05", " cannot be read (.debug_sup"),
    ],
)
def test_a_file_that_is_not_the_one_is_left_out_with_a_note(tmp_path: Path, data: str, reason: str) -> None:
    program = made(tmp_path / "program", link_to("common"))
    common = made(tmp_path / "common", octets(data), STRINGS)
    image = joined(program)
    (note,) = image.notes
    assert note.startswith(f"{common}{reason}")
    assert strings_of(image) is None


def test_files_without_the_section_and_no_elf_files_are_left_out(tmp_path: Path) -> None:
    program, common = made(tmp_path / "program", link_to("common")), tmp_path / "common"
    common.write_bytes(bytes(tiny_elf(STRINGS)))
    assert joined(program).notes == (f"{common} has no .debug_sup: not used",)
    common.write_bytes(b"text")
    (note,) = joined(program).notes
    assert note.startswith(f"{common} cannot be read (")


@pytest.mark.parametrize(
    "data",
    [
        *("", "05", "05 00", "05 00 00", "05 00 00 41", "05 00 00 41 00"),
        *("05 00 00 41 00 80", "05 00 00 41 00 05 00", "04 00 00 41 00 00", "05 00 07 41 00 00"),
        "05 00 00 41 00 ff ff ff ff ff ff ff ff ff 01",
    ],
)
def test_a_malformed_link_is_noted(tmp_path: Path, data: str) -> None:
    made(tmp_path / "A", octets(OF_THE_FILE), STRINGS)
    image = joined(made(tmp_path / "program", octets(data)))
    (note,) = image.notes
    assert note.startswith("the link to a supplementary file cannot be read: .debug_sup")
    assert strings_of(image) is None
    with pytest.raises(ParseError):
        engine.parse(DebugSup, Section.of(DEBUG_SUP, octets(data)), 0, len(octets(data)))


def test_names_that_are_no_files_find_nothing(tmp_path: Path) -> None:
    for name in ("", ".", "/", "a" * 5000, "program/x", "/dev/null"):
        image = joined(made(tmp_path / "program", link_to(name)))
        assert (strings_of(image), image.notes) == (None, ())


def test_the_supplementary_file_itself_has_no_link(tmp_path: Path) -> None:
    image = joined(made(tmp_path / "common", octets(OF_THE_FILE), STRINGS))
    assert (strings_of(image), image.notes) == (None, ())


def test_a_link_to_an_absent_file_does_not_hide_another(tmp_path: Path) -> None:
    made(tmp_path / "common", octets(OF_THE_FILE), STRINGS)
    gnu = Content(ALT_LINK, b"absent\0" + bytes(20), flags=0)
    assert strings_of(joined(made(tmp_path / "program", link_to("common"), gnu))) == STRINGS.data


def test_a_file_of_a_malformed_candidate_is_looked_up_further(tmp_path: Path) -> None:
    folders = tmp_path / "global"
    program = made(tmp_path / "bin/program", link_to("../../.dwz/common"))
    made(folders / ".dwz/common", octets("05"), STRINGS)
    made(folders / ".build-id/01" / f"{CHECKSUM[1:].hex()}.debug", octets(OF_THE_FILE), STRINGS)
    image = joined(program, folders)
    (note,) = image.notes
    assert note.startswith(f"{folders}/.dwz/common cannot be read (")
    assert strings_of(image) == STRINGS.data
