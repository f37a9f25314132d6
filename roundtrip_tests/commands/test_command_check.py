"""`unwindkit check`: findings, comparisons, exit codes and output."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from unwindkit import BuildError, check, read_elf, to_sframe, write_sframe

from ..support.commands import DIFFERENT, DONE, WRONG, unwindkit
from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame
from ..support.made.made_sframe import SORTED, fre, section
from ..support.made.made_sframe import Fde as SframeFde
from ..support.programs import compiled
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import ALLOC, CFI, CODE, EXECINSTR, PROGBITS, Content, tiny_elf
from ..support.wrapped import SHT_GNU_SFRAME

CIE = f"{PLAIN_CIE} {X86_64_START}"
# CFI has functions at 0x1000 (rows at +0, +1) and 0x1040, 0x40 bytes each. The `.sframe` at 0x10d0 has the first with a
# wrong row from +8 on, and the second not at all.
WRONG_ROWS = (fre(0, 8), fre(1, 16), fre(8, 24))
SFRAME = section(SframeFde(-0xD0, 0x40, WRONG_ROWS), flags=SORTED)
CALLS = Content(".text", b"\xe8" * 0x80, flags=ALLOC | EXECINSTR)  # not padding
BOTH = tiny_elf(CALLS, CFI, Content(".sframe", SFRAME, SHT_GNU_SFRAME))


def written(folder: Path, data: bytes, name: str = "file") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def test_a_file_with_two_sources_as_text(tmp_path: Path) -> None:
    file = written(tmp_path, BOTH)
    done = unwindkit("check", file)
    assert (done.returncode, done.stderr) == (DIFFERENT, "")
    assert done.stdout == (
        f"{file}: .eh_frame: 2 functions\n"
        "  no findings\n"
        f"{file}: .sframe: 1 function\n"
        "  note uncovered: 1, 64 bytes: executable code without rules\n"
        "    .text: 64 bytes\n"
        f"{file}: .eh_frame and .sframe version 2: different\n"
        "  equal: 1 function, 2 ranges, 8 bytes (6.25 %)\n"
        "  different: 1 function, 1 range, 56 bytes (43.75 %)\n"
        "  only in the first: 1 function, 1 range, 64 bytes (50.00 %)\n"
        "  0x1008..0x1040 <.text+0x8>\n"
        "    cfa=sp+16 ra=c-8\n"
        "    cfa=sp+24 ra=c-8\n"
        "  0x1040..0x1080 <.text+0x40>\n"
        "    cfa=sp+8 ra=c-8\n"
        "    no row\n"
    )


def test_as_json(tmp_path: Path) -> None:
    done = unwindkit("check", written(tmp_path, BOTH), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["has_faults"]) == (DIFFERENT, True)
    assert [one["name"] for one in report["sections"]] == [".eh_frame", ".sframe"]
    assert report["sections"][1]["findings"] == [
        {"code": "uncovered", "is_fault": False, "address": 0x1040, "name": ".text+0x40", "size": 64, "offset": None}
    ]
    (pair,) = report["pairs"]
    assert (pair["is_equal"], pair["equal"]) == (False, {"ranges": 2, "bytes": 8, "functions": 1})
    assert pair["differences"][0] == {
        "relation": "DIFFERENT",
        "start": 0x1008,
        "end": 0x1040,
        "name": ".text+0x8",
        "first": {"cfa": "sp+16", "ra": "c-8"},
        "second": {"cfa": "sp+24", "ra": "c-8"},
    }


def test_an_address_is_that_of_the_raw_section(tmp_path: Path) -> None:
    """An ELF file tells its addresses itself."""
    file, section_bytes = written(tmp_path, BOTH), written(tmp_path, SFRAME, "raw")
    for arguments in ([file, section_bytes, "--with", "sframe"], [section_bytes, file, "--from", "sframe"]):
        done = unwindkit("check", *arguments, "--address", "0x10d0", "--ignore", "uncovered")
        assert (done.returncode, done.stderr) == (DIFFERENT, "")
        assert "  equal: 1 function, 2 ranges, 8 bytes (6.25 %)\n" in done.stdout
    done = unwindkit("check", file, file, "--address", "0x10d0")
    assert done.returncode == WRONG
    assert done.stderr.endswith("is known from the ELF file: it can be given for a raw section only\n")


def test_two_files(tmp_path: Path) -> None:
    """A copy is equal; one whose second function has another row is not; the order of the files gives the sides."""
    file, same = written(tmp_path, tiny_elf(CODE, CFI)), written(tmp_path, tiny_elf(CODE, CFI), "same")
    assert unwindkit("check", file, same).returncode == DONE
    changed = eh_frame(CIE, Fde(0x1000, 0x40, "41 0e10"), Fde(0x1040, 0x40, "0e 18"))
    file2 = written(tmp_path, tiny_elf(CODE, Content(".eh_frame", changed, PROGBITS)), "other")
    done = unwindkit("check", file, file2)
    assert done.returncode == DIFFERENT
    assert done.stdout.endswith("0x1040..0x1080 <.text+0x40>\n    cfa=sp+8 ra=c-8\n    cfa=sp+24 ra=c-8\n")


def test_sections_are_chosen_by_from_and_with(tmp_path: Path) -> None:
    file = written(tmp_path, BOTH)
    assert "pairs" in json.loads(unwindkit("check", file, "--from", "eh_frame", "--json").stdout)
    alone = json.loads(unwindkit("check", file, "--from", "eh_frame", "--json").stdout)
    assert (alone["pairs"], [one["name"] for one in alone["sections"]]) == ([], [".eh_frame"])
    assert unwindkit("check", file, "--from", "all", "--with", "sframe").stdout == unwindkit("check", file).stdout
    # Without a table, there is nothing to check.
    assert unwindkit("check", file, "--from", "debug_line").returncode == WRONG
    reverse = unwindkit("check", file, "--from", "sframe", "--with", "eh_frame")
    assert "only in the second: 1 function, 1 range, 64 bytes" in reverse.stdout
    copies = unwindkit("check", file, file, "--from", "sframe", "--with", "sframe")
    assert copies.returncode == DONE
    symbols = written(
        tmp_path, b"MODULE Linux x86_64 0 file\nSTACK CFI INIT 1000 80 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n", "sym"
    )
    assert "equal: 2 functions, 2 ranges, 65 bytes" in unwindkit("check", file, symbols).stdout


def test_faults_and_notes_decide_the_exit_code(tmp_path: Path) -> None:
    gap = written(
        tmp_path,
        tiny_elf(
            Content(".text", b"\xe8" + bytes(0x7F), flags=6), Content(".eh_frame", eh_frame(CIE, Fde(0x1040, 0x40)))
        ),
    )
    assert unwindkit("check", gap).returncode == DONE
    assert unwindkit("check", gap, "--strict").returncode == DIFFERENT
    assert unwindkit("check", gap, "--strict", "--ignore", "uncovered").returncode == DONE
    overlap = eh_frame(CIE, Fde(0x1000, 0x50), Fde(0x1040, 0x40))
    wrong = written(tmp_path, tiny_elf(CODE, Content(".eh_frame", overlap)))
    done = unwindkit("check", wrong)
    assert done.returncode == DIFFERENT
    assert "  fault overlap: 1, 16 bytes: the function starts inside an earlier one" in done.stdout
    assert "    0x1040 <.text+0x40> 16 bytes at section offset 0x2a\n" in done.stdout
    assert unwindkit("check", wrong, "--ignore", "overlap").returncode == DONE


def test_wrong_usage(tmp_path: Path) -> None:
    file = written(tmp_path, BOTH)
    unknown = unwindkit("check", file, "--ignore", "nothing")
    assert (unknown.returncode, unknown.stdout) == (WRONG, "")
    assert "'nothing' is not one of unreadable, overlap" in unknown.stderr
    assert unwindkit("check", file, "--with", "debug_frame").returncode == WRONG
    assert unwindkit("check", file, tmp_path / "missing").returncode == WRONG
    assert unwindkit("check", "-", "-").returncode == WRONG
    other = written(tmp_path, tiny_elf(CODE, CFI, e_machine=183), "other")
    done = unwindkit("check", file, other)
    assert (done.returncode, done.stderr) == (
        WRONG, f"unwindkit: {other}: e_machine: is for aarch64, and {file} for x86_64\n"
    )  # fmt: skip
    with pytest.raises(BuildError):
        check(file, file, by_symbol=True, second_source="breakpad")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("path", REAL_FILES)
def test_our_sections_are_equal_but_for_refusals(path: str, version: int, tmp_path: Path) -> None:
    write_sframe(path, tmp_path / "file", version=version)
    (pair,) = (one for one in check(tmp_path / "file").pairs if "sframe" in one.second)
    table = read_elf(tmp_path / "file", "all")
    refusals = to_sframe(table, version=version, section_address=int(table.functions.start.min()))[1]
    assert pair.is_equal
    assert (len(pair.differences), pair.only_second.ranges) == (0, 0)
    assert set(pair.inexpressible) <= {refusals[index].reason.name for index in range(len(refusals))}


OLD = """
__attribute__((noinline)) int leaf(int x) { return x * 3; }
__attribute__((noinline)) int caller(int x) { return leaf(x) + leaf(x + 1); }
int main(int argc, char **argv) { return caller(argc); }
"""
NEW = OLD.replace("int leaf", "int before(int x) { volatile int a[40]; a[x] = 1; return a[0]; }\nint leaf", 1).replace(
    "return leaf(x) + leaf(x + 1);", "volatile int a[64]; a[x] = leaf(x); return a[0] + leaf(x + 1);"
)


def test_functions_of_two_builds_are_paired_by_name(tmp_path: Path) -> None:
    compiled.require()
    for name, source in (("old", OLD), ("new", NEW)):
        (tmp_path / f"{name}.c").write_text(source)
        subprocess.run(["gcc", "-O2", "-fno-inline", f"{name}.c", "-o", name], cwd=tmp_path, check=True)
    by_address = check(tmp_path / "old", tmp_path / "new").pairs[0]
    (pair,) = check(tmp_path / "old", tmp_path / "new", by_symbol=True).pairs
    assert len(by_address.differences) > len(pair.differences) > 0
    assert {one.name.partition("+")[0] for one in pair.differences} == {"caller"}
    # `before` is only in the new one; functions of the PLT have no symbols.
    first, second = pair.unpaired or (0, 0)
    assert second == first + 1
    assert pair.equal.functions >= 2
    shutil.copy(tmp_path / "old", tmp_path / "same")
    (same,) = check(tmp_path / "old", tmp_path / "same", by_symbol=True).pairs
    assert (same.differences, same.only_first.ranges) == ((), 0)
