"""`unwindkit dump --sframe` prints what `readelf --sframe` of binutils 2.47 prints, byte for byte.

Strategy: real files, Debian's binaries, gas's and hypothesis's sections, and bytes made by hand for what none of these
has; each is dumped by both. For where they differ, see test_dump_differences.py.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import read_elf, to_sframe, write_sframe
from unwindkit.schemas import engine
from unwindkit.schemas.sframe import SFRAME_VERSION, FdeInfo, FuncDescEntry, SframeSection
from unwindkit.schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS
from unwindkit.schemas.strategies import valid_sframe_sections

from ..conftest import fewer
from ..support.binutils import SFRAME, V1, V2, Binutils, chosen
from ..support.commands import DONE, unwindkit
from ..support.made.made_sframe import (
    AARCH64,
    AMD64,
    FRAME_POINTER,
    ONE,
    PCREL,
    S390X,
    SORTED,
    TRACKED,
    TWICE,
    Fde,
    by_readelf,
    by_us,
    fre,
    masked,
    readelf_or_error,
    section,
    sframes,
    shown,
)
from ..support.oracles import SID_FILES
from ..support.programs import compiled
from ..support.programs.debian_binaries import MACHINES, SUITES, address_behind, file_of
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import ET_CORE, PROGBITS
from ..support.wrapped import wrapped_section

oracle = pytest.mark.oracle
EVERY_ABI = pytest.mark.parametrize("abi", SFRAME_ABI, ids=lambda abi: abi.name)

# --- files ----------------------------------------------------------------------------------------------------


@oracle
@pytest.mark.parametrize("compact", ["share", "none"])
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_real_files(path: str, compact: str, tmp_path: Path) -> None:
    report = write_sframe(path, tmp_path / "file", compact=compact)
    done = unwindkit("dump", "--sframe", tmp_path / "file")
    assert (done.returncode, done.stderr) == (DONE, "")
    assert done.stdout == by_readelf(tmp_path / "file")
    assert done.stdout.count("func idx") == report.fdes > 300


@pytest.mark.parametrize("package", SID_FILES)
@pytest.mark.parametrize("suite", SUITES)
def test_debian_binaries(suite: str, package: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    table = read_elf(file_of(suite, package))
    address, order = address_behind(table), table.byte_order
    for compact in ("none", "share") if order == "little" else ("none",):
        data, _ = to_sframe(table, section_address=address, compact=compact)
        wrapped_section(path, data, address, MACHINES[suite], order)
        assert by_us(path) == by_readelf(path)


def gas_wrote(tools: Binutils, folder: Path, name: str) -> Path:
    """A program with `.sframe` by these as and ld."""
    compiled.require()
    (flags,) = (flags for flags in compiled.FLAG_SETS if flags.name == name)
    return compiled.build(folder, replace(flags, flags=(*chosen(folder, tools), SFRAME, *flags.flags)))


@pytest.mark.oracle("trixie")
@pytest.mark.parametrize("name", ["O0", "O2", "static"])
def test_v2_of_gas_2_44(name: str, tmp_path: Path) -> None:
    program = gas_wrote(V2, tmp_path, name)
    text = by_us(program)
    assert text == by_readelf(program)
    assert "Version: SFRAME_VERSION_2\n    Flags: SFRAME_F_FDE_SORTED\n" in text


def test_v1_of_gas_2_40_as_readelf_2_40_but_for_the_fixed_ra_offset(tmp_path: Path) -> None:
    """2.40 prints neither that line of the header nor `f` in the rows."""
    program = gas_wrote(V1, tmp_path, "O2")
    text = by_us(program)
    line = "    CFA fixed RA offset: -8\n"
    assert text.count(line) == 1
    theirs = subprocess.run(["readelf", "--sframe", program], capture_output=True, text=True, check=True).stdout
    assert re.sub(r"(?m)^(    [0-9a-f]{16}  .{20})f", r"\1u", text.replace(line, "")) == theirs
    assert theirs.count("func idx") > 20


# --- sections that hypothesis draws -----------------------------------------------------------------------------


def reaches_past(section: SframeSection) -> bool:
    """Whether an FRE starts after its function's end: there readelf fails an assertion."""
    order = SFRAME_ABIS[SFRAME_ABI(section.header.abi_arch)].byte_order
    for fde in section.fdes:
        width = 1 << fde.func_info.fretype
        at = fde.func_start_fre_off
        for _ in range(fde.func_num_fres):
            info = section.fres[at + width]
            if int.from_bytes(section.fres[at : at + width], order) > fde.func_size:
                return True
            at += width + 1 + (info >> 1 & 15) * (1 << (info >> 5 & 3))
    return False


