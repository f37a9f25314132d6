"""`unwindkit convert --to eh_frame|debug_frame|directives`: reports, exit codes, what is refused, nothing half-written.

The content of the bytes is tested elsewhere: test_callframe_encoding.py, test_elf_frames.py, test_directives*.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import unwindkit
from unwindkit import BuildError, by_pc, from_sframe, read_elf, to_eh_frame, write_sframe
from unwindkit.converters.arch.table import NAMES
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.jobs.report import Target
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.section import Section

from ..support.commands import DIFFERENT, DONE, WRONG, refuses, usage_error
from ..support.commands import unwindkit as run
from ..support.handmade import PLAIN_CIE, Fde, eh_frame
from ..support.tiny_elf import ALLOC, CODE, ET_REL, Content, tiny_elf


def table_of(path: Path, dialect: Dialect, address: int) -> unwindkit.UnwindTable:
    section = Section.of(dialect.name, path.read_bytes(), address)
    return table_from_cfi(section, dialect, read_elf("/proc/self/exe").architecture)


def test_into_a_copy_of_the_file(copy: Path) -> None:
    out = copy.with_name("out")
    done = run("convert", copy, out, "--to", "eh_frame")
    count = len(read_elf(copy))
    assert (done.returncode, done.stdout) == (DONE, "")
    first, second, third = done.stderr.splitlines()
    assert first.startswith(f"{out}: {count} functions: {count} converted, 0 in part, 0 not; ")
    assert first.endswith(" code bytes covered")
    assert second.startswith("  eh_frame: ")
    assert third == "  written: in place"
    assert by_pc(read_elf(out)) == by_pc(read_elf(copy))
    assert run("dump", "--frames-interp", out).returncode == DONE


def test_sections_and_back(copy: Path) -> None:
    folder = copy.parent
    for to, dialect in (("eh_frame", EH_FRAME), ("debug_frame", DEBUG_FRAME)):
        out, again = folder / to, folder / "again"
        address = "0x5000" if to == "eh_frame" else "0"
        place = ["--section", "--to-address", address] if to == "eh_frame" else []
        assert run("convert", copy, out, "--to", to, *place).returncode == DONE
        assert by_pc(table_of(out, dialect, int(address, 0))) == by_pc(read_elf(copy))
        raw = ["--from", to, "--arch", "x86_64", "--address", address]
        assert run("convert", out, again, "--to", to, *raw).returncode == DONE
        assert again.read_bytes() == out.read_bytes()


def test_from_sframe(copy: Path) -> None:
    write_sframe(copy, copy, version=3)
    out, section = copy.with_name("out"), copy.with_name("section")
    assert run("convert", copy, out, "--to", "eh_frame", "--from", "sframe").returncode == DONE
    data, _ = to_eh_frame(read_elf(copy, ".sframe"))
    assert by_pc(read_elf(out, ".eh_frame")) == by_pc(table_of_bytes(data))
    assert run("convert", copy, section, "--to", "sframe", "--sframe-version", "3", "--section").returncode == DONE
    assert run("convert", section, out, "--to", "directives", "--from", "sframe").returncode == DONE
    assert out.read_bytes() == unwindkit.to_directives(from_sframe(section.read_bytes()))[0]


def table_of_bytes(data: bytes) -> unwindkit.UnwindTable:
    return table_from_cfi(Section.of(".eh_frame", data), EH_FRAME, read_elf("/proc/self/exe").architecture)


def test_directives_of_a_file(copy: Path) -> None:
    out = copy.with_name("out.s")
    done = run("convert", copy, out, "--to", "directives")
    assert done.returncode == DONE
    assert out.read_bytes() == unwindkit.to_directives(read_elf(copy))[0]
    assert f"  directives: {out.stat().st_size:,} bytes; from " in done.stderr


def test_symbol_files(copy: Path) -> None:
    """From a file to its STACK CFI, and from that to `.eh_frame` and SFrame."""
    symbols, out = copy.with_name("program.sym"), copy.with_name("out")
    assert run("convert", copy, symbols, "--to", "breakpad").returncode == DONE
    assert symbols.read_bytes() == unwindkit.to_stack_cfi(read_elf(copy))[0]
    raw = ("--from", "breakpad", "--arch", "x86_64")
    assert run("convert", symbols, out, "--to", "breakpad", *raw).returncode == DONE
    assert out.read_bytes() == symbols.read_bytes()
    assert run("convert", symbols, out, "--to", "eh_frame", "--to-address", "0", *raw).returncode == DONE
    table = unwindkit.from_stack_cfi(symbols.read_bytes(), "x86_64")
    assert by_pc(table_of(out, EH_FRAME, 0)) == by_pc(table)
    assert run("convert", symbols, out, "--to", "sframe", *raw).returncode == DONE
    assert by_pc(from_sframe(out.read_bytes())) == by_pc(from_sframe(unwindkit.to_sframe(table)[0]))
    refuses(copy, "convert", copy, out, "--to", "sframe", "--from", "breakpad", says=NO_SYMBOL_FILE)
    symbols.write_text("STACK CFI INIT 10 x .cfa: $rsp 8 +\n")
    says = "line 1: STACK CFI INIT.size: found 'x .cfa: $rsp 8 +', expected hexadecimal number"
    refuses(symbols, "convert", symbols, out, "--to", "eh_frame", *raw, says=says)


NO_SYMBOL_FILE = "source: breakpad is a symbol file, but the input is an ELF file"
WRITE = 1  # SHF_WRITE
UNKNOWN = eh_frame("01 7177 00 01 78 10", Fde(0x1000, 16))  # augmentation "qw"


def test_strict_and_refusals(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(UNKNOWN)
    raw = ("convert", tmp_path / "in", tmp_path / "out", "--to", "eh_frame", "--from", "eh_frame", "--arch", "x86_64")
    done = run(*raw)
    assert done.returncode == DONE
    assert "1 function: 0 converted, 0 in part, 1 not" in done.stderr
    assert (
        "  refused: 1 range, 16 bytes: the CIE's augmentation is unknown: only the function's addresses could be read"
        in done.stderr
    )
    assert run(*raw, "--strict").returncode == DIFFERENT


def test_into_another_file(copy: Path) -> None:
    """IN is a symbol file, and OUT a copy of the program with its functions."""
    symbols, out = copy.with_name("program.sym"), copy.with_name("out")
    count = len(read_elf(copy))
    run("convert", copy, symbols, "--to", "breakpad")
    done = run("convert", symbols, out, "--from", "breakpad", "--to", "eh_frame", "--into", copy)
    assert (done.returncode, done.stdout) == (DONE, "")
    first, second, *rest = done.stderr.splitlines()
    assert first.startswith(f"{out}: {count} functions: {count} converted, 0 in part, 0 not; ")
    assert second.startswith("  eh_frame: ")
    assert second.endswith(f"; from {symbols.stat().st_size:,} bytes of STACK CFI")
    assert rest == ["  written: in place"]
    kept = run("convert", symbols, out, "--from", "breakpad", "--to", "eh_frame", "--into", copy, "--keep")
    assert kept.stderr.splitlines()[2:] == [f"  kept: {count} functions of {copy}", "  written: in place"]
    assert by_pc(read_elf(out)) == by_pc(read_elf(copy))
    done = run("convert", symbols, copy, "--from", "breakpad", "--to", "eh_frame", "--into", copy)
    assert usage_error(done) == f"unwindkit convert: error: {copy} is the input file"
    piped = run("convert", symbols, "-", "--from", "breakpad", "--to", "eh_frame", "--into", copy)
    assert piped.returncode == DONE
    away = ("--from", "breakpad", "--address", "0x100000000", "--into", copy)
    says = f"STACK CFI: functions: none is in an executable section of {copy}: the addresses are wrong"
    refuses(symbols, "convert", symbols, copy.with_name("no"), "--to", "eh_frame", *away, says=says)


KINDS = "sframe, eh_frame, debug_frame, breakpad, directives"
RELOCATABLE = "e_type: is a relocatable file: its addresses are not known before the link"
WRITABLE = ".eh_frame: sh_flags: is writable: the dynamic linker relocates it in place"
CUT = ".eh_frame+0xd: entry[1].length: the length reaches past the section's end"
GOOD = eh_frame(PLAIN_CIE, Fde(0x1000, 16))


def test_what_is_refused(tmp_path: Path) -> None:
    raw, out = tmp_path / "in", tmp_path / "out"
    raw.write_bytes(GOOD)
    command = ("convert", raw, out, "--to", "eh_frame")
    refuses(raw, *command, says=f"source: is missing: a raw section is one of {KINDS}; it is given by --from")
    refuses(
        raw,
        *command,
        "--from",
        "eh_frame",
        says=f".eh_frame: architecture: is missing: it is one of {NAMES}; it is given by --arch",
    )
    for option in (["--compact", "share"], ["--sframe-version", "2"]):
        done = run(*command, "--from", "eh_frame", "--arch", "x86_64", *option)
        assert (done.returncode, done.stdout) == (WRONG, "")
        assert usage_error(done).endswith(
            "--compact, --sframe-version, --no-pcrel and --frame-pointer require --to sframe"
        )
    far = ["--from", "eh_frame", "--arch", "x86", "--to-address", "0x100000000"]
    refuses(raw, *command, *far, says=".eh_frame: section_address: 0x100000000 is not a 32-bit address")
    raw.write_bytes(GOOD[:-3])
    refuses(raw, *command, "--from", "eh_frame", "--arch", "x86_64", says=CUT)
    assert not out.exists()


def test_elf_files_that_are_refused(copy: Path) -> None:
    out = copy.with_name("out")
    command = ("convert", copy, out, "--to", "eh_frame")
    refuses(copy, *command, "--to-address", "1", says=".eh_frame: to_address: applies to a section written alone")
    copy.write_bytes(tiny_elf(CODE, Content(".eh_frame", GOOD), e_type=ET_REL))
    for to in ("eh_frame", "debug_frame", "breakpad"):
        refuses(copy, *command[:3], "--to", to, says=RELOCATABLE)
    copy.write_bytes(tiny_elf(CODE, Content(".eh_frame", GOOD, flags=ALLOC | WRITE)))
    refuses(copy, *command, says=WRITABLE)
    assert not out.exists()


def test_a_format_that_is_none(copy: Path) -> None:
    with pytest.raises(BuildError, match="'dwarf' is not one of sframe, eh_frame, debug_frame, directives, breakpad"):
        unwindkit.convert(copy, copy.with_name("out"), cast(Target, "dwarf"))
