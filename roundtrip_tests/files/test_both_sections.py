"""`.debug_frame` beside `.eh_frame`: the result has the rows that readelf 2.47 prints from both, at every PC.

Strategy: readelf reads the input's two sections and the `.sframe` of the result; the referee compares them. PLT entries
are excepted: we describe those that no section does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import unwindkit
from elftools.elf.elffile import ELFFile
from unwindkit import Reason

from ..elf.test_objects import relocations
from ..support.commands import DIFFERENT, DONE, WRONG
from ..support.commands import unwindkit as unwindkit_command
from ..support.judges import referee
from ..support.oracles import run_oracle
from ..support.programs.mixed_programs import BUILDS, mixed_program
from ..support.programs.objects import TARGETS, assembled, linked
from ..support.programs.plt_programs import plt_sections
from ..support.texts.joined_text import joined_rows
from ..support.texts.readelf_text import FrameRows, SframeRows, frame_rows, sframe_rows

pytestmark = pytest.mark.oracle("forky")

VERSIONS = (2, 3)


@pytest.fixture(scope="module", name="programs")
def _programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixed")


def sizes(path: Path) -> dict[str, int]:
    """The sizes of both sections, decompressed, by pyelftools."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        return {name: len(elf.get_section_by_name(name).data()) for name in (".eh_frame", ".debug_frame")}


@pytest.mark.parametrize("name", BUILDS)
def test_sframe_has_the_rows_of_both_sections(name: str, programs: Path, tmp_path: Path) -> None:
    program = mixed_program(programs, name)
    frame = joined_rows(program)
    alone = len(frame_rows(program).start)
    excepted = [(plt.start, plt.stop) for plt in plt_sections(program).values()]
    for version in VERSIONS:
        report = unwindkit.write_sframe(program, tmp_path / "out", version)
        found = referee.compare(frame, sframe_rows(tmp_path / "out"), excepted)
        assert not found.differences, "\n".join(map(str, found.differences[:10]))
        assert found.functions > alone + 10
        assert found.bytes_compared > 2_000
        assert report.cfi_section == ".eh_frame and .debug_frame"
        assert report.cfi_sizes == sizes(program)
        assert report.unread == {}


# --- assembled: parts of functions, discarded code, objects -----------------------------------------------------

GNU_TARGETS = pytest.mark.parametrize("name", ["x86_64", "aarch64", "s390x"])
IN_EH_FRAME = """
 .cfi_sections .eh_frame
 .section .text.a,"ax"
 .globl first
first: .cfi_startproc
 @
 .cfi_def_cfa_offset 192
 @
 .cfi_endproc
"""
IN_DEBUG_FRAME = """
 .cfi_sections .debug_frame
 .section .text.b,"ax"
 .globl second, third
second: .cfi_startproc
 @
 .cfi_def_cfa_offset 224
 @
 @
 .cfi_endproc
 @
third: .cfi_startproc
 @
 .cfi_endproc
 .section .text.dead,"ax"
dead: .cfi_startproc
 @
 @
 .cfi_endproc
"""
# Of the 8 nops of `outer`, .eh_frame covers 4, as `inner`: CFA = rsp + 64.
OVERLAPPING = """
 .cfi_sections .debug_frame
 .text
 .globl outer
outer: .cfi_startproc
 nop
 nop
 .cfi_def_cfa_offset 16
inner: nop
 nop
 .cfi_def_cfa_offset 32
 nop
 nop
 .cfi_def_cfa_offset 48
end: nop
 nop
 .cfi_endproc
 .section .eh_frame,"a",%progbits
 .long cie_end - cie
cie: .long 0
 .byte 1
 .asciz "zR"
 .byte 1, 0x78, 16, 1, 0x1b  # factors 1 and -8, RA, DW_EH_PE_pcrel | DW_EH_PE_sdata4
 .byte 0x0c, 7, 64, 0x80 + 16, 1  # DW_CFA_def_cfa: rsp + 64; DW_CFA_offset: RA at CFA - 8
 .byte 0, 0
cie_end:
 .long fde_end - fde
fde: .long fde - cie + 4
 .long inner - .
 .long end - inner
 .byte 0, 0, 0, 0
fde_end:
 .long 0
"""


