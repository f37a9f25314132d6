"""Where `unwindkit dump --sframe` differs from readelf 2.47: each difference listed in docs/commands/dump.md.

Strategy: what readelf refuses is compared with its dump of the same functions in a section that it accepts; what we
refuse is reported with its place and reason.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from unwindkit.schemas.sframe import FdeInfo
from unwindkit.schemas.sframe_abi import SFRAME_ABI

from ..support.binutils import SFRAME, V1, V3, chosen, gcc
from ..support.commands import DONE, WRONG, refuses, unwindkit
from ..support.made.made_sframe import (
    ONE,
    PCREL,
    S390X,
    SORTED,
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
from ..support.oracles import OracleError
from ..support.tiny_elf import CODE, ET_REL, NOBITS, Content, tiny_elf

pytestmark = pytest.mark.oracle
BAD = "SFrame decode failure: Buffer does not contain SFrame data"
GOOD = section(ONE)


# --- both print ------------------------------------------------------------------------------------------------


def test_pc_relative_starts_count_from_where_the_fde_is(tmp_path: Path) -> None:
    """libsframe assumes FDE i at 28 + 20 i, ignoring fdeoff: its functions start 4 bytes too low."""
    path = shown(tmp_path / "file", section(ONE, ONE, gap=b"abcd", flags=PCREL))
    ours = by_us(path)
    assert re.findall(r"pc = (\w+)", ours) == [f"{0x10000 + 28 + 4 + 0x1000 + 20 * index:#x}" for index in range(2)]
    lower = re.sub(r"(?m)(pc = 0x|^    0{11})(\w{5})", lambda found: f"{found[1]}{int(found[2], 16) - 4:x}", ours)
    assert by_readelf(path) == lower != ours


@pytest.mark.parametrize("abi", SFRAME_ABI, ids=lambda abi: abi.name)
@pytest.mark.parametrize("key", [0, 1])
def test_bit_7_of_an_fde_has_no_meaning_in_version_2(abi: SFRAME_ABI, key: int, tmp_path: Path) -> None:
    """It is V3's mark of a signal frame, which readelf prints for any version."""
    path = shown(tmp_path / "file", section(replace(ONE, info=FdeInfo(2, key, 0, 0)), abi=abi))
    theirs = by_readelf(path)
    assert theirs.count(', attr = "S"') == 1
    assert by_us(path) == theirs.replace(', attr = "S"', "")


def test_s390x_cfa_offset_beyond_32_bits(tmp_path: Path) -> None:
    """0xfffffec words of 8 bytes, and 160: libsframe counts them in 32 bits."""
    path = shown(tmp_path / "file", section(Fde(0x1000, 16, (fre(0, 0xFFFFFEC, size=2),)), abi=S390X), S390X)
    ours = by_us(path)
    assert "  sp+2147483648u " in ours
    assert by_readelf(path) == ours.replace("sp+2147483648", "sp+-2147483648")


# --- readelf refuses, or fails ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "lines"), [(8, "8"), (SORTED | 0x80, "SFRAME_F_FDE_SORTED,\n           128"), (0xF0, "240")]
)
def test_flags_without_a_name(flags: int, lines: str, tmp_path: Path) -> None:
    path = shown(tmp_path / "file", section(ONE, flags=flags))
    with pytest.raises(OracleError, match=BAD):
        by_readelf(path)
    assert by_us(path) == by_readelf(shown(path, GOOD)).replace("Flags: NONE", f"Flags: {lines}")


@pytest.mark.parametrize("count", [4, 6, 7, 15])
def test_offsets_after_those_with_a_meaning(count: int, tmp_path: Path) -> None:
    """V2 allows 15. libsframe expects no more than the 6 words of a FLEX FRE, and gives up at the first longer one."""
    path = shown(tmp_path / "file", section(Fde(0x1000, 16, (fre(0, 8, -16, *range(count - 2)), fre(4, 16)))))
    theirs = by_readelf(path)
    ours = by_us(path)
    assert ours == by_readelf(shown(path, section(Fde(0x1000, 16, (fre(0, 8, -16), fre(4, 16))))))
    assert (theirs == ours) == (count <= 6)
    assert ("RA undefined" in theirs) == (count > 6)


def test_auxiliary_header_in_the_other_byte_order(tmp_path: Path) -> None:
    path = shown(tmp_path / "file", section(ONE, abi=S390X, auxiliary=b"abcd"), S390X)
    with pytest.raises(OracleError, match=BAD):
        by_readelf(path)
    assert by_us(path) == by_readelf(shown(path, section(ONE, abi=S390X), S390X))


def test_shared_fres_in_the_other_byte_order(tmp_path: Path) -> None:
    path = shown(tmp_path / "file", section(ONE, TWICE, abi=S390X, num_fres=4), S390X)
    with pytest.raises(OracleError, match=BAD):
        by_readelf(path)
    copied = section(ONE, replace(ONE, start=TWICE.start), abi=S390X)
    assert by_us(path) == by_readelf(shown(path, copied, S390X))


