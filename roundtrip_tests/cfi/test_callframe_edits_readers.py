"""Files with an edited `.eh_frame`, read by independent programs: they find the same rows as our own reader.

Strategy: an edit that does not change the section's size is patched into a copy of the file. gcc's unwinder must also
skip what a dropped FDE leaves when it walks the section: that needs a header without its table.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from unwindkit import FunctionFlag, UnwindTable, read_elf
from unwindkit.converters.cfi.edit.edit import EditedCfi, edit_cfi
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.elf.symbols import addresses_of_names
from unwindkit.schemas.pointers import DW_EH_PE

from ..support.made.edited_frames import eh_frame_of, read, starts_of
from ..support.oracles import oracle_command
from ..support.programs.compiled import FLAG_SETS, build
from ..support.programs.compiled_sources import EXPECTED_OUTPUT
from ..support.programs.elf_programs import tool
from ..support.real_files import REAL_FILES

REAL = pytest.mark.parametrize("path", REAL_FILES, ids=str)
FLAGS = {one.name: one for one in FLAG_SETS}


def patched(path: Path | str, copy: Path, frames: EditedCfi) -> Path:
    """A copy of a file with an edited section of the same size."""
    image = open_elf(path)
    (header,) = image.named(".eh_frame")
    data = bytearray(Path(path).read_bytes())
    assert len(frames) == header.size
    data[header.file_offset : header.file_offset + header.size] = frames.at(header.address)
    copy.write_bytes(data)
    copy.chmod(0o755)
    return copy


def every_third_dropped(path: str) -> tuple[EditedCfi, UnwindTable]:
    """A third dropped, a third replaced by itself."""
    section, old = eh_frame_of(path)
    frames = edit_cfi(
        section, old.architecture, starts_of(old.select(slice(0, None, 3))), old.select(slice(1, None, 3))
    )
    assert frames.report.in_place == frames.report.replaced
    return frames, read(frames)


def said_by(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"})
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode(errors="replace")


def held(text: str, pattern: str, base: int, frames: EditedCfi, table: UnwindTable) -> None:
    """The FDEs that a program shows, by their first and last addresses, are those of the table; the CIEs are ours."""
    shown = {(int(one[1], 16), int(one[2], 16)) for one in re.finditer(pattern, text)}
    functions = table.functions
    expected = {(start, start + size) for start, size in zip(functions.start.tolist(), functions.size.tolist())}  # noqa: B905
    assert {(start + base, end + base) for start, end in shown} == expected
    assert len(re.findall(r"(?m)^.*\bCIE\b.*(?:length|$)", text)) >= frames.report.dropped


@pytest.mark.oracle
@REAL
def test_readelf(path: str, tmp_path: Path) -> None:
    frames, table = every_third_dropped(path)
    copy = patched(path, tmp_path / "copy", frames)
    # The header's rows for dropped functions no longer lead to an FDE; readelf does not check.
    text = said_by(*oracle_command("readelf"), "-wNf", copy)
    held(text, r"FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)", 0, frames, table)


@REAL
def test_elfutils(path: str, tmp_path: Path) -> None:
    frames, _ = every_third_dropped(path)
    copy = patched(path, tmp_path / "copy", frames)
    text = tool("eu-readelf", "--debug-dump=frames", copy)
    count = len(re.findall(r"(?m)^ \[ *[0-9a-f]+\] FDE", text))
    assert count == len(eh_frame_of(path)[1]) - frames.report.dropped


@pytest.mark.oracle("sid-llvm")
@REAL
def test_llvm(path: str, tmp_path: Path) -> None:
    frames, table = every_third_dropped(path)
    copy = patched(path, tmp_path / "copy", frames)
    text = said_by(*oracle_command("llvm-dwarfdump-22", "sid-llvm"), "--eh-frame", copy)
    held(text, r"FDE cie=\S+ pc=([0-9a-f]+)\.\.\.([0-9a-f]+)", 0, frames, table)


# Functions that no throw in the program passes through: the others are found after them.
UNTHROWN = ("with_vla", "huge_frame", "dispatch", "partitioned", "variadic", "many_saved")


@pytest.fixture(name="program")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.getbasetemp() / "edited", FLAGS["O0"])


def without_table(path: Path) -> None:
    """Remove the table from the header, so that gcc's unwinder walks the section."""
    (header,) = open_elf(path).named(".eh_frame_hdr")
    data = bytearray(path.read_bytes())
    # After the version and the encoding of eh_frame_ptr.
    data[header.file_offset + 2 : header.file_offset + 4] = bytes([DW_EH_PE.omit, DW_EH_PE.omit])
    path.write_bytes(data)


@pytest.mark.parametrize("walks", [False, True])
def test_exceptions_are_caught_behind_what_was_dropped(program: Path, tmp_path: Path, walks: bool) -> None:
    pcs = [pc for found in addresses_of_names(open_elf(program), UNTHROWN).values() for pc in found]
    section, old = eh_frame_of(program)
    frames = edit_cfi(section, old.architecture, pcs, old.select(old.functions.flags & FunctionFlag.HAS_LSDA > 0))
    assert (frames.report.dropped, frames.report.in_place) == (len(UNTHROWN), frames.report.replaced)
    assert frames.report.replaced > 0
    copy = patched(program, tmp_path / "program", frames)
    if walks:
        without_table(copy)
    assert said_by(copy) == EXPECTED_OUTPUT


def test_the_walk_does_read_the_section(program: Path, tmp_path: Path) -> None:
    """Also dropping the functions that exceptions pass through: nothing catches them."""
    section, old = eh_frame_of(program)
    pcs = [pc for pc in starts_of(old) if pc != min(starts_of(old))]
    copy = patched(program, tmp_path / "program", edit_cfi(section, old.architecture, pcs))
    without_table(copy)
    assert subprocess.run([copy], capture_output=True, check=False).returncode != 0
    assert len(read_elf(copy, ".eh_frame")) == len(old) - len(set(pcs))


def test_gdb(program: Path, tmp_path: Path) -> None:
    """gdb finds the caller of a function without a frame pointer from the section alone."""
    program = build(program.parent.parent, FLAGS["O2"])
    pcs = [pc for found in addresses_of_names(open_elf(program), ["huge_frame", "variadic"]).values() for pc in found]
    section, old = eh_frame_of(program)
    copy = patched(program, tmp_path / "program", edit_cfi(section, old.architecture, pcs))
    said = tool("gdb", "-batch", "-nx", "-ex", "break sum_bytes", "-ex", "run", "-ex", "bt", copy)
    assert re.search(r"#0 .*sum_bytes.*\n#1 .*with_\w+.*\n#2 .*run_c.*\n#3 .*run_frames", said), said
    assert "CIE" not in said
