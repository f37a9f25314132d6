"""Archives: members get their section, all else is kept byte for byte; what cannot be kept is refused, with its offset.

Strategy: archives are made by hand, so that every byte of the result is known, and by ar and llvm-ar, which then list
the result like the input.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import unwindkit
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, FormatError, ParseError, remove_sframe, write_sframe
from unwindkit.writers.archive import build_archive, parse_archive

from ..conftest import fewer
from ..support.commands import DONE, WRONG
from ..support.commands import unwindkit as command
from ..support.oracles import absent, run_oracle
from .test_hostile_objects import R_64, Rela, tiny_object

MAGIC = b"!<arch>\n"
OBJECT = bytes(tiny_object([Rela(R_64, addend=0x40)], e_phnum=0, e_phoff=0))
BITCODE = b"BC\xc0\xde" + bytes(9)


def member(name: str, data: bytes, date: int = 1234567890, mode: str = "100640") -> bytes:
    """One member, padded to even size."""
    header = f"{name:<16}{date:<12}{1000:<6}{100:<6}{mode:<8}{len(data):<10}`\n".encode()
    return header + data + b"\n" * (len(data) % 2)


def symbols(*offsets: int, word: int = 4) -> bytes:
    """A symbol table: s0, s1, ... are defined by the members at these offsets."""
    letter = {4: "I", 8: "Q"}[word]
    names = b"".join(f"s{number}".encode() + b"\0" for number in range(len(offsets)))
    return struct.pack(f">{len(offsets) + 1}{letter}", len(offsets), *offsets) + names


LONG_NAME = "a_name_that_is_longer_than_sixteen_bytes.o"
LONG_NAMES = f"{LONG_NAME}/\n".encode()


def archive(first: bytes, second: bytes, word: int = 4) -> bytes:
    """Tables, an object with a long name, a non-ELF file of odd size, an object; s0 and s1 are in the first."""
    table = {4: "/", 8: "/SYM64/"}[word]
    names = member("//", LONG_NAMES)
    start = len(MAGIC) + len(member(table, symbols(0, 0, 0, word=word))) + len(names)
    middle = member("notes.txt/", b"odd", mode="100777")
    third = start + len(member("/0", first)) + len(middle)
    tables = member(table, symbols(start, start, third, word=word)) + names
    return MAGIC + tables + member("/0", first) + middle + member("b.o/", second, date=0)


@pytest.fixture(scope="module", name="ours")
def _ours(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The object with its section."""
    folder = tmp_path_factory.mktemp("object")
    (folder / "object.o").write_bytes(OBJECT)
    write_sframe(folder / "object.o", folder / "out.o", 3)
    return (folder / "out.o").read_bytes()


