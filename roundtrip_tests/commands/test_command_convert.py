"""`unwindkit convert` and `unwindkit merge`: from version to version, from file to section, and what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import unwindkit
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, by_pc, from_sframe, project_sframe, read_elf, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.refusals import Refusals
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.cut import trim
from unwindkit.converters.table.model import RegisterRule, UnwindTable, table_of
from unwindkit.jobs.sources import SOURCES
from unwindkit.schemas import engine, strategies
from unwindkit.schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS

from ..conftest import fewer
from ..support.commands import DIFFERENT, DONE, WRONG, build_program, refuses, usage_error
from ..support.commands import unwindkit as run
from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, at, eh_frame, octets, row, sp
from ..support.texts.readelf_text import sframe_rows
from ..support.tiny_elf import CODE, ET_REL, Content, tiny_elf
from ..support.wrapped import wrapped_section
from ..table.test_overlaps import SAVED_RA, function, of

# One function of 32 bytes, 0x1000 from the section.
V1 = octets("""
    e2de 01 01 03 00 f8 00  01000000 02000000 06000000 00000000 11000000
    00100000 20000000 00000000 02000000 00  # start from the section
    00 03 08  01 03 10
""")
V2 = octets("""
    e2de 02 05 03 00 f8 00  01000000 02000000 06000000 00000000 14000000
    e40f0000 20000000 00000000 02000000 00 00 0000  # start from this field, at 0x1c
    00 03 08  01 03 10
""")
V3 = octets("""
    e2de 03 05 03 00 f8 00  01000000 02000000 0b000000 00000000 10000000
    e40f000000000000 20000000 00000000
    0200 00 00 00  # attributes
    00 03 08  01 03 10
""")
VERSIONS = {1: V1, 2: V2, 3: V3}

MAX_V3_REGISTER = 0xFFF  # far beyond any ABI's


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A folder with the function in each version, for the address 0."""
    for version, data in VERSIONS.items():
        (tmp_path / f"v{version}").write_bytes(data)
    return tmp_path


# --- convert: laws --------------------------------------------------------------------------------------------


def converted(folder: Path, data: bytes, version: int, address: int, to_address: int) -> bytes:
    (folder / "in").write_bytes(data)
    unwindkit.convert(folder / "in", folder / "out", "sframe", version=version, address=address, to_address=to_address)
    return (folder / "out").read_bytes()


def refusals_of(table: UnwindTable, version: int, address: int) -> Refusals:
    return to_sframe(table, version, section_address=address)[1]


@pytest.mark.parametrize("abi_arch", SFRAME_ABI)
@pytest.mark.parametrize(("version", "to_version"), [(1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3)])
@fewer(20)
@given(data=st.data())
def test_the_rules_at_every_pc_survive(
    abi_arch: SFRAME_ABI, version: int, to_version: int, tmp_path: Path, data: st.DataObject
) -> None:
    section = data.draw(strategies.valid_sframe_sections(version, abi_arch))
    addresses = st.sampled_from([0x1000, 0x1238, 0x200000])
    address, to_address = data.draw(addresses), data.draw(addresses)
    old = engine.build(section, SFRAME_ABIS[abi_arch].byte_order)
    table = trim(from_sframe(old, address))
    try:
        new = converted(tmp_path, old, to_version, address, to_address)
    except BuildError as error:
        assert version == 3, error  # with 64-bit start addresses
        return
    back = by_pc(from_sframe(new, to_address))
    expected = by_pc(project_sframe(table, to_version), without=refusals_of(table, to_version, to_address))
    assert back == expected, expected.differences(back)
    if version < 3 <= to_version:
        again = converted(tmp_path, new, 2, to_address, address)
        directly = converted(tmp_path, old, 2, address, address)
        assert by_pc(from_sframe(again, address)) == by_pc(from_sframe(directly, address))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("to_version", [2, 3])
