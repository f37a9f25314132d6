"""`python -m unwindkit` as users run it: what it prints and writes, and that it never leaves a half-written file."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

from ..support.commands import DIFFERENT, DONE, NOT_ELF, WRONG, refuses, started_anew, unwindkit
from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame, octets
from ..support.tiny_elf import CFI, CODE, Content, tiny_elf


@pytest.fixture(name="tiny")
def _tiny(tmp_path: Path) -> Path:
    """A file of two functions."""
    path = tmp_path / "tiny"
    path.write_bytes(tiny_elf())
    return path


def says_it_runs(path: Path) -> bool:
    return subprocess.run([path], capture_output=True, check=True).stdout == b"it runs\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["info"],
        ["info", "--json"],
        ["sframe", "--section", "/dev/null"],
        ["dump", "--frames-interp"],
        ["find", "one"],
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("pure", [False, True])
def test_started_anew_it_says_what_it_says_when_it_is_loaded(tiny: Path, arguments: list[str], pure: bool) -> None:
    """Most tests run the command in a process that has loaded it already."""
    environment = os.environ | {"UNWINDKIT_PURE": str(int(pure))}
    whole = [*arguments[:1], *([tiny] if arguments else []), *arguments[1:]]
    anew, loaded = started_anew(*whole, environment=environment), unwindkit(*whole, pure=pure)
    assert (anew.returncode, anew.stdout, anew.stderr) == (loaded.returncode, loaded.stdout, loaded.stderr)
    assert (anew.stdout or anew.stderr) != ""


# ---- info ----


def test_info_as_text(tiny: Path) -> None:
    done = unwindkit("info", tiny)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert done.stdout == (
        f"{tiny}: x86_64, little-endian, ET_EXEC, 128 bytes of code\n"
        ".eh_frame: 69 bytes at 0x1080\n"
        "  2 functions, 3 rows, 2 distinct row runs, 100.00 % of code bytes covered\n"
    )


def test_info_as_json(tiny: Path) -> None:
    done = unwindkit("info", "--json", tiny)
    assert done.returncode == DONE
    found = json.loads(done.stdout)
    assert (found["architecture"], found["byte_order"], found["code_bytes"]) == ("x86_64", "little", 128)
    (section,) = found["sections"]
    assert (section["name"], section["functions"], section["rows"], section["covered_bytes"]) == (
        ".eh_frame",
        2,
        3,
        128,
    )


def test_info_says_which_kernels_are_used(tiny: Path) -> None:
    assert unwindkit("info", "--engine", pure=True).stdout == "pure\n"
    assert unwindkit("info", "--engine").stdout in ("compiled\n", "pure\n")
    both = unwindkit("info", "--engine", tiny)
    assert both.returncode == DONE
    assert len(both.stdout.splitlines()) == 4


def test_info_describes_a_broken_section_by_its_fault(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(tiny_elf(CODE, Content(".eh_frame", b"\xff\xff\xff\x0f"), Content(".sframe", b"\xe2\xde")))
    done = unwindkit("info", path)
    assert done.returncode == DONE
    assert done.stdout.splitlines()[1:] == [
        ".eh_frame: 4 bytes at 0x1080",
        "  not readable: .eh_frame+0x0 (file 0x180): entry[0].length: the length reaches past the section's end",
        ".sframe: 2 bytes at 0x1090",
        "  not readable: .sframe+0x0 (file 0x190): preamble: 2 bytes do not hold a preamble of 4",
    ]


def test_info_of_an_empty_sframe_is_no_fault_and_no_cover(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(tiny_elf(CODE, CFI, Content(".sframe", b"")))
    done = unwindkit("info", path)
    assert done.stdout.splitlines()[-2:] == [
        ".sframe: 0 bytes at 0x10d0",
        "  0 functions, 0 rows, 0 distinct row runs, 0.00 % of code bytes covered",
    ]


def test_info_of_a_file_without_unwind_information(tmp_path: Path) -> None:
    path = tmp_path / "none"
    path.write_bytes(tiny_elf(CODE))
    assert unwindkit("info", path).stdout.splitlines()[1] == "no unwind information"


def test_file_name_that_is_no_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe9"))
    path.write_bytes(tiny_elf())
    assert unwindkit("info", path).stdout.startswith(f"{path}: x86_64")
    path.write_bytes(b"no ELF")
    refuses(path, "info", path, says=NOT_ELF)


# ---- sframe: results ----

SECTION = octets("""
    e2de 02 05 03 00 f8 00  02000000 02000000 06000000 00000000 28000000
    e40f0000 40000000 00000000 02000000 00 00 0000  # 0x1000 from 0x1c
    10100000 40000000 00000000 01000000 00 00 0000  # 0x1040 from 0x30, with the first FRE of the other
    00 03 08  01 03 10