def objects(folder: Path, name: str) -> list[Path]:
    """Two objects, each with one of the sections."""
    found = []
    for part, source in (("a", IN_EH_FRAME), ("b", IN_DEBUG_FRAME)):
        (folder / part).mkdir()
        found.append(assembled(folder / part, TARGETS[name], source))
    return found


@GNU_TARGETS
def test_discarded_functions_are_left_out(name: str, tmp_path: Path) -> None:
    roots = ("-e", "first", "-u", "second", "-u", "third", "--gc-sections")
    program = linked(TARGETS[name], tmp_path / "program", *roots, *objects(tmp_path, name))
    dead = 0
    assert dead in frame_rows(program, ".debug_frame").start.tolist(), "ld keeps the function, at address 0"
    frame = joined_rows(program)
    assert len(frame.start) == 3
    for version in VERSIONS:
        report = unwindkit.write_sframe(program, tmp_path / "out", version)
        found = referee.compare(frame, sframe_rows(tmp_path / "out"))
        assert (found.differences, report.outside_code) == ((), 1)
        assert (report.functions, report.converted, report.partial) == (3, 3, 0)
        assert report.covered_bytes == report.described_bytes == found.bytes_compared
    done = unwindkit_command("sframe", program, "-o", tmp_path / "out")
    assert "  left out: 1 function outside the executable sections\n" in done.stderr
    report = unwindkit.write_sframe(program, tmp_path / "out", source="eh_frame")
    assert (report.functions, report.outside_code) == (1, 0)


def test_functions_of_both_sections_at_one_pc(tmp_path: Path) -> None:
    target = TARGETS["x86_64"]
    program = linked(target, tmp_path / "program", "-e", "outer", assembled(tmp_path, target, OVERLAPPING))
    frame = joined_rows(program)
    assert [stop - start for start, stop in zip(frame.start.tolist(), frame.end.tolist(), strict=True)] == [4, 2, 2]
    for version in VERSIONS:
        unwindkit.write_sframe(program, tmp_path / "out", version)
        found = referee.compare(frame, sframe_rows(tmp_path / "out"))
        assert (found.differences, found.bytes_compared) == ((), 8)


def moved(rows: SframeRows, start: list[int]) -> SframeRows:
    """The rows of FDEs that start at these addresses instead."""
    shift = np.array(start, np.uint64) - rows.start
    row_shift = np.repeat(shift, np.diff(rows.first_row))
    return replace(rows, start=rows.start + shift, end=rows.end + shift, pc=rows.pc + row_shift)


@GNU_TARGETS
@pytest.mark.parametrize("version", VERSIONS)
def test_objects_with_both_sections(name: str, version: int, tmp_path: Path) -> None:
    """An object linked by `ld -r`. readelf does not apply the relocations of `.sframe`, so this test does."""
    script = tmp_path / "script"
    script.write_text("SECTIONS { .text 0 : { *(.text.a) *(.text.b) *(.text.dead) } }")
    both = linked(TARGETS[name], tmp_path / "both.o", "-r", "-T", script, *objects(tmp_path, name))
    report = unwindkit.write_sframe(both, tmp_path / "out.o", version)
    assert (report.functions, report.converted, report.cfi_sizes) == (4, 4, sizes(both))
    starts = [offset for *_, section, offset in relocations(tmp_path / "out.o") if section == ".text"]
    found = referee.compare(joined_rows(both), moved(sframe_rows(tmp_path / "out.o"), starts))
    assert not found.differences
    assert found.bytes_compared == report.covered_bytes
    alone = unwindkit.write_sframe(both, tmp_path / "out.o", version, source="debug_frame")
    assert (alone.functions, alone.cfi_section) == (3, ".debug_frame")
    assert alone.unread[".eh_frame"].code_bytes == 2 * TARGETS[name].size


