"""An `.sframe` in a relocatable file: its relocations, what else is in the file, what is refused.

Strategy: relocations are those that GNU as 2.47 gives its own section of the same source; rules at each PC are those of
the call frame information, by the canonical form; symbol selection is tested on tables made by hand.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import unwindkit
from elftools.elf.elffile import ELFFile
from unwindkit import BuildError, ParseError, by_pc, project_sframe, read_elf, write_sframe
from unwindkit.converters.refusals import RefusedCount
from unwindkit.jobs.sframe_files import write_sframe_section
from unwindkit.writers.elf.object import without_section

from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame
from ..support.oracles import run_oracle
from ..support.programs.objects import PROGRAM, TARGETS, assembled, linked
from ..support.texts.readelf_text import sframe_rows
from ..support.tiny_elf import CODE, ET_REL, Content, patched, tiny_elf
from .test_hostile_objects import OTHER, R_64, RELA_INDEX, SYMBOLS_INDEX, Rela, Symbol, symbol_table, tiny_object

SFRAME_TARGETS = ("x86_64", "aarch64", "s390x")
# By the psABI: 64 bits, 32 bits.
PCREL_TYPES = {"x86_64": (24, 2), "aarch64": (260, 261), "s390x": (23, 5), "aarch64_be": (260, 261)}
START_SIZE = {2: 20, 3: 16}
GNU_TARGETS = pytest.mark.parametrize("name", SFRAME_TARGETS)
VERSIONS = pytest.mark.parametrize("version", [2, 3])


def relocations(path: Path) -> list[tuple[int, int, str, int]]:
    """The relocations of `.sframe`: offset, type, target section, and offset in that."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        (table,) = (one for one in elf.iter_sections("SHT_RELA") if one.name == ".rela.sframe")
        assert (table["sh_flags"], table["sh_addralign"], table["sh_entsize"]) == (0x40, 8, 24)
        assert elf.get_section(table["sh_info"]).name == ".sframe"
        symbols = elf.get_section(table["sh_link"])
        found = []
        for one in table.iter_relocations():
            symbol = symbols.get_symbol(one["r_info_sym"])
            place = elf.get_section(symbol["st_shndx"]).name, symbol["st_value"] + one["r_addend"]
            found.append((one["r_offset"], one["r_info_type"], *place))
        return found