""")


def test_section_alone(tiny: Path, tmp_path: Path) -> None:
    done = unwindkit("sframe", tiny, "--section", tmp_path / "out.bin")
    assert (done.returncode, done.stdout) == (DONE, "")
    assert (tmp_path / "out.bin").read_bytes() == SECTION
    assert done.stderr.splitlines()[0].endswith(
        "2 functions: 2 converted, 0 in part, 0 not; 100.00 % of 128 code bytes covered"
    )


def test_section_for_an_address(tiny: Path, tmp_path: Path) -> None:
    assert unwindkit("sframe", tiny, "--section", tmp_path / "out.bin", "--address", "0x1000").returncode == DONE
    data = (tmp_path / "out.bin").read_bytes()
    assert (data[28:32], data[48:52]) == (octets("e4ffffff"), octets("10000000"))


@pytest.mark.parametrize(("address", "reason"), [("-1", "-0x1 is not an address"), ("1" + "0" * 40, "not an address")])
def test_section_for_an_address_that_is_none(tiny: Path, address: str, reason: str) -> None:
    done = unwindkit("sframe", tiny, "--section", tiny.parent / "out.bin", f"--address={address}")
    assert done.returncode == WRONG
    assert len(done.stderr.splitlines()) == 1
    assert reason in done.stderr
    assert not (tiny.parent / "out.bin").exists()


def test_engines_write_the_same(tiny: Path, tmp_path: Path) -> None:
    assert unwindkit("sframe", tiny, "--section", tmp_path / "out.bin", pure=True).returncode == DONE
    assert (tmp_path / "out.bin").read_bytes() == SECTION


def test_report_and_strict(tmp_path: Path) -> None:
    path, report = tmp_path / "partial", tmp_path / "report.json"
    cfi = eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40, "44 0c 03 08 44 0c 07 08"), Fde(0x1040, 0x40))
    path.write_bytes(tiny_elf(CODE, Content(".eh_frame", cfi)))
    arguments = ("sframe", path, "--section", tmp_path / "out.bin", "--report", report)
    done = unwindkit(*arguments)
    assert done.returncode == DONE
    found = json.loads(report.read_text())
    figures = ("functions", "converted", "partial", "covered_bytes", "code_bytes", "fdes", "fres", "sframe_bytes")
    assert [found[name] for name in figures] == [2, 1, 1, 0x7C, 0x80, 3, 1, 28 + 60 + 3]
    assert found["refused"] == {"CFA_REGISTER": {"ranges": 1, "bytes": 4}}
    assert "refused: 1 range, 4 bytes: the CFA is based on a register other than SP and FP" in done.stderr
    assert unwindkit(*arguments, "--strict").returncode == DIFFERENT
    assert (tmp_path / "out.bin").exists()
    path.write_bytes(tiny_elf())
    assert unwindkit(*arguments, "--strict").returncode == DONE


def test_program_with_its_section(copy: Path) -> None:
    old, out = copy.read_bytes(), copy.with_name("out")
    done = unwindkit("sframe", copy, "-o", out)
    assert (done.returncode, done.stdout) == (DONE, "")
    assert copy.read_bytes() == old
    assert says_it_runs(out)
    assert out.stat().st_mode == copy.stat().st_mode
    assert ".sframe version 2:" in unwindkit("info", out).stdout


def test_same_input_twice_gives_the_same_bytes(copy: Path) -> None:
    first, second = copy.with_name("first"), copy.with_name("second")
    assert (
        unwindkit("sframe", copy, "-o", first).returncode == unwindkit("sframe", copy, "-o", second).returncode == DONE
    )
    assert first.read_bytes() == second.read_bytes()


def test_in_place_through_a_symbolic_link(copy: Path) -> None:
    link = copy.with_name("link")
    link.symlink_to(copy.name)
    assert unwindkit("sframe", link, "--in-place").returncode == DONE
    assert link.is_symlink()
    assert not copy.is_symlink()
    assert says_it_runs(copy)
    assert ".sframe version 2:" in unwindkit("info", copy).stdout
    assert sorted(path.name for path in copy.parent.iterdir()) == ["link", "program"]


def test_output_through_a_symbolic_link(copy: Path) -> None:
    target, link = copy.with_name("target"), copy.with_name("link")
    target.write_text("old")
    link.symlink_to(target.name)
    assert unwindkit("sframe", copy, "-o", link).returncode == DONE
    assert link.is_symlink()
    assert says_it_runs(target)


# ---- sframe: what stays unchanged ----


@pytest.mark.parametrize("option", ["-o", "--section", "--report"])
def test_output_that_is_the_input_itself(tiny: Path, option: str) -> None:
    old = tiny.read_bytes()
    link = tiny.with_name("link")
    link.symlink_to(tiny.name)
    rest: list[str | Path] = ["--section", tiny.with_name("out.bin")] if option == "--report" else []
    for output in (tiny, link, tiny.parent / "." / "tiny"):
        done = unwindkit("sframe", tiny, option, output, *rest)
        assert done.returncode == WRONG
        assert f"{output} is the input file" in done.stderr
    assert tiny.read_bytes() == old
    assert not tiny.with_name("out.bin").exists()


def test_report_that_is_the_output_itself(tiny: Path) -> None:
    out = tiny.with_name("out.bin")
    done = unwindkit("sframe", tiny, "--section", out, "--report", out)
    assert done.returncode == WRONG
    assert not out.exists()


@pytest.mark.parametrize("option", ["-o", "--section"])
def test_broken_input_leaves_an_old_output_alone(tmp_path: Path, option: str) -> None:
    path, out = tmp_path / "broken", tmp_path / "out"
    path.write_bytes(tiny_elf(CODE, Content(".eh_frame", b"\xff" * 4)))
    out.write_text("old")
    refuses(path, "sframe", path, option, out, says=f".eh_frame+0x0 (file 0x180): {CUT}")
    assert out.read_text() == "old"


CUT = "entry[0].length: the record ends inside a value"


def no_large_files() -> None:
    """Like a full disk: no file may grow beyond a kilobyte."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.parametrize("option", ["-o", "--in-place"])