def test_members_of_an_archive(tmp_path: Path) -> None:
    """Each has one of the sections; one without the chosen section is kept."""
    first, second = objects(tmp_path, "x86_64")
    second = second.rename(second.with_name("other.o"))
    run_oracle("ar", "rc", tmp_path / "both.a", first, second)
    report = unwindkit.write_sframe(tmp_path / "both.a", tmp_path / "out.a", 3)
    assert (report.members, report.functions, report.cfi_section) == (2, 4, ".eh_frame and .debug_frame")
    assert list(report.cfi_sizes) == [".eh_frame", ".debug_frame"]
    report = unwindkit.write_sframe(tmp_path / "both.a", tmp_path / "out.a", 3, source="debug_frame")
    assert (report.members, report.functions, report.kept) == (1, 3, ("object.o: no .debug_frame",))


# --- convert, edit ----------------------------------------------------------------------------------------------


def ranges(frame: FrameRows) -> list[tuple[int, int, str]]:
    """The row at each PC: start, end and text of ranges, ascending; neighbours with equal rows are one."""
    pieces = referee._pieces(frame.start, frame.end, frame.first_row, frame.pc, frame.text)
    columns = (pieces.start.tolist(), pieces.end.tolist(), [str(frame.texts[text]) for text in pieces.number])
    found: list[tuple[int, int, str]] = []
    for start, end, text in sorted(zip(*columns, strict=True)):
        if found and found[-1][1:] == (start, text):
            found[-1] = (found[-1][0], end, text)
        else:
            found.append((start, end, text))
    return found


def test_convert_reads_both_sections(programs: Path, tmp_path: Path) -> None:
    program, out = mixed_program(programs, "O2"), tmp_path / "out"
    expected = ranges(joined_rows(program))
    report = unwindkit.convert(program, out, "eh_frame")
    assert ranges(frame_rows(out)) == expected
    assert (report.source, report.source_sizes) == (".eh_frame and .debug_frame", sizes(program))
    assert report.source_bytes == sum(sizes(program).values())
    assert report.covered_bytes == report.described_bytes > 2_000
    for target in ("sframe", "debug_frame", "directives", "breakpad"):
        found = unwindkit.convert(program, out, target, source="all")
        assert (found.functions, found.source_sizes) == (report.functions, sizes(program))
        refused = sum(count.bytes for count in found.refused.values())
        assert found.covered_bytes + refused == report.covered_bytes
    alone = unwindkit.convert(program, out, "debug_frame", source="debug_frame")
    assert alone.functions == len(frame_rows(program, ".debug_frame").start)
    assert alone.covered_bytes + alone.unread[".eh_frame"].code_bytes == report.covered_bytes
    own = unwindkit.convert(program, out, "eh_frame", source="eh_frame")
    assert own.covered_bytes + own.unread[".debug_frame"].code_bytes == report.covered_bytes
    symbols = unwindkit.write_breakpad(program, out)
    assert symbols.covered_bytes + sum(count.bytes for count in symbols.refused.values()) == report.covered_bytes


def test_edit_takes_functions_of_both_sections(programs: Path, tmp_path: Path) -> None:
    program = mixed_program(programs, "O2")
    report = unwindkit.edit_eh_frame(program, tmp_path / "out", source=program)
    own, both = len(frame_rows(program).start), len(joined_rows(program).start)
    assert (report.replaced, report.added, report.functions) == (own, both - own, both)
    assert ranges(frame_rows(tmp_path / "out")) == ranges(joined_rows(program))


# --- what the summary tells -------------------------------------------------------------------------------------


def test_summary_tells_what_is_far_from_covered(tmp_path: Path) -> None:
    roots = ("-e", "first")
    program = linked(TARGETS["x86_64"], tmp_path / "program", *roots, *objects(tmp_path, "x86_64"))
    done = unwindkit_command("sframe", program, "-o", tmp_path / "out", "--from", "eh_frame")
    assert "1 function: 1 converted, 0 in part, 0 not; 22.22 % of 9 code bytes covered" in done.stderr
    line = "  the file's sections cover 88.89 % of the code; .debug_frame (6 bytes more) was not read: "
    assert line + "another source was chosen" in done.stderr.splitlines()
    assert "the file's sections" not in unwindkit_command("sframe", program, "-o", tmp_path / "out").stderr
    report = unwindkit.write_sframe(program, tmp_path / "out", source="eh_frame")
    figures = report.covered_bytes, report.described_bytes, report.code_bytes, report.unread[".debug_frame"].code_bytes
    assert figures == (2, 8, 9, 6)
    broken = bytearray(program.read_bytes())
    with program.open("rb") as file:
        place = ELFFile(file).get_section_by_name(".debug_frame")["sh_offset"]
    broken[place + 2] = 0x7F  # in the length of its CIE
    program.write_bytes(broken)
    done = unwindkit_command("sframe", program, "-o", tmp_path / "out", "--from", "eh_frame")
    assert done.returncode == DONE
    assert "  .debug_frame was not read: .debug_frame+0x0 (file " in done.stderr