def agree(path: Path, section: SframeSection, as_readelf_has_it: str) -> None:
    """Compare our dump of the section in `path` with readelf's (an OracleError's text if it failed)."""
    text = by_us(path)
    if reaches_past(section):
        assert "`ifre.fre_start_addr <= fdep->func_size' failed" in as_readelf_has_it
        lines = text.partition("Function Index :\n")[2].splitlines()
        assert len(lines) == 3 * len(section.fdes) + sum(fde.func_num_fres for fde in section.fdes)
    else:
        assert text == as_readelf_has_it


@oracle
@EVERY_ABI
@fewer(10)
@given(data=st.data())
def test_any_section_of_version_2(abi: SFRAME_ABI, data: st.DataObject, tmp_path: Path) -> None:
    section = data.draw(valid_sframe_sections(SFRAME_VERSION.V2, abi, plain=True))
    path = shown(tmp_path / "file", engine.build(section, SFRAME_ABIS[abi].byte_order), abi)
    agree(path, section, readelf_or_error(path))


@oracle
@EVERY_ABI
@fewer(10)
@given(data=st.data())
def test_any_section_of_version_3(abi: SFRAME_ABI, data: st.DataObject, tmp_path: Path) -> None:
    section = data.draw(valid_sframe_sections(SFRAME_VERSION.V3, abi, plain=True))
    path = shown(tmp_path / "file", engine.build(section, SFRAME_ABIS[abi].byte_order), abi)
    by_readelf = readelf_or_error(path)
    # A PCMASK FDE may be shorter than its block; readelf fails on it.
    if "`ifre.fre_start_addr <= fdep->func_size' failed" not in by_readelf:
        assert by_us(path) == by_readelf


@oracle
@EVERY_ABI
@fewer(10)
@given(data=st.data())
def test_any_section_of_version_1_as_the_same_in_version_2(
    abi: SFRAME_ABI, data: st.DataObject, tmp_path: Path
) -> None:
    """readelf 2.47 refuses V1, so it reads the same FDEs as V2 records, with blocks of 16 where they repeat."""
    order = SFRAME_ABIS[abi].byte_order
    section = data.draw(valid_sframe_sections(SFRAME_VERSION.V1, abi, plain=True))
    fdes = tuple(
        FuncDescEntry(
            fde.func_start_address, fde.func_size, fde.func_start_fre_off, fde.func_num_fres, fde.func_info, 16, 0
        )
        for fde in section.fdes
    )
    header = replace(section.header, version=2, freoff=20 * len(fdes))
    in_v2 = shown(tmp_path / "V2", engine.build(replace(section, header=header, fdes=fdes), order), abi)
    expected = readelf_or_error(in_v2).replace("SFRAME_VERSION_2", "SFRAME_VERSION_1")
    agree(shown(tmp_path / "V1", engine.build(section, order), abi), section, expected)


# --- sections made by hand --------------------------------------------------------------------------------------