def stored(path: Path, name: str) -> tuple[dict[str, int], bytes]:
    """The header and the bytes of a section."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(name)
        return dict(section.header), section.data()


def by_ours(path: Path, version: int = 3, name: str = "out.o") -> Path:
    out = path.with_name(name)
    write_sframe(path, out, version)
    return out


@pytest.mark.oracle("forky")
@GNU_TARGETS
def test_relocations_and_header_are_those_of_gas(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    ours = by_ours(assembled(tmp_path, target, PROGRAM))
    (tmp_path / "gas").mkdir()
    gas = assembled(tmp_path / "gas", target, PROGRAM, "--gsframe")
    assert relocations(ours) == relocations(gas)
    kept = ("sh_type", "sh_flags", "sh_addr", "sh_link", "sh_info", "sh_addralign", "sh_entsize")
    (header, data), (gas_header, gas_data) = stored(ours, ".sframe"), stored(gas, ".sframe")
    assert [header[field] for field in kept] == [gas_header[field] for field in kept]
    # Magic, version, flags (not sorted), ABI, fixed offsets; starts are 0 before the link.
    assert data[:8] == gas_data[:8]
    assert [struct.unpack_from("q", data, 28 + 16 * fde) for fde in range(3)] == [(0,)] * 3


@pytest.mark.oracle("forky", "sid-llvm")
@VERSIONS
@pytest.mark.parametrize("name", PCREL_TYPES)
def test_every_start_is_relocated_in_its_field(name: str, version: int, tmp_path: Path) -> None:
    target = TARGETS[name]
    ours = by_ours(assembled(tmp_path, target, PROGRAM), version)
    offsets = [28 + START_SIZE[version] * fde for fde in range(3)]
    kind = PCREL_TYPES[name][version == 2]
    # f is at the start of its section; g, of three nops, and one more are before h.
    places = [(".text.a", 0), (".text.b", 0), (".text.b", 4 * target.size)]
    assert relocations(ours) == [(at, kind, *place) for at, place in zip(offsets, places, strict=True)]


@pytest.mark.oracle("forky")
def test_parts_of_a_function_start_inside_it(tmp_path: Path) -> None:
    rows = "@\n.cfi_undefined rsp\n@\n.cfi_restore rsp\n@\n"
    source = f'.section .text.a,"ax"\n@\n.cfi_startproc\n{rows}.cfi_endproc\n'
    path = assembled(tmp_path, TARGETS["x86_64"], source)
    report = write_sframe(path, tmp_path / "out.o", 3)
    assert (report.partial, report.refused) == (1, {"SP_RULE": RefusedCount(1, 1)})
    assert relocations(tmp_path / "out.o") == [(28, 24, ".text.a", 1), (44, 24, ".text.a", 3)]


@pytest.mark.oracle("forky", "sid-llvm")
@VERSIONS
@pytest.mark.parametrize("name", PCREL_TYPES)
def test_object_says_what_its_cfi_says(name: str, version: int, tmp_path: Path) -> None:
    path = assembled(tmp_path, TARGETS[name], PROGRAM)
    ours = by_ours(path, version)
    expected = by_pc(project_sframe(read_elf(path, ".eh_frame"), version))
    found = by_pc(read_elf(ours, ".sframe"))
    assert found == expected, expected.differences(found)
    assert len(expected.start) == 5


@pytest.mark.oracle("forky")
@GNU_TARGETS
def test_twice_is_once_and_taken_out_is_as_before(name: str, tmp_path: Path) -> None:
    path = assembled(tmp_path, TARGETS[name], PROGRAM)
    once = by_ours(path)
    twice = by_ours(once, name="twice.o")
    assert twice.read_bytes() == once.read_bytes()
    report = unwindkit.remove_sframe(once, tmp_path / "removed.o")
    assert (report.removed, report.segments) == ((len(stored(once, ".sframe")[1]),), 0)
    again = by_ours(tmp_path / "removed.o", name="again.o")
    assert again.read_bytes() == once.read_bytes()
    with pytest.raises(ParseError, match="no such section"):
        unwindkit.remove_sframe(tmp_path / "removed.o", tmp_path / "none.o")
    assert not (tmp_path / "none.o").exists()


def grouped(functions: dict[str, str], body: str) -> str:
    """A source in which every function is in a group with an `.sframe` of its own; `body` has a place for its name."""
    return "".join(
        f'.section .text.{name},"axG",%progbits,{name},comdat\n.weak {name}\n'
        f"{name}: .cfi_startproc\n{code}\n.cfi_endproc\n"
        f'.section .sframe,"aG",%0x6ffffff4,{name},comdat\n{body.format(name)}\n'
        for name, code in functions.items()
    )


# Version 3, an FDE of one byte of code with one FRE.
ONE_FDE = """.balign 8
.short 0xdee2
.byte 3, 4, 3, 0, 0xf8, 0
.long 1, 1, 8, 0, 16
.quad {0} - .
.long 1, 0
.short 1
.byte 0, 0, 0, 0, 3, 8"""


@pytest.mark.oracle("forky")
def test_ld_keeps_what_several_sections_of_an_object_name(tmp_path: Path) -> None:
    # Why there is one: of several, ld 2.47 exempts only one from its marking (bfd/elflink.c, _bfd_elf_gc_mark).
    source = grouped({"f": "ret", "g": "ret", "h": "ret"}, ONE_FDE) + ".text\n.globl _start\n_start: call f\n"
    path = assembled(tmp_path, TARGETS["x86_64"], source)
    kept = {}
    for one in (path, by_ours(path)):
        program = linked(TARGETS["x86_64"], tmp_path / "program", "--gc-sections", one)
        with program.open("rb") as file:
            names = {symbol.name for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}
        kept[one.name] = names & {"f", "g", "h"}
    assert kept == {"object.o": {"f", "g", "h"}, "out.o": {"f"}}


@pytest.mark.oracle("forky")
def test_several_in_groups_become_one_in_none(tmp_path: Path) -> None:
    # With --gc-sections GNU ld 2.47 keeps all code of such a file: what a group's `.sframe` refers to counts as used.
    source = grouped({"f": "ret", "g": "nop\nret", "h": "nop\nnop\nret"}, ".byte 1")
    path = assembled(tmp_path, TARGETS["x86_64"], f"{source}.text\n.globl _start\n_start: call f\n")
    report = write_sframe(path, tmp_path / "out.o", 3)
    assert report.replaced_bytes == (1, 1, 1)
    with (tmp_path / "out.o").open("rb") as file:
        elf = ELFFile(file)
        names = [one.name for one in elf.iter_sections()]
        assert (names.count(".sframe"), names.count(".rela.sframe")) == (1, 1)
        groups = [list(struct.unpack("<2I", one.data())) for one in elf.iter_sections("SHT_GROUP")]
        assert [elf.get_section(member).name for _, member in groups] == [".text.f", ".text.g", ".text.h"]
        assert not elf.get_section_by_name(".sframe")["sh_flags"] & 0x200
    assert (tmp_path / "out.o").read_bytes() == by_ours(tmp_path / "out.o", name="twice.o").read_bytes()
    program = linked(TARGETS["x86_64"], tmp_path / "program", "--gc-sections", tmp_path / "out.o")
    assert sframe_rows(program).end.tolist() == [int(start) + 1 for start in sframe_rows(program).start]


@pytest.mark.oracle("forky")
@pytest.mark.parametrize("sections", [0xFEFE, 0xFF10], ids=["two more are too many", "too many"])
def test_more_sections_than_the_elf_header_counts(sections: int, tmp_path: Path) -> None:
    others = "".join(f'.section .d{number},"a"\n' for number in range(sections - 10))
    code = '.section .last,"ax"\nnop\nlast: .cfi_startproc\nnop\n.cfi_endproc\n'
    path = assembled(tmp_path, TARGETS["x86_64"], others + code)
    with path.open("rb") as file:
        before = ELFFile(file).num_sections()
    assert (before >= 0xFF00) == (sections > 0xFF00)
    ours = by_ours(path)
    with ours.open("rb") as file:
        assert ELFFile(file).num_sections() == before + 2
    assert [one[2:] for one in relocations_with_many(ours)] == [(".last", 1)]
    if before >= 0xFF00:
        assert ours.read_bytes() == by_ours(ours, name="twice.o").read_bytes()
    run_oracle("ld", "-r", ours, "-o", tmp_path / "linked.o")


def relocations_with_many(path: Path) -> list[tuple[int, int, str, int]]:
    """Like `relocations`, by readelf: pyelftools does not look up large section indices."""
    lines = run_oracle("readelf", "-rW", path).partition("'.rela.sframe'")[2].splitlines()[2:3]
    (offset, _, kind, _, name, sign, addend) = lines[0].split()
    assert (kind, sign) == ("R_X86_64_PC64", "+")
    return [(int(offset, 16), 24, name, int(addend, 16))]


# --- which symbol ---------------------------------------------------------------------------------------------

LOCAL, GLOBAL, WEAK = 0, 1, 2
NOTYPE, OBJECT, FUNC, SECTION, FILE, TLS, IFUNC = 0, 1, 2, 3, 4, 6, 10
DEFAULT, INTERNAL, HIDDEN, PROTECTED = range(4)


def info(binding: int, kind: int, visibility: int = DEFAULT) -> tuple[int, int]:
    return binding << 4 | kind, visibility


GROUP = Content(".group", struct.pack("<2I", 1, 1), 17, 0)


def with_symbols(path: Path, *symbols: tuple[int, tuple[int, int]], fifth: Content = OTHER) -> Path:
    """An object whose `.eh_frame` refers to symbol 1, an absolute one plus .text's address; the others are in .text."""
    table = bytearray(symbol_table(*(Symbol(value) for value, _ in symbols)))
    for index, (_, fields) in enumerate(symbols, 1):
        table[24 * index + 4], table[24 * index + 5] = fields
    relocation = struct.pack("<QQq", 0x1C, 1 << 32 | R_64, 0x40 - symbols[0][0])
    data = tiny_object(relocation, [Symbol()] * len(symbols), fifth=fifth, e_phnum=0, e_phoff=0)
    patched(data, SYMBOLS_INDEX, sh_link=NAMES_INDEX)
    at = data.index(symbol_table(*[Symbol()] * len(symbols)))
    data[at : at + len(table)] = table
    path.write_bytes(data)
    return path


