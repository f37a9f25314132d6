"""Files to remove `.sframe` from, and a check of what removal may change.

Strategy: tables and bytes of both files are compared without the product's check.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import unwindkit
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.files.read_elf import table_of_image
from unwindkit.converters.plt import with_uncovered_plt
from unwindkit.converters.sframe.write import sframe_from_table
from unwindkit.jobs.sframe_report import sframe_section
from unwindkit.writers.elf.add import HEADERS_MOVED, LIEF, WriteReport, write_by_engines
from unwindkit.writers.elf.remove import RemoveReport

from ..binutils import SFRAME, Binutils, chosen
from ..oracles import absent, oracle_command
from ..programs import compiled
from ..programs.elf_programs import PT_GNU_SFRAME, headers, patched, segment_at

FLAGS = {flags.name: flags for flags in compiled.FLAG_SETS}
# The fields of the null section's header (gABI, SHN_UNDEF).
NULL = dict.fromkeys(
    ("sh_name", "sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_link", "sh_info", "sh_addralign", "sh_entsize"), 0
) | {"sh_type": "SHT_NULL"}


def compiled_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of `compiled`; skips the test if nothing can be built."""
    compiled.require()
    return factory.getbasetemp() / "compiled"


def given(original: Path, out: Path, *engines: str) -> WriteReport:
    """Write its `.sframe` by one of these engines."""
    image = open_elf(original)
    encoded, _ = sframe_from_table(with_uncovered_plt(image, table_of_image(image)))
    return write_by_engines(original, out, sframe_section(encoded), engines)


def linked(folder: Path, tools: Binutils, name: str) -> Path:
    """A program with an `.sframe` by these tools, in the middle of a PT_LOAD."""
    flags = FLAGS[name]
    options = (*chosen(folder, tools), SFRAME, *flags.flags)
    return compiled.build(folder, replace(flags, name=f"{tools.release}-{name}", flags=options))


def is_of_sframe(name: str) -> bool:
    """What is removed: the section, and its relocations if the linker was asked to keep them."""
    return name in (".sframe", ".rela.sframe")


def blank(data: bytearray, *places: tuple[int, int]) -> None:
    for start, end in places:
        data[start:end] = bytes(end - start)


def only_sframe_is_gone(before: Path, after: Path, report: RemoveReport, engine: str | None) -> None:
    """Every other section at its index, every other segment in its place, every other byte of the file, and the mode.

    `engine`: the writer of the section, if we wrote it. Some had made the last PT_LOAD for it, which goes too; one
    had moved the program header table there, which is moved back."""
    (old_segments, old_sections), (segments, sections) = headers(before), headers(after)
    old, new = bytearray(before.read_bytes()), bytearray(after.read_bytes())
    assert after.stat().st_mode == before.stat().st_mode
    lost = len(old_sections) - len(sections)
    if struct.unpack_from("<Q", old, 40)[0] + 64 * len(old_sections) == len(old):
        # The removed header would be the end of the file.
        assert not any(new[len(old) - 64 * lost :])
        del old[len(old) - 64 * lost :]
    assert len(new) == len(old)

    assert report.removed == tuple(header["sh_size"] for name, header in old_sections if name == ".sframe")
    for index, (name, header) in enumerate(old_sections):
        if not is_of_sframe(name):
            assert sections[index] == (name, header)
        elif index < len(sections):
            assert sections[index] == ("", NULL)
        if is_of_sframe(name) and header["sh_type"] != "SHT_NOBITS":
            blank(old, (header["sh_offset"], header["sh_offset"] + header["sh_size"]))
    assert len(sections) == len(old_sections) - (old_sections[-1][0] == ".sframe")

    kept = [one for one in old_segments if one["p_type"] != PT_GNU_SFRAME]
    if engine in (LIEF, HEADERS_MOVED):
        del kept[max(index for index, one in enumerate(kept) if one["p_type"] == "PT_LOAD")]
    changed = {"p_filesz": 56 * len(kept), "p_memsz": 56 * len(kept)}
    places = [struct.unpack_from("<Q", data, 32)[0] for data in (old, new)]
    if engine == HEADERS_MOVED:
        first = next(one for one in kept if one["p_type"] == "PT_LOAD" and one["p_offset"] == 0)
        changed |= {"p_offset": 64, "p_vaddr": first["p_vaddr"] + 64, "p_paddr": first["p_vaddr"] + 64}
    assert places[1] == (64 if engine == HEADERS_MOVED else places[0])
    assert segments == [one | changed if one["p_type"] == "PT_PHDR" else one for one in kept]
    assert report.segments == len(old_segments) - len(segments)

    # The tables were compared above; nothing follows the shorter ones. e_phnum and e_shnum count them.
    left = 0 if engine == HEADERS_MOVED else len(kept)
    new[32:40] = old[32:40]
    for offset, size, count in ((32, 56, (len(old_segments), left)), (40, 64, (len(old_sections), len(sections)))):
        (start,) = struct.unpack_from("<Q", old, offset)
        assert not any(new[start + size * count[1] : start + size * count[0]])
        blank(old, (start, start + size * count[0]), (56, 58), (60, 62))
        blank(new, (start, start + size * count[0]), (56, 58), (60, 62))
    assert new == old


def complaints(path: Path) -> set[str]:
    """What readelf 2.47 and eu-elflint find wrong with a file."""
    commands = [[*oracle_command("readelf"), "-aW", path], ["eu-elflint", "--gnu-ld", path]]
    if shutil.which("eu-elflint") is None:
        absent("no eu-elflint (elfutils)")
    read, lint = (subprocess.run(one, capture_output=True, text=True, errors="replace") for one in commands)
    return {line.replace(str(path), "") for line in (read.stderr + lint.stdout).splitlines()} - {"No errors"}


def undone(original: Path, before: Path, after: Path) -> RemoveReport:
    """Remove the section that was added to `original`: the result is that file again."""
    report = unwindkit.remove_sframe(before, after)
    assert after.read_bytes() == original.read_bytes()
    assert after.stat().st_mode == before.stat().st_mode
    assert report.file_bytes == before.stat().st_size - original.stat().st_size > report.removed[0]
    return report


def altered(path: Path) -> Path:
    """The file with a physical address in PT_GNU_SFRAME that we do not write: adding cannot be undone."""
    place = segment_at(path, PT_GNU_SFRAME) + 24
    return patched(path, path.with_name(f"{path.name}.altered"), (place, "Q", 0))


def removed(before: Path, after: Path, engine: str | None = None) -> RemoveReport:
    """Remove the section, which this engine wrote if we did, from a file in which nothing may move, and check the
    result."""
    before = before if engine is None else altered(before)
    report = unwindkit.remove_sframe(before, after)
    only_sframe_is_gone(before, after, report, engine)
    return report


def prints(path: Path, **environment: str) -> str:
    """The output of a program, or of a library's `run_frames`, whose `step` is not libc's."""
    call = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_DEEPBIND).run_frames()"
    command = [sys.executable, "-c", call, path] if path.suffix == ".so" else [path]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment or None).stdout