LONG = 1 << 31
WIDE = (
    fre(0, LONG - 8, -LONG, size=2),
    fre(1, -LONG, LONG - 1, size=2),
    fre(2, 1234567, 1234567, size=2, base=0),
    fre(3, 12345678, 123456, size=2),
)
WIDE_S390X = (fre(0, LONG // 8 - 21, -LONG, size=2), fre(1, -LONG // 8, -LONG, LONG - 2, size=2))
SLOTS = (fre(0, 0), fre(1, 0, 0x21, 0x23), fre(2, 0, -40, 0x23), fre(3, 0, 0x21), fre(4, 0, -7, -1))
PADDED = (fre(0, 0), fre(1, 0, 0, -8), fre(2, 0, 0, 0), fre(3, 0, 0))
SIGNED = (fre(0, 8, -8, -16, signed=1), fre(1, 8, signed=1), fre(2, 8, -8), fre(3, 8, 0, signed=1))
B_KEY = FdeInfo(0, 1, 0, 0)
SAME: dict[str, tuple[SFRAME_ABI, bytes]] = {
    **{f"fixed FP offset, {abi.name}": (abi, section(TRACKED, abi=abi, cfa_fixed_fp_offset=-16)) for abi in SFRAME_ABI},
    "fixed FP and RA offsets": (
        AARCH64,
        section(TRACKED, abi=AARCH64, cfa_fixed_fp_offset=-16, cfa_fixed_ra_offset=-8),
    ),
    "no fixed RA offset on AMD64": (AMD64, section(TRACKED, cfa_fixed_ra_offset=0)),
    "all flags": (AMD64, section(ONE, flags=SORTED | FRAME_POINTER | PCREL)),
    "frame pointer flag": (AMD64, section(ONE, flags=FRAME_POINTER)),
    "FRE without offsets": (AMD64, section(Fde(0x1000, 16, (fre(0, base=0), fre(4, 16))))),
    "FRE without offsets, size 4, signed": (
        AARCH64,
        section(Fde(0x1000, 16, (fre(0, size=2, signed=1), fre(4, 16))), abi=AARCH64),
    ),
    **{f"B key, {abi.name}": (abi, section(replace(ONE, info=B_KEY), abi=abi)) for abi in SFRAME_ABI},
    "signed RA": (AARCH64, section(Fde(0x1000, 16, SIGNED), abi=AARCH64)),
    "signed RA on AMD64": (AMD64, section(Fde(0x1000, 16, SIGNED))),
    "registers in slots": (S390X, section(Fde(0x1000, 16, SLOTS), abi=S390X)),
    "numbers that are registers on s390x alone": (AARCH64, section(Fde(0x1000, 16, SLOTS), abi=AARCH64)),
    "padding RA": (S390X, section(Fde(0x1000, 16, PADDED), abi=S390X)),
    "padding RA on AArch64": (AARCH64, section(Fde(0x1000, 16, PADDED), abi=AARCH64)),
    **{f"size {size:#x}": (AMD64, section(replace(ONE, size=size))) for size in (4, LONG - 1, LONG, 2 * LONG - 1)},
    "no bytes": (AMD64, section(Fde(0x1000, 0, (fre(0, 8),)))),
    "not sorted, flagged as sorted": (AMD64, section(replace(ONE, start=0x2000), ONE, flags=SORTED)),
    "FREs not sorted": (AMD64, section(Fde(0x1000, 16, (fre(4, 8), fre(0, 16), fre(0, 24))))),
    "PCMASK": (AMD64, section(Fde(0x1000, 64, (fre(0, 8), fre(11, 16)), masked(), 16))),
    "PCMASK, wide starts": (AMD64, section(Fde(0x1000, 64, (fre(0, 8), fre(11, 16)), masked(2), 16))),
    "PCMASK without a block": (AMD64, section(Fde(0x1000, 64, (fre(0, 8), fre(11, 16)), masked()))),
    "block without PCMASK": (AMD64, section(replace(ONE, repetition=16))),
    "columns that run together": (AMD64, section(Fde(0x1000, 64, WIDE))),
    "columns that run together on s390x": (S390X, section(Fde(0x1000, 64, WIDE_S390X), abi=S390X)),
    "three offsets on AMD64": (AMD64, section(Fde(0x1000, 16, (fre(0, 8, -16, -24),)))),
    "no FDEs": (AMD64, section()),
    "an FDE without FREs": (AMD64, section(Fde(0x1000, 16), ONE)),
    "num_fres that lies": (AMD64, section(ONE, num_fres=2**32 - 1)),
    "bytes behind": (AMD64, section(ONE, behind=b"xyz")),
    "auxiliary header": (AMD64, section(ONE, ONE, auxiliary=b"abcd", flags=PCREL)),
    "gap before the FDEs, not PC-relative": (AMD64, section(ONE, ONE, gap=b"abcd")),
    "shared FREs": (AMD64, section(ONE, TWICE)),
    "another ABI than the file's": (AMD64, section(ONE, abi=AARCH64)),
    "empty": (AMD64, b""),
}


@oracle
@pytest.mark.parametrize("name", SAME)
def test_section_made_by_hand(name: str, tmp_path: Path) -> None:
    abi, data = SAME[name]
    path = shown(tmp_path / "file", data, abi)
    assert by_us(path) == by_readelf(path)


@oracle
@pytest.mark.parametrize("start", [0x1000, -0x1000, LONG - 1, -LONG])
@pytest.mark.parametrize("address", [0, 0x1000, 0xFFFFFFFF80000000, 0xFFFFFFFFFFFFF000])
def test_any_address(start: int, address: int, tmp_path: Path) -> None:
    wide = Fde(start, 2 * LONG - 1, (fre(0, 8), fre(2 * LONG - 2, 16)), FdeInfo(0, 0, 0, 2))
    path = shown(tmp_path / "file", section(wide, wide, flags=PCREL), address=address)
    assert by_us(path) == by_readelf(path)


OTHER = section(Fde(0x2000, 16, (fre(0, 8),)), flags=SORTED | PCREL)


@oracle
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(sframes(section(ONE), OTHER), id="two"),
        pytest.param(sframes(section(ONE), section(ONE), OTHER, section_type=PROGBITS), id="three of another type"),
        pytest.param(sframes(b"", OTHER), id="empty, then not"),
        pytest.param(sframes(OTHER, b""), id="not, then empty"),
        pytest.param(sframes(OTHER, flags=0), id="not loaded"),
        pytest.param(sframes(OTHER, e_type=ET_CORE), id="in a core file"),
    ],
)
def test_sections_of_a_file(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    done = unwindkit("dump", "--sframe", tmp_path / "file")
    assert (done.returncode, done.stdout, done.stderr) == (DONE, by_readelf(tmp_path / "file"), "")