NAMES_INDEX = 6
# The upper bits of st_other are the processor's: 0x80 is STO_AARCH64_VARIANT_PCS.
PROCESSOR = 0x80
OTHERS = [
    info(GLOBAL, FUNC),
    info(GLOBAL, FUNC, PROCESSOR),
    info(WEAK, FUNC, HIDDEN),
    info(LOCAL, FILE),
    info(LOCAL, TLS),
    info(LOCAL, IFUNC),
]
CHOICES = [
    # Symbols after the unusable ones, each with its value; the chosen one.
    ([(0, info(LOCAL, SECTION)), (0x40, info(LOCAL, FUNC))], 0),
    ([(0x40, info(LOCAL, FUNC)), (0, info(LOCAL, SECTION))], 1),
    ([(8, info(LOCAL, NOTYPE)), (0x40, info(LOCAL, FUNC))], 1),
    ([(0x30, info(GLOBAL, FUNC, HIDDEN)), (8, info(LOCAL, OBJECT))], 1),
    ([(0x30, info(GLOBAL, FUNC, HIDDEN))], 0),
    ([(0x30, info(GLOBAL, NOTYPE, INTERNAL)), (0x20, info(GLOBAL, FUNC, PROTECTED))], 0),
    ([(0x30, info(GLOBAL, FUNC, PROCESSOR | HIDDEN))], 0),
    ([(0x50, info(LOCAL, FUNC))], 0),
]