def test_version_to_version_byte_for_byte(folder: Path, version: int, to_version: int) -> None:
    done = run("convert", folder / f"v{version}", folder / "out", "--to", "sframe", "--sframe-version", str(to_version))
    assert (done.returncode, done.stdout) == (DONE, "")
    assert (folder / "out").read_bytes() == VERSIONS[to_version]
    assert done.stderr.splitlines() == [
        f"{folder / 'out'}: 1 function: 1 converted, 0 in part, 0 not",
        f"  .sframe version {to_version}: {len(VERSIONS[to_version])} bytes at 0x0 (1 FDE, 2 FREs); "
        f"from {len(VERSIONS[version])} bytes of .sframe version {version}",
    ]


def test_starts_follow_the_section(folder: Path) -> None:
    def starts(*options: str) -> bytes:
        assert run("convert", folder / "v1", folder / "out", "--to", "sframe", *options).returncode == DONE
        return (folder / "out").read_bytes()[28:32]

    assert starts("--address", "0x400000") == octets("e40f0000")
    assert starts("--address", "0x400000", "--to-address", "0x400100") == octets("e40e0000")
    assert starts("--to-address", "0x2000") == octets("e4efffff")


def test_functions_that_overlap_lose_nothing(folder: Path) -> None:
    second = octets("d00f0000 30000000 00000000 02000000 00 00 0000")  # 0x1000 again, longer
    data = V2[:8] + octets("02000000 02000000 06000000 00000000 28000000") + V2[28:48] + second + V2[48:]
    (folder / "in").write_bytes(data)
    report = unwindkit.convert(folder / "in", folder / "out", "sframe")
    assert (report.functions, report.converted, report.refused) == (2, 2, {})
    table = from_sframe((folder / "out").read_bytes())
    assert [(one.start, one.size) for one in table] == [(0x1000, 0x20), (0x1020, 0x10)]


def test_losses_are_said_and_strict_counts_them(folder: Path) -> None:
    outermost = octets("""
        e2de 03 05 03 00 f8 00  01000000 01000000 07000000 00000000 10000000
        e40f000000000000 20000000 00000000  0100 00 00 00  00 00
    """)
    (folder / "in").write_bytes(outermost)
    arguments = ("convert", folder / "in", folder / "out", "--to", "sframe")
    done = run(*arguments)
    assert done.returncode == DONE
    assert done.stderr.splitlines()[0].endswith("1 function: 0 converted, 0 in part, 1 not")
    assert "refused: 1 range, 32 bytes: the return address is undefined" in done.stderr
    assert run(*arguments, "--strict").returncode == DONE, "an unwinder ends there with and without a row"
    assert run(*arguments, "--strict", "--sframe-version", "3").returncode == DONE
    of_r10 = octets("""
        e2de 03 05 03 00 f8 00  01000000 01000000 09000000 00000000 10000000
        e40f000000000000 20000000 00000000  0100 00 01 00  00 04 51 00  # FLEX: CFA = r10 + 0
    """)
    (folder / "in").write_bytes(of_r10)
    done = run(*arguments, "--strict")
    assert done.returncode == DIFFERENT
    assert "refused: 1 range, 32 bytes: the CFA is based on a register other than SP and FP" in done.stderr
    assert run(*arguments, "--strict", "--sframe-version", "3").returncode == DONE


@pytest.mark.parametrize(("source", "pointer"), [("eh_frame", "00000000"), ("debug_frame", "ffffffff")])
def test_raw_call_frame_information(folder: Path, source: str, pointer: str) -> None:
    cfi = bytearray(eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x20, "41 0e10")))
    cfi[4:8] = octets(pointer)
    if source == "debug_frame":
        length = 4 + int.from_bytes(cfi[:4], "little")
        cfi[length + 4 : length + 8] = bytes(4)  # the CIE pointer is relative to the section's start
    (folder / "in").write_bytes(cfi)
    arguments = ("convert", folder / "in", folder / "out", "--to", "sframe", "--from", source)
    assert run(*arguments, "--arch", "x86_64").returncode == DONE
    assert (folder / "out").read_bytes() == V2
    known = f"{', '.join(ARCHITECTURES)}, or of the form EM_88K-32-big for any other"
    given = "it is given by --arch"
    (folder / "out").unlink()
    refuses(folder / "in", *arguments, says=f".{source}: architecture: is missing: it is one of {known}; {given}")
    refuses(
        folder / "in",
        *arguments,
        "--arch",
        "vax",
        says=f".{source}: architecture: 'vax' is unknown: it is one of {known}",
    )