def test_refused_code_far_below_what_the_sections_cover(tmp_path: Path) -> None:
    source = "f: .cfi_startproc\n .cfi_def_cfa 1, 16\n @\n @\n .cfi_endproc\ng: .cfi_startproc\n @\n .cfi_endproc\n"
    target = TARGETS["x86_64"]
    program = linked(target, tmp_path / "program", "-e", "0", assembled(tmp_path, target, source))
    done = unwindkit_command("sframe", program, "-o", tmp_path / "out")
    assert "2 functions: 1 converted, 0 in part, 1 not; 33.33 % of 3 code bytes covered" in done.stderr
    assert "  the file's sections cover 100.00 % of the code; 2 bytes are refused\n" in done.stderr


def test_a_section_without_bytes_is_named(programs: Path, tmp_path: Path) -> None:
    """A separate debug file has `.debug_frame`, but only the header of `.eh_frame`."""
    program, debug = mixed_program(programs, "O2"), tmp_path / "program.debug"
    run_oracle("objcopy", "--only-keep-debug", program, debug)
    done = unwindkit_command("convert", debug, tmp_path / "out", "--to", "debug_frame")
    line = "  .eh_frame was not read: it is NOBITS here; the stripped file has its bytes"
    assert line in done.stderr.splitlines()
    report = unwindkit.convert(debug, tmp_path / "out", "debug_frame")
    assert (report.source, list(report.unread)) == (".debug_frame", [".eh_frame"])


def test_minimum_of_coverage(programs: Path, tmp_path: Path) -> None:
    program = mixed_program(programs, "O2")
    share = unwindkit.write_sframe(program, tmp_path / "out", 3).coverage
    for command in (
        ("sframe", program, "-o", tmp_path / "out", "--sframe-version", "3"),
        ("convert", program, tmp_path / "out", "--to", "eh_frame"),
        ("breakpad", program, "-o", tmp_path / "out"),
    ):
        above, below = f"{share - 0.01:.4f}", f"{share + 0.01:.4f}"
        assert unwindkit_command(*command, "--min-coverage", above).returncode == DONE
        (tmp_path / "out").unlink()
        done = unwindkit_command(*command, "--min-coverage", below)
        assert done.returncode == DIFFERENT
        line = f"unwindkit: {program}: {share:.2f} % of code bytes covered, less than --min-coverage {float(below):g} %"
        assert done.stderr.splitlines()[-1] == line
        assert (tmp_path / "out").exists()
    for wrong in ("-1", "100.5", "half"):
        assert unwindkit_command("sframe", program, "-o", tmp_path / "out", "--min-coverage", wrong).returncode == WRONG
    (tmp_path / "raw").write_bytes(b"")
    raw = ("convert", tmp_path / "raw", tmp_path / "out", "--to", "sframe", "--min-coverage", "1")
    assert "--min-coverage requires an ELF file" in unwindkit_command(*raw).stderr


def test_losses_are_all_reasons_but_five() -> None:
    """Where nothing is lost: no CFA in the source, either; an unwinder ends; another function has the PC; no code; a
    record that gives no rules."""
    lossless = {reason for reason in Reason if not reason.is_loss}
    of_rows = {Reason.NO_CFA, Reason.RA_UNDEFINED, Reason.OVERLAP}
    assert lossless == of_rows | {Reason.NO_SECTION, Reason.WIN_TYPE}