@pytest.mark.parametrize(("symbols", "chosen"), CHOICES)
def test_symbol_that_stays_the_file_s_own_is_taken(
    symbols: list[tuple[int, tuple[int, int]]], chosen: int, tmp_path: Path
) -> None:
    before = [(0x10, one) for one in OTHERS]
    ours = by_ours(with_symbols(tmp_path / "object.o", *before, *symbols))
    _, table = stored(ours, ".rela.sframe")
    value = symbols[chosen][0]
    assert struct.unpack("<QQq", table) == (28, (len(before) + chosen + 1) << 32 | 24, 0x40 - value)
    assert read_elf(ours, ".sframe").function(0).start == 0x40


def test_without_one_it_is_refused(tmp_path: Path) -> None:
    path = with_symbols(tmp_path / "object.o", *((0x10, one) for one in OTHERS))
    with pytest.raises(BuildError, match=r"section \[1\] \.text has no symbol that a relocation can use"):
        by_ours(path)
    assert list(tmp_path.iterdir()) == [path]


def test_hidden_symbol_of_a_group_is_not_taken(tmp_path: Path) -> None:
    # The linker may keep another file's copy of the group, and the symbol is then that file's.
    path = with_symbols(tmp_path / "object.o", (0, info(GLOBAL, FUNC, HIDDEN)), fifth=GROUP)
    with pytest.raises(BuildError, match="has no symbol that a relocation can use"):
        by_ours(path)
    write_sframe(with_symbols(path, (0, info(LOCAL, FUNC)), fifth=GROUP), path, 3)


# --- what is refused ------------------------------------------------------------------------------------------


