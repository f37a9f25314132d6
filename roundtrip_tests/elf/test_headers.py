"""Headers of ELF files and the names of their numbers: equal to pyelftools'."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest
from elftools.elf import enums
from elftools.elf.elffile import ELFFile
from unwindkit import ARCHITECTURES
from unwindkit.converters.elf.image import layout_of, open_elf
from unwindkit.corpus.elf import ElfSection, build_elf
from unwindkit.schemas.elf import numbers
from unwindkit.schemas.section import ByteOrder

from ..support.tiny_elf import SECTION_SIZE, patched, tiny_elf

FILES = [Path(found) for name in ("sh", "git", sys.executable) if (found := shutil.which(name))]
# Every table of pyelftools that a machine adds to, and a machine that adds nothing.
MACHINES = ("EM_AARCH64", "EM_ARM", "EM_MIPS", "EM_RISCV", "EM_X86_64", "EM_S390")


def tables(kind: str, machine: str) -> dict[int, str]:
    """The names of pyelftools' own structures for a machine, by number: of names for one number, the last."""
    suffix = {"EM_X86_64": "AMD64"}.get(machine, machine.removeprefix("EM_"))
    found = getattr(enums, f"{kind}_{suffix}", None) or getattr(enums, f"{kind}_BASE")
    return {number: name for name, number in found.items() if isinstance(number, int)}


@pytest.mark.parametrize("machine", MACHINES)
def test_types_have_the_names_of_pyelftools(machine: str) -> None:
    sections, segments = tables("ENUM_SH_TYPE", machine), tables("ENUM_P_TYPE", machine)
    # Compact relocations are younger than pyelftools.
    assert {numbers.section_type(one, machine) for one in numbers.SHT} - set(sections.values()) == {"SHT_CREL"}
    assert {one: numbers.section_type(one, machine) for one in sections} == sections
    assert {one: numbers.segment_type(one, machine) for one in segments} == segments
    assert (numbers.section_type(0x12345, machine), numbers.segment_type(0x12345, machine)) == (0x12345, 0x12345)


def test_machines_and_file_types_have_the_names_of_pyelftools() -> None:
    for table, name_of in ((enums.ENUM_E_MACHINE, numbers.machine_name), (enums.ENUM_E_TYPE, numbers.file_type)):
        names = {number: name for name, number in table.items() if isinstance(number, int)}
        assert {number: name_of(number) for number in names} == names
    assert (numbers.machine_name(0xFEED), numbers.file_type(0xFEED)) == (0xFEED, 0xFEED)
    assert numbers.is_machine("EM_88K")
    assert not numbers.is_machine("EM_NONSENSE")


def read_both(data: bytes) -> None:
    """Compare all headers of a file with pyelftools'."""
    ours, theirs = open_elf(data), ELFFile(io.BytesIO(data))
    assert (ours.type, ours.machine) == (theirs["e_type"], theirs["e_machine"])
    assert (8 * ours.address_size, ours.byte_order == "little") == (theirs.elfclass, theirs.little_endian)
    fields = ("sh_type", "sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_link", "sh_info", "sh_entsize")
    assert [
        (
            one.stored_name,
            one.type,
            one.flags,
            one.address,
            one.file_offset,
            one.size,
            one.link,
            one.info,
            one.entry_size,
        )
        for one in ours.sections
    ] == [(one.name, *(one[field] for field in fields)) for one in theirs.iter_sections()]
    layout = layout_of(ours)
    assert layout.entry == theirs["e_entry"]
    fields = ("p_type", "p_offset", "p_vaddr", "p_filesz", "p_memsz")
    assert [(one.type, one.file_offset, one.address, one.file_size, one.memory_size) for one in layout.segments] == [
        tuple(one[field] for field in fields) for one in theirs.iter_segments()
    ]
    assert ours.loaded == tuple((one["p_vaddr"], one["p_memsz"]) for one in theirs.iter_segments("PT_LOAD"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_headers_of_programs(path: Path) -> None:
    read_both(path.read_bytes())


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_headers_of_every_architecture(name: str, byte_order: ByteOrder) -> None:
    sections = [ElfSection(".text", bytes(16), 0x1000, is_code=True), ElfSection(".notes", b"four", None)]
    read_both(build_elf(ARCHITECTURES[name], byte_order, sections))


def test_longer_headers_than_declared() -> None:
    """e_shentsize may be more than the header (gABI): the next header is that many bytes on."""
    data = tiny_elf()
    start = int.from_bytes(data[40:48], "little")
    headers = [data[at : at + SECTION_SIZE] for at in range(start, len(data), SECTION_SIZE)]
    longer = data[:start] + b"".join(one + b"\xff" * 8 for one in headers)
    assert open_elf(bytes(patched(longer, e_shentsize=SECTION_SIZE + 8))).sections == open_elf(bytes(data)).sections


def test_numbers_that_are_in_the_first_section_header() -> None:
    """e_phnum PN_XNUM, e_shstrndx SHN_XINDEX and e_shnum 0 (gABI, ELF Header and Sections)."""
    data = tiny_elf()
    count = int.from_bytes(data[60:62], "little")
    first = {"sh_size": count, "sh_link": count - 1, "sh_info": 1}
    moved = patched(patched(bytearray(data), 0, **first), e_phnum=0xFFFF, e_shstrndx=0xFFFF, e_shnum=0)
    ours, plain = open_elf(bytes(moved)), open_elf(bytes(data))
    assert (ours.sections[1:], ours.loaded) == (plain.sections[1:], plain.loaded)
    assert layout_of(ours).segments == layout_of(plain).segments