# --- convert: ELF ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("machine", "name"), [(62, "x86_64"), (183, "aarch64"), (183, "aarch64_be"), (22, "s390x")])
def test_section_of_an_elf_file_of_any_architecture(tmp_path: Path, machine: int, name: str) -> None:
    architecture = ARCHITECTURES[name]
    sp_of_caller = RegisterRule(15, RuleKind.VAL_OFFSET, -160)  # SFRAME_S390X_SP_VAL_OFFSET
    saved = {"x86_64": (SAVED_RA,), "s390x": (sp_of_caller,)}.get(name, ())
    rows = (row(0, sp(160)._replace(register=architecture.stack_pointer), *saved),)
    one = function(0x1000, 0x20, *rows)
    table = table_of(
        architecture, [unwindkit.Function(one.start, one.size, rows, return_column=architecture.return_address)]
    )
    data, _ = to_sframe(table, 2, section_address=0x4000)
    wrapped_section(tmp_path / "in", data, 0x4000, machine, architecture.byte_order)
    done = run("convert", tmp_path / "in", tmp_path / "out", "--to", "sframe", "--section", "--sframe-version", "3")
    assert done.returncode == DONE, done.stderr
    assert "at 0x4000 " in done.stderr
    assert by_pc(from_sframe((tmp_path / "out").read_bytes(), 0x4000)) == by_pc(table)


@pytest.mark.oracle
def test_elf_file_there_and_back(tmp_path: Path) -> None:
    program = build_program(tmp_path)
    unwindkit.write_sframe(program, tmp_path / "2")
    for before, after in (("2", "3"), ("3", "2")):
        out = tmp_path / f"{before}to{after}"
        before_path = tmp_path / ("2" if before == "2" else "2to3")
        done = run("convert", before_path, out, "--to", "sframe", "--sframe-version", after, "--strict")
        assert done.returncode == DONE, done.stderr
        assert sframe_rows(out).header.version == int(after)
        assert by_pc(read_elf(out, ".sframe")) == by_pc(read_elf(tmp_path / "2", ".sframe"))
        assert out.stat().st_mode == program.stat().st_mode
    assert run("convert", program, tmp_path / "cfi", "--to", "sframe", "--from", "eh_frame").returncode == DONE
    assert len(read_elf(tmp_path / "cfi", ".sframe")) > 0


@pytest.mark.oracle
def test_neighbours_merge_where_the_code_proves_padding(folder: Path) -> None:
    sizes = {}
    for compact in ("share", "merge"):
        arguments = ("--to", "sframe", "--from", "eh_frame", "--section", "--compact", compact)
        assert run("convert", "/bin/ls", folder / compact, *arguments).returncode == DONE
        sizes[compact] = (folder / compact).stat().st_size
    assert sizes["merge"] < 0.8 * sizes["share"]


# --- convert: what goes wrong ---------------------------------------------------------------------------------


def test_convert_of_broken_input(folder: Path) -> None:
    path, to = folder / "in", ("--to", "sframe")
    for data, options, says in (
        (b"", (), ".sframe+0x0: preamble: 0 bytes do not hold a preamble of 4"),
        (b"some text", (), ".sframe+0x0: header.magic: 736f is not 0xdee2"),
        (V2[:40], (), ".sframe+0x0: header.num_fdes: the sub-section ends at 0x30, the section at 0x28"),
        (V2, ("--address", "-1"), ".sframe: address: -0x1 is not a 64-bit address"),
        (V2, ("--arch", "x86_64"), f".sframe: architecture: {KNOWN_FROM_HEADER}"),
        (V2, ("--to-address", "0x200000000"), f".sframe: FDE[0].func_start_address: 0x1000 {FAR} 0x200000000"),
        (bytes(tiny_elf()), (), ".sframe: the file has no such section"),
        (bytes(tiny_elf()), ("--arch", "x86_64"), f"architecture: {KNOWN_FROM_ELF}"),
        (bytes(tiny_elf()), ("--address", "1"), f"address: {KNOWN_FROM_ELF}"),
        (bytes(tiny_elf(e_type=ET_REL)), (), ".sframe: the file has no such section"),
        (bytes(tiny_elf(e_type=ET_REL)), ("--section", "--from", "eh_frame"), f"e_type: {RELOCATABLE}"),
        (bytes(tiny_elf(CODE, Content(".sframe", V2[:5]))), (), f".sframe+0x0 (file 0x180): header: {SHORT}"),
        (bytes(tiny_elf(CODE, Content(".sframe", V2))), ("--to-address", "0"), f".sframe: to_address: {CHOSEN}"),
    ):
        path.write_bytes(data)
        refuses(path, "convert", path, folder / "out", *to, *options, says=says)