def plain(**header: int) -> bytearray:
    return tiny_object([Rela(R_64, addend=0x40)], e_phnum=0, e_phoff=0, **header)


def test_the_object_itself_is_taken(tmp_path: Path) -> None:
    (tmp_path / "object.o").write_bytes(plain())
    report = write_sframe(tmp_path / "object.o", tmp_path / "out.o", 3)
    assert (report.functions, report.converted, report.fdes, report.covered_bytes) == (1, 1, 1, 0x40)
    assert (report.writer, report.address) == (
        "with relocations, from which the linker computes the start addresses",
        0,
    )


def test_function_of_no_section_is_refused_alone(tmp_path: Path) -> None:
    cfi = eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0, 0x40, "41 0e10"), Fde(0, 0x20))
    relocation = [Rela(R_64, 18 + 8, 0x40)]
    path = tmp_path / "object.o"
    path.write_bytes(tiny_object(relocation, cfi=cfi, e_phnum=0, e_phoff=0))
    assert [one.section for one in read_elf(path)] == [1, 0]
    report = write_sframe(path, tmp_path / "out.o", 3)
    assert (report.functions, report.converted, report.fdes) == (2, 1, 1)
    assert report.refused == {"NO_SECTION": RefusedCount(1, 0x20)}


REFUSED = {
    "program headers": (tiny_object([Rela(R_64)]), "e_phnum: is 1: a relocatable file with program headers"),
    "no section headers": (plain(e_shoff=0, e_shnum=0, e_shstrndx=0), "has no call frame information"),
    "size of headers": (plain(e_shentsize=65), ""),
    "bytes behind": (plain() + b"appended", "that no header describes"),
    "shared bytes": (patched(plain(), 5, sh_offset=0x100), "overlaps another section"),
    "two symbol tables": (patched(plain(), 5, sh_type=2, sh_entsize=24), "the file has 2 symbol tables, expected one"),
    "size of symbols": (patched(plain(), SYMBOLS_INDEX, sh_entsize=23), "sh_entsize"),
    "relocations of nothing": (patched(plain(), RELA_INDEX, sh_link=1), "section 1 is not a symbol table"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    data, says = REFUSED[name]
    (tmp_path / "object.o").write_bytes(data)
    with pytest.raises(unwindkit.FormatError) as caught:
        by_ours(tmp_path / "object.o")
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == [tmp_path / "object.o"]


@pytest.mark.parametrize(("index", "says"), [(0, "has no section names"), (99, "is 99, but there are only 7 sections")])
def test_file_without_names_is_not_rebuilt(index: int, says: str) -> None:
    with pytest.raises(unwindkit.FormatError, match=says):
        without_section(bytes(plain(e_shstrndx=index)), ".sframe")


def test_choices_that_are_for_linked_files(tmp_path: Path) -> None:
    (tmp_path / "object.o").write_bytes(plain())
    for choices, says in (
        ({"compact": "merge"}, "'merge' is for linked files"),
        ({"writer": "lief"}, "lief is not used"),
        ({"max_rows": 5}, "is 5: it must be at least 1, and only for 'merge'"),
    ):
        with pytest.raises(BuildError, match=says):
            write_sframe(tmp_path / "object.o", tmp_path / "out.o", 3, **choices)
    with pytest.raises(BuildError, match="without relocations the section has no addresses"):
        write_sframe_section(tmp_path / "object.o", tmp_path / "out.bin")
    assert list(tmp_path.iterdir()) == [tmp_path / "object.o"]


def test_kernel_module_is_not_linked(tmp_path: Path) -> None:
    module = tiny_elf(CODE, Content(".gnu.linkonce.this_module", b"m"), Content(".sframe", b"s"), e_type=ET_REL)
    (tmp_path / "module.ko").write_bytes(patched(module, e_phnum=0, e_phoff=0))
    for job in (write_sframe, unwindkit.remove_sframe):
        with pytest.raises(ParseError, match="is a kernel module"):
            job(tmp_path / "module.ko", tmp_path / "out.ko")