@pytest.mark.parametrize("word", [4, 8])
def test_members_grow_and_the_symbols_follow(word: int, ours: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lib.a"
    path.write_bytes(archive(OBJECT, OBJECT, word))
    report = write_sframe(path, path, 3)
    assert path.read_bytes() == archive(ours, ours, word)
    assert (report.members, report.kept) == (2, ("notes.txt: not a relocatable ELF file",))
    assert (report.functions, report.converted, report.fdes, report.covered_bytes, report.code_bytes) == (
        *(2, 2, 2, 0x80, 0x100),
    )
    assert write_sframe(path, path, 3).replaced_bytes == (report.sframe_bytes // 2,) * 2
    assert path.read_bytes() == archive(ours, ours, word)
    assert len(remove_sframe(path, path).removed) == 2
    taken_out = path.read_bytes()
    write_sframe(path, path, 3)
    assert path.read_bytes() == archive(ours, ours, word)
    assert len(taken_out) < len(archive(ours, ours, word))


def test_what_stays_as_it_is(ours: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lib.a"
    without = bytes(tiny_object([], cfi=b"", e_phnum=0, e_phoff=0))
    linked = OBJECT[:16] + b"\2\0" + OBJECT[18:]
    others = {"bitcode.o": BITCODE, "empty": b"", "script": b"INPUT(libm.so.6)\n", "no.o": without, "linked": linked}
    parts = [member(f"{name}/", data) for name, data in others.items()]
    path.write_bytes(MAGIC + b"".join(parts) + member("a.o/", OBJECT) + b"".join(parts))
    report = write_sframe(path, path, 3)
    assert path.read_bytes() == MAGIC + b"".join(parts) + member("a.o/", ours) + b"".join(parts)
    reasons = ["LLVM bitcode", *["not a relocatable ELF file"] * 2, "no call frame information"]
    reasons.append("not a relocatable ELF file")
    expected = [f"{name}: {reason}" for name, reason in zip(others, reasons, strict=True)]
    assert report.kept == (*expected, *expected)


def test_broken_member_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "lib.a").write_bytes(archive(OBJECT, OBJECT[:-1]))
    with pytest.raises(ParseError, match=r"member b\.o: e_shnum: "):
        write_sframe(tmp_path / "lib.a", tmp_path / "out.a", 3)
    assert [one.name for one in tmp_path.iterdir()] == ["lib.a"]


def broken(offset: int, data: bytes) -> bytes:
    whole = archive(OBJECT, OBJECT)
    return whole[:offset] + data + whole[offset + len(data) :]


SYMBOLS_END = len(MAGIC) + len(member("/", symbols(0, 0, 0)))
FIRST = SYMBOLS_END + len(member("//", LONG_NAMES))
BROKEN = {
    "no magic": (b"!<arch>!" + bytes(60), "not an ELF file"),
    "thin": (b"!<thin>\n" + archive(b"", b"")[8:], "is a thin archive"),
    "nothing in it": (MAGIC, "no member of the archive"),
    "BSD's names": (
        MAGIC + member("#1/4", b"a.o\0" + OBJECT),
        "archive+0x8: ar_name: '#1/4' is a name of BSD archives",
    ),
    "BSD's symbols": (
        MAGIC + member("__.SYMDEF", bytes(8)),
        "archive+0x8: ar_name: '__.SYMDEF' is a name of BSD archives",
    ),
    "end of a header": (broken(FIRST + 58, b"xx"), f"archive+{FIRST + 58:#x}: ar_fmag: 7878 is not 600a"),
    "no size": (broken(FIRST + 48, b"-1"), f"archive+{FIRST + 48:#x}: ar_size: "),
    "great size": (broken(FIRST + 48, b"9999999999"), f"archive+{FIRST + 48:#x}: ar_size: the member reaches to "),
    "no long name": (broken(FIRST, b"/x"), f"archive+{FIRST:#x}: ar_name: '/x' is not an offset in the 0x2c bytes"),
    "name beyond": (broken(FIRST, b"/44"), f"archive+{FIRST:#x}: ar_name: '/44' is not an offset in the 0x2c bytes"),
    "open name": (
        broken(SYMBOLS_END + 60 + 43, b"x"),
        f"archive+{FIRST:#x}: ar_name: the long name at 0x0 does not end",
    ),
    "symbol of no member": (
        broken(68 + 4, b"\0\0\0\x09"),
        "archive+0x48: symbol[0]: 0x9 is not the offset of a member",
    ),
    "too many symbols": (broken(68, b"\0\0\0\xff"), "archive+0x44: symbol table: 25 bytes do not hold 255 offsets"),
    "cut": (archive(OBJECT, OBJECT)[: FIRST + 30], f"archive+{FIRST:#x}: header: 30 bytes do not hold a header of 60"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_archive(name: str, tmp_path: Path) -> None:
    data, says = BROKEN[name]
    path = tmp_path / "lib.a"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        write_sframe(path, tmp_path / "out.a", 3)
    assert str(caught.value).startswith(says) or says in str(caught.value)
    assert list(tmp_path.iterdir()) == [path]


def test_offset_that_32_bits_do_not_hold_is_refused() -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return 1 << 32

    members = parse_archive(archive(b"", b""))
    with pytest.raises(BuildError, match="an offset does not fit 32 bits"):
        build_archive(members, [members[0].data, LONG_NAMES, Long(), b"", b""])


def test_member_of_a_size_of_11_digits_is_refused() -> None:
    class Long(bytes):
        def __len__(self) -> int:
            return 10**10

    members = parse_archive(archive(b"", b""))
    with pytest.raises(BuildError, match=r"ar_size: member b\.o is too large: 10000000000 bytes"):
        build_archive(members, [members[0].data, LONG_NAMES, b"", b"", Long()])


def test_cut_anywhere(tmp_path: Path) -> None:
    whole, path = archive(BITCODE, b"xyz"), tmp_path / "lib.a"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            write_sframe(path, tmp_path / "out.a", 3)


@fewer(4)
@given(data=st.data())
def test_bytes_at_random(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    spoiled, path = bytearray(archive(OBJECT, OBJECT)), tmp_path_factory.getbasetemp() / "spoiled.a"
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(spoiled) - 1), st.integers(0, 255)), min_size=1, max_size=6)
    ):
        spoiled[place] = value
    path.write_bytes(spoiled)
    try:
        write_sframe(path, path, 3)
    except FormatError:
        assert path.read_bytes() == spoiled


def test_many_members_with_one_long_name_take_no_time(tmp_path: Path) -> None:
    names = member("//", b"x" * 100_000 + b"\n")
    (tmp_path / "lib.a").write_bytes(MAGIC + names + member("/0", b"") * 20_000)
    with pytest.raises(ParseError, match="does not end within 4096 bytes"):
        write_sframe(tmp_path / "lib.a", tmp_path / "out.a", 3)


# --- by ar ----------------------------------------------------------------------------------------------------


def listed(path: Path, *program: str) -> str:
    return subprocess.run([*program, path], capture_output=True, text=True, check=True).stdout


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> list[Path]:
    if shutil.which("gcc") is None or shutil.which("ar") is None:
        absent("no gcc, or no ar")
    found = []
    for number, name in enumerate(("first", "second_with_a_long_name")):
        (tmp_path / f"{name}.c").write_text(f"int f{number}(int n) {{ return n + {number}; }}")
        subprocess.run(["gcc", "-O2", "-c", f"{name}.c", "-o", f"{name}.o"], cwd=tmp_path, check=True)
        found.append(tmp_path / f"{name}.o")
    return found


@pytest.mark.parametrize("options", ["rcs", "rcsU", "rcS"])
def test_ar_lists_the_result_as_the_input(options: str, files: list[Path], tmp_path: Path) -> None:
    before, after = tmp_path / "before.a", tmp_path / "after.a"
    subprocess.run(["ar", options, before, *files, files[0]], check=True)
    report = write_sframe(before, after, 3)
    assert (report.members, report.fdes) == (3, 3)
    for program in (["ar", "t"], ["nm", "-s"]):
        assert listed(after, *program).replace("after.a", "") == listed(before, *program).replace("before.a", "")
    # Mode, owner, date of each member; the sizes are larger.
    lines = [[line.split() for line in listed(path, "ar", "tv").splitlines()] for path in (before, after)]
    assert [[*one[:2], *one[3:]] for one in lines[0]] == [[*one[:2], *one[3:]] for one in lines[1]]
    # The archive that ar makes of the single members.
    for path in files:
        write_sframe(path, path, 3)
        assert (
            subprocess.run(["ar", "p", after, path.name], capture_output=True, check=True).stdout == path.read_bytes()
        )


@pytest.mark.oracle("sid-llvm")
def test_archives_of_llvm(files: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "llvm.a"
    run_oracle("llvm-ar-22", "--format=gnu", "rcs", path, *files, suite="sid-llvm")
    table = listed(path, "nm", "-s")
    assert write_sframe(path, path, 3).members == 2
    assert listed(path, "nm", "-s") == table
    bsd = tmp_path / "bsd.a"
    run_oracle("llvm-ar-22", "--format=bsd", "rcs", bsd, *files, suite="sid-llvm")
    with pytest.raises(BuildError, match="is a name of BSD archives"):
        write_sframe(bsd, bsd, 3)


# --- the command ----------------------------------------------------------------------------------------------


def test_summary_and_exit_codes(tmp_path: Path) -> None:
    path = tmp_path / "lib.a"
    path.write_bytes(archive(OBJECT, OBJECT))
    done = command("sframe", path, "-o", tmp_path / "out.a", "--sframe-version", "3", "--strict")
    assert (done.returncode, done.stdout) == (DONE, "")
    lines = done.stderr.splitlines()
    assert lines[0].endswith("out.a: 2 functions: 2 converted, 0 in part, 0 not; 50.00 % of 256 code bytes covered")
    assert lines[2:4] == [
        "  archive: 2 members converted",
        "  kept: 1 member: not a relocatable ELF file",
    ]
    done = command("remove", tmp_path / "out.a", "--in-place")
    assert (done.returncode, "removed 2 .sframe sections of " in done.stderr) == (DONE, True)
    done = command("sframe", path, "--section", tmp_path / "out.bin")
    assert (done.returncode, "an archive of object files" in done.stderr) == (WRONG, True)


def test_version_2_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "object.o").write_bytes(OBJECT)
    done = command("sframe", tmp_path / "object.o", "--in-place")
    assert done.returncode == DONE
    assert done.stderr.splitlines()[-1].endswith("later ignore SFrame V2 in relocatable files: they merge V3")


def test_folders_give_their_objects_and_archives(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "lib").mkdir(parents=True)
    for name, data in (("a.o", OBJECT), ("lib/b.a", archive(OBJECT, OBJECT)), ("other.ar", MAGIC)):
        (folder / name).write_bytes(data)
    done = command("sframe", folder, "--output-dir", tmp_path / "out", "-j", "2", "--sframe-version", "3")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (DONE, "2 files: 2 written, 0 failed")
    out = tmp_path / "out"
    assert sorted(path.relative_to(out) for path in out.rglob("*.[ao]")) == [Path("a.o"), Path("lib/b.a")]
    assert len(unwindkit.read_elf(out / "a.o", ".sframe")) == 1
