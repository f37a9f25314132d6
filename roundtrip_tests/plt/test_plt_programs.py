"""PLT rows of linked programs: at every PC compared with the CFI's own expression, and with the stack when executed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import DebugFiles, check, open_elf, read_elf, to_sframe, write_sframe
from unwindkit.converters.plt import with_uncovered_plt
from unwindkit.jobs.sframe_check import check_sframe
from unwindkit.jobs.sframe_files import write_sframe_section

from ..support.oracles import absent
from ..support.programs import plt_programs
from ..support.programs.plt_programs import (
    COVERED,
    UNCOVERED,
    Link,
    Sframe,
    Step,
    cfi_offsets,
    plt_sections,
    plt_steps,
    section_of,
)

# For a section that is not written into its program: lld leaves no space for the program headers needed.
AWAY = 0x500000
EVERY_KIND = {".plt", ".plt.sec", ".plt.got"}


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plt")


def linked(folder: Path, link: Link) -> Path:
    if (reason := plt_programs.absence(link)) is not None:
        absent(reason)
    return plt_programs.build(folder, link)


def rewritten(folder: Path, link: Link, compact: Literal["share", "none"] = "share") -> Path:
    """The program with an `.sframe`."""
    program = linked(folder, link)
    output = program.with_suffix(".out")
    write_sframe(program, output, compact=compact)
    return output


def stepped(program: Path, folder: Path) -> list[Step]:
    try:
        steps = plt_steps(program, plt_programs.tracer(folder))
    except OSError as error:
        pytest.skip(f"programs cannot be traced here: {error}")
    return steps


def apart(program: Path) -> Sframe:
    """The `.sframe` of a program, not written into it."""
    output = program.with_suffix(".sframe")
    write_sframe_section(program, output, AWAY)
    return Sframe(output.read_bytes(), AWAY)


def faults(steps: list[Step], sframe: Sframe) -> list[Step]:
    """The steps at which the row differs from the stack."""
    return [step for step in steps if sframe.offset(step.pc) != step.cfa_offset]


def pcs_of(program: Path) -> list[int]:
    return [pc for section in plt_sections(program).values() for pc in section]


def by_name(links: tuple[Link, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("link", links, ids=lambda link: link.name)


@by_name(COVERED)
def test_rows_at_every_pc_are_what_the_expression_gives(link: Link, folder: Path) -> None:
    output = rewritten(folder, link)
    expected, sframe = cfi_offsets(output), Sframe.of(output)
    assert sorted(expected) == sorted(pcs_of(output)), "the linker's CFI covers every PLT section"
    assert len(expected) >= 80
    assert {pc: sframe.offset(pc) for pc in expected} == expected
    assert 16 in {fde.block for fde in sframe.fdes}, "the lazy entries are one repetitive function"


@by_name(COVERED)
def test_rows_are_where_the_stack_is_when_a_call_goes_through_the_plt(link: Link, folder: Path) -> None:
    output = rewritten(folder, link)
    steps = stepped(output, folder)
    assert len(steps) >= 8
    if "-Wl,-z,lazy" in link.flags:
        first = plt_sections(output)[".plt"].start
        pushed = {step.cfa_offset for step in steps}
        assert pushed == {8, 16, 24}, "from the entry over the index to the first entry's push"
        assert any(step.pc - first < 16 for step in steps)
    assert faults(steps, Sframe.of(output)) == []


def test_all_three_sections_are_stepped_through(folder: Path) -> None:
    link = next(link for link in COVERED if link.name == "bfd-lazy-ibt")
    output = rewritten(folder, link)
    steps = stepped(output, folder)
    sections = plt_sections(output)
    assert set(sections) == EVERY_KIND
    assert {name for name, pcs in sections.items() for step in steps if step.pc in pcs} == EVERY_KIND


@pytest.mark.parametrize(("offset", "at"), [(8, 0), (16, 11)])
def test_a_wrong_row_is_noticed_by_stepping_and_by_evaluation(offset: int, at: int, folder: Path) -> None:
    # Not shared: .plt.got's single row would have the same bytes.
    output = rewritten(folder, COVERED[0], "none")
    data, address = section_of(output)
    (fde,) = (fde for fde in Sframe(data, address).fdes if fde.block == 16)
    (fre,) = (fre for fre in fde.fres if fre.start == at)
    assert fre.cfa_offset == offset
    wrong = Sframe(data[: fre.place] + bytes([offset + 8]) + data[fre.place + 1 :], address)
    found = faults(stepped(output, folder), wrong)
    assert {step.cfa_offset for step in found} == {offset}
    evaluated = [pc for pc, expected in cfi_offsets(output).items() if wrong.offset(pc) != expected]
    reach = 11 if at == 0 else 5
    assert len(evaluated) == fde.size // 16 * reach


@by_name(UNCOVERED)
def test_a_plt_without_cfi_has_rows_by_its_bytes(link: Link, folder: Path) -> None:
    program = linked(folder, link)
    assert cfi_offsets(program) == {}
    sframe = apart(program)
    assert all(sframe.offset(pc) is not None for pc in pcs_of(program))
    steps = stepped(program, folder)
    assert len(steps) >= 8
    assert faults(steps, sframe) == []


@pytest.mark.parametrize("name", ["bfd-lazy", "bfd-lazy-ibt"])
def test_rows_by_bytes_are_those_by_cfi_at_every_pc(name: str, folder: Path) -> None:
    link = next(link for link in COVERED if link.name == name)
    bare = Link(f"{name}-bare", link.linker, (*link.flags, plt_programs.BARE), is_covered=False)
    with_cfi, without = linked(folder, link), linked(folder, bare)
    expected, sframe = cfi_offsets(with_cfi), apart(without)
    sections = plt_sections(with_cfi)
    assert sections == plt_sections(without), "only the CFI differs"
    assert {pc: sframe.offset(pc) for pc in expected} == expected


@pytest.mark.parametrize("section", sorted(EVERY_KIND))
def test_a_section_with_an_entry_that_is_not_known_is_left_alone(section: str, folder: Path) -> None:
    program = linked(folder, next(link for link in UNCOVERED if link.name == "bfd-bare-ibt"))
    pcs = plt_sections(program)[section]
    changed = program.with_suffix(section)
    data = bytearray(program.read_bytes())
    data[pcs[-16]] = 0x55  # push rbp instead of the last entry's endbr64; offsets and addresses in text are equal here
    changed.write_bytes(data)
    sframe = apart(changed)
    covered = {name for name, found in plt_sections(changed).items() if any(sframe.fre(pc) for pc in found)}
    assert covered == EVERY_KIND - {section}


@pytest.mark.parametrize("address", [(1 << 64) - 8, (1 << 64) - 64])
def test_a_section_at_the_end_of_the_address_space_is_left_alone(address: int, folder: Path) -> None:
    program = linked(folder, UNCOVERED[0])
    size = len(plt_sections(program)[".plt"])
    with program.open("rb") as file:
        elf = ELFFile(file)
        header = elf["e_shoff"] + elf.get_section_index(".plt") * elf["e_shentsize"]
    data = bytearray(program.read_bytes())
    data[header + 16 : header + 24] = address.to_bytes(8, "little")  # sh_addr
    changed = program.with_suffix(f".{address:x}")
    changed.write_bytes(data)
    assert size == 64
    assert all(0 <= fde.start < 1 << 32 for fde in apart(changed).fdes)


@by_name(UNCOVERED)
def test_rows_by_bytes_are_checked_against_the_stubs(link: Link, folder: Path) -> None:
    """`check` holds rows of an `.sframe` for a PLT without CFI against its stubs, and does not ask for such rows."""
    output, away, table = rewritten(folder, link, "none"), folder / "away", read_elf(linked(folder, link))
    check_sframe(output, DebugFiles(links=False))
    stubs = len(with_uncovered_plt(open_elf(output), table)) - len(table)
    assert stubs >= 1
    described = len(table) - 1  # SFrame V2 has no rows for _start
    (pair,) = check(output, source="all", second_source="sframe").pairs
    assert (pair.is_equal, pair.equal.functions) == (True, described + stubs)
    data, address = section_of(output)
    place = next(fde.fres[0].place for fde in Sframe(data, address).fdes if fde.start in pcs_of(output))
    away.write_bytes(data[:place] + b"\x40" + data[place + 1 :])
    (pair,) = check(output, away, second_source="sframe", address=address).pairs
    assert {one.relation for one in pair.differences} == {"DIFFERENT"}
    assert {one.name.partition("+")[0] for one in pair.differences} <= EVERY_KIND
    away.write_bytes(to_sframe(table, section_address=AWAY)[0])
    (pair,) = check(output, away, second_source="sframe", address=AWAY).pairs
    assert (pair.is_equal, pair.equal.functions) == (True, described), "ld writes no rows for such a PLT"