def test_write_that_fails_leaves_the_old_file_alone(copy: Path, option: str) -> None:
    out = copy.with_name("out")
    out.write_text("old")
    old = copy.read_bytes()
    arguments: list[str | Path] = ["-o", out] if option == "-o" else [option]
    done = unwindkit("sframe", copy, *arguments, before=no_large_files)
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert len(done.stderr.splitlines()) == 1
    assert (copy.read_bytes(), out.read_text()) == (old, "old")
    assert sorted(path.name for path in copy.parent.iterdir()) == ["out", "program"]


def test_section_that_cannot_be_written_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path, out = tmp_path / "large", tmp_path / "out"
    fdes = [Fde(0x1000 + 64 * number, 64) for number in range(100)]
    path.write_bytes(tiny_elf(CODE, Content(".eh_frame", eh_frame(f"{PLAIN_CIE} {X86_64_START}", *fdes))))
    out.write_text("old")
    done = unwindkit("sframe", path, "--section", out, before=no_large_files)
    assert done.returncode == WRONG
    assert len(done.stderr.splitlines()) == 1
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large", "out"]


@pytest.mark.parametrize("option", ["-o", "--section"])
def test_output_in_a_folder_that_is_not_there(tiny: Path, option: str) -> None:
    done = unwindkit("sframe", tiny, option, tiny.parent / "none" / "out")
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr.startswith("unwindkit: ")
    assert "No such file or directory" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["-o", "--section"])
def test_output_that_is_a_folder(tiny: Path, option: str) -> None:
    (tiny.parent / "folder").mkdir()
    done = unwindkit("sframe", tiny, option, tiny.parent / "folder")
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert len(done.stderr.splitlines()) == 1
    assert list((tiny.parent / "folder").iterdir()) == []
    assert sorted(path.name for path in tiny.parent.iterdir()) == ["folder", "tiny"]