@pytest.mark.parametrize("info", [FdeInfo(0, 0, 0, 0), masked()], ids=["PCINC", "PCMASK"])
def test_fre_behind_its_function(info: FdeInfo, tmp_path: Path) -> None:
    # A function whose size is no multiple of its block may end before a row of the block.
    long = replace(ONE, info=info, repetition=16)
    path = shown(tmp_path / "file", section(replace(long, size=3)))
    with pytest.raises(OracleError, match=r"readelf ended with -6: .*fre_start_addr <= fdep->func_size"):
        by_readelf(path)
    assert by_us(path) == by_readelf(shown(path, section(long))).replace("size = 16 ", "size = 3 ")


def test_version_1(tmp_path: Path) -> None:
    """Like version 2: test_command_dump.py compares it with that, and with readelf 2.40."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    gcc(tmp_path, *chosen(tmp_path, V1), SFRAME, "main.c", "-o", "main")
    with pytest.raises(OracleError, match=BAD):
        by_readelf(tmp_path / "main")
    done = unwindkit("dump", "--sframe", tmp_path / "main")
    assert (done.returncode, done.stderr) == (DONE, "")
    assert "    Version: SFRAME_VERSION_1\n    Flags: SFRAME_F_FDE_SORTED\n" in done.stdout


# --- we refuse ----------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[bytes, str]] = {
    "an ABI that is not known": (
        GOOD[:4] + b"\x05" + GOOD[5:],
        ".sframe+0x4 (file 0x184): header.abi_arch: unknown ABI 5",
    ),
    "FREs past the section's end": (
        GOOD[:-1],
        ".sframe+0x0 (file 0x180): header.fre_len: the sub-section ends at 0x37, the section at 0x36",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_readelf_makes_something_of_and_we_refuse(name: str, tmp_path: Path) -> None:
    data, says = REFUSED[name]
    path = tmp_path / "file"
    path.write_bytes(sframes(data))
    assert "func idx [0]: pc = 0x2080" in by_readelf(path)
    refuses(path, "dump", "--sframe", path, says=says)
    refuses(path, "dump", "--sframe", "--json", path, says=says)


def test_version_3_is_printed_as_readelf_prints_it(tmp_path: Path) -> None:
    path = tmp_path / "main"
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    gcc(tmp_path, *chosen(tmp_path, V3), SFRAME, "main.c", "-o", "main")
    assert "SFRAME_VERSION_3" in by_readelf(path)
    done = unwindkit("dump", "--sframe", path)
    assert (done.returncode, done.stdout) == (DONE, by_readelf(path))


def test_relocatable_file(tmp_path: Path) -> None:
    """The starts are relocated: offsets in the sections of the functions."""
    path = tmp_path / "main.o"
    (tmp_path / "main.c").write_text("int f(void) { return 1; }\nint main(void) { return f(); }\n")
    gcc(tmp_path, SFRAME, *chosen(tmp_path, V3), "-c", "main.c")
    done = unwindkit("dump", "--sframe", path)
    assert (done.returncode, done.stdout, done.stdout.count("func idx")) == (DONE, by_readelf(path), 2)
    # Its sections are at 0, whatever their headers have.
    path.write_bytes(sframes(GOOD, e_type=ET_REL))
    assert "func idx [0]: pc = 0x2080" in by_readelf(path)
    assert "func idx [0]: pc = 0x1000" in unwindkit("dump", "--sframe", path).stdout


def test_file_without_the_section(tmp_path: Path) -> None:
    """readelf warns, and exits with 0."""
    path = tmp_path / "file"
    path.write_bytes(tiny_elf())
    assert by_readelf(path) == ""
    refuses(path, "dump", "--sframe", path, says=".sframe: the file has no such section")


def test_section_whose_bytes_are_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(tiny_elf(CODE, Content(".sframe", GOOD, NOBITS)))
    assert "readelf ended with 1" in readelf_or_error(path)
    says = ".sframe: sh_type: is NOBITS: this is a separate debug file; the stripped file has the bytes"
    refuses(path, "dump", "--sframe", path, says=says)


def test_broken_section_ends_the_dump(tmp_path: Path) -> None:
    """readelf continues with the next one, and exits with 1."""
    path = tmp_path / "file"
    path.write_bytes(sframes(b"xx", GOOD))
    with pytest.raises(OracleError, match=BAD):
        by_readelf(path)
    says = "preamble: 2 bytes do not hold a preamble of 4"
    refuses(path, "dump", "--sframe", path, says=f".sframe+0x0 (file 0x180): {says}")
    path.write_bytes(sframes(GOOD))
    first = by_readelf(path)
    path.write_bytes(sframes(GOOD, b"xx"))
    done = unwindkit("dump", "--sframe", path)
    assert (done.returncode, done.stdout) == (WRONG, first)
    assert done.stderr == f"unwindkit: {path}: .sframe+0x0 (file 0x1c0): {says}\n"