KNOWN_FROM_HEADER = "is known from the SFrame header: it can be given for call frame information only"
KNOWN_FROM_ELF = "is known from the ELF file: it can be given for a raw section only"
RELOCATABLE = "is a relocatable file: its addresses are not known before the link"
SHORT = "5 bytes do not hold a header of 28"
CHOSEN = "applies to a section written alone"
FAR = "is more than 2 GiB from the section at"


def test_an_old_output_stays_as_it_was(folder: Path) -> None:
    (folder / "v2").write_bytes(V2[:40])
    (folder / "out").write_text("old")
    assert run("convert", folder / "v2", folder / "out", "--to", "sframe").returncode == WRONG
    assert run("merge", folder / "v2", "-o", folder / "out").returncode == WRONG
    assert (folder / "out").read_text() == "old"


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "v2", "out"],
        ["convert", "v2", "--to", "sframe"],
        ["convert", "v2", "v2", "--to", "sframe"],
        ["convert", "v2", "./v2", "--to", "sframe"],
        ["convert", "v2", "out", "--to", "dwarf"],
        ["convert", "v2", "out", "--to", "sframe", "--from", "dwarf"],
        ["convert", "v2", "out", "--to", "sframe", "--sframe-version", "1"],
        ["convert", "v2", "out", "--to", "sframe", "--address", "here"],
        ["merge"],
        ["merge", "v2"],
        ["merge", "-o", "out"],
        ["merge", "v1", "v2", "-o", "v2"],
        ["merge", "v1@0x10", "v2@0x10", "-o", "v1"],
    ],
    ids=" ".join,
)
def test_wrong_usage(folder: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = run(*arguments)
    assert usage_error(done).startswith("unwindkit")
    assert "--in-place" not in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        f"v{n}": data for n, data in VERSIONS.items()
    }


def test_the_library_refuses_a_source_that_is_none(folder: Path) -> None:
    for source in (*(f".{name}" for name in SOURCES), "text"):
        with pytest.raises(BuildError, match="is not one of sframe, eh_frame, debug_frame"):
            unwindkit.convert(folder / "v2", folder / "out", "sframe", source=source)


# --- merge ----------------------------------------------------------------------------------------------------


def test_merge_byte_for_byte(folder: Path) -> None:
    done = run("merge", f"{folder / 'v2'}@0x20", folder / "v2", "-o", folder / "out", "--compact", "share")
    assert (done.returncode, done.stdout) == (DONE, "")
    assert (folder / "out").read_bytes() == octets("""
        e2de 02 05 03 00 f8 00  02000000 02000000 06000000 00000000 28000000
        e40f0000 20000000 00000000 02000000 00 00 0000
        f00f0000 20000000 00000000 02000000 00 00 0000  # 0x1020 from 0x30
        00 03 08  01 03 10
    """)
    assert done.stderr.splitlines() == [
        f"{folder / 'out'}: 2 functions",
        "  .sframe version 2: 74 bytes at 0x0 (2 FDEs, 2 FREs)",
    ]


def test_merge_for_an_address_and_a_version(folder: Path) -> None:
    arguments = ("merge", f"{folder / 'v1'}@4096", f"{folder / 'v3'}@0x3000", "-o", folder / "out")
    assert run(*arguments, "--sframe-version", "3", "--address", "0x9000").returncode == DONE
    data = (folder / "out").read_bytes()
    assert data[2] == 3
    assert [(one.start, one.size) for one in from_sframe(data, 0x9000)] == [(0x2000, 0x20), (0x4000, 0x20)]


def test_merge_of_an_elf_file_and_a_section(folder: Path) -> None:
    wrapped_section(folder / "elf", V2, 0x7000, 62, "little")
    assert run("merge", folder / "elf", f"{folder / 'v2'}@0x7020", "-o", folder / "out").returncode == DONE
    assert [one.start for one in from_sframe((folder / "out").read_bytes())] == [0x8000, 0x8020]


def test_duplicates_are_counted(folder: Path) -> None:
    done = run("merge", folder / "v2", folder / "v2", "-o", folder / "out", "--strict")
    assert done.returncode == DONE
    assert (folder / "out").read_bytes() == V2
    assert done.stderr.splitlines()[-1] == "  duplicates: 1 range, 32 bytes"


def test_contradictions_are_named_and_strict_counts_them(folder: Path) -> None:
    other = folder / "other"
    other.write_bytes(to_sframe(of(*(function(0x1000 + 2 * n, 1, row(0, sp(24 + n), SAVED_RA)) for n in range(16))))[0])
    arguments = ("merge", folder / "v2", other, "-o", folder / "out")
    done = run(*arguments)
    assert done.returncode == DONE
    assert (folder / "out").read_bytes() == V2
    assert done.stderr.splitlines()[2:] == [
        "  conflicts: 16 ranges, 16 bytes",
        *(
            f"    {0x1000 + 2 * n:#x}..{0x1001 + 2 * n:#x}: kept from {folder / 'v2'}, different in {other}"
            for n in range(10)
        ),
    ]
    assert run(*arguments, "--strict").returncode == DIFFERENT


def test_merge_of_what_does_not_go_together(folder: Path) -> None:
    out, v2 = ("-o", folder / "out"), folder / "v2"
    arm = table_of(ARCHITECTURES["aarch64_be"], [])
    (folder / "arm").write_bytes(to_sframe(arm)[0])
    kind = "is aarch64_be, big-endian, that of the first input is x86_64, little-endian"
    refuses(folder / "arm", "merge", v2, folder / "arm", *out, says=f".sframe: architecture: {kind}")
    versions = "the inputs have versions 2 and 3: choose the one to write"
    refuses(folder / "out", "merge", v2, folder / "v3", *out, says=f".sframe: version: {versions}")
    (folder / "cut").write_bytes(V2[:20])
    header = "header: 20 bytes do not hold a header of 28"
    refuses(folder / "cut", "merge", v2, f"{folder / 'cut'}@0x10", *out, says=f".sframe+0x0: {header}")
    refuses(folder / "none", "merge", v2, folder / "none", *out, says="No such file or directory")
    (folder / "elf").write_bytes(tiny_elf(CODE, Content(".sframe", V2)))
    refuses(folder / "elf", "merge", v2, f"{folder / 'elf'}@1", *out, says=f"address: {KNOWN_FROM_ELF}")
    refuses(
        folder / "out",
        "merge",
        folder / "v1",
        *out,
        says=".sframe: version: version 1 cannot be written, expected 2 or 3",
    )


def test_a_name_with_an_at_sign(folder: Path) -> None:
    path = folder / "user@host"
    path.write_bytes(V2)
    assert run("merge", path, f"{path}@0x100", "-o", folder / "out").returncode == DONE
    assert [one.start for one in from_sframe((folder / "out").read_bytes())] == [0x1000, 0x1100]


def test_a_saved_frame_pointer_survives(folder: Path) -> None:
    table = of(function(0x1000, 0x20, row(0, sp(16), at(6, -16), SAVED_RA)))
    (folder / "fp").write_bytes(to_sframe(table, 3)[0])
    assert run("merge", folder / "fp", "-o", folder / "out").returncode == DONE
    assert by_pc(from_sframe((folder / "out").read_bytes())) == by_pc(table)
