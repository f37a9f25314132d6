"""Flags of the SFrame header that are written on request, and what a conversion leaves out: each is told.

Strategy: sections are packed by hand; readelf 2.44, which knows no PC-relative starts, and 2.47 are the oracles.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from unwindkit import (
    ARCHITECTURES,
    BuildError,
    Function,
    by_pc,
    convert,
    find_fres,
    from_sframe,
    merge_sframe,
    read_elf,
    table_of,
    to_sframe,
    write_sframe,
)

from ..support.commands import DONE, WRONG, unwindkit
from ..support.handmade import at, octets, row, sp
from ..support.made.made_sframe import PCREL, SORTED, Fde, fre, section, sframes
from ..support.oracles import run_oracle
from ..support.programs import compiled

FRAME_POINTER = 2
LS = Path("/bin/ls")

# Two functions, at 0x1000 and 0x2000, for a section at 0x800. Without PCREL a start is relative to the section.
TWO = [Function(start, 16, (row(0, sp(8 + start // 512), at(16, -8)),), return_column=16) for start in (0x1000, 0x2000)]
SECTION = octets("""
    e2de 02 01          # 0: magic, version 2, flags: FDE_SORTED alone
    03 00 f8 00         # 4: AMD64, no fixed FP offset, RA at CFA - 8, no auxiliary header
    02000000 02000000   # 8: FDEs, FREs
    06000000            # 16: bytes of FREs
    00000000 28000000   # 20: offsets of FDEs and FREs
    00080000 10000000 00000000 01000000 00 00 0000   # 28: 0x1000 - 0x800, 16 bytes
    00180000 10000000 03000000 01000000 00 00 0000   # 48: 0x2000 - 0x800
    00 03 10            # 68: at 0: CFA = SP + 16
    00 03 18            # 71: at 0: CFA = SP + 24
""")


def test_starts_relative_to_the_section() -> None:
    table = table_of(ARCHITECTURES["x86_64"], TWO)
    assert to_sframe(table, section_address=0x800, pcrel=False)[0] == SECTION
    assert [one.start for one in from_sframe(SECTION, 0x800)] == [0x1000, 0x2000]
    assert find_fres(SECTION, [0x1000, 0x2008], 0x800).fres.words[:, 0].tolist() == [16, 24]


@pytest.mark.parametrize("compact", ["none", "share", "merge"])
def test_both_kinds_of_starts_give_the_same_rows(compact: str) -> None:
    table = read_elf(LS)
    for address in (0, 0x26688, 0x7FFF0000):
        absolute, relative = (
            to_sframe(table, section_address=address, compact=compact, pcrel=pcrel)[0] for pcrel in (False, True)
        )
        assert (absolute[3], relative[3], absolute[:3], len(absolute)) == (SORTED, 5, relative[:3], len(relative))
        one, other = (by_pc(from_sframe(data, address)) for data in (absolute, relative))
        assert one == other


def test_a_start_too_far_from_the_section() -> None:
    table = table_of(ARCHITECTURES["x86_64"], TWO)
    address = 0x2000 + (1 << 31)
    assert to_sframe(table, section_address=address - 0x1000, pcrel=False)[0][28:32] == octets("00000080")
    with pytest.raises(BuildError, match=r"FDE\[0\]\.func_start_address: 0x1000 is more than 2 GiB from the section"):
        to_sframe(table, section_address=address, pcrel=False)


def test_frame_pointer_is_set_on_request() -> None:
    table = table_of(ARCHITECTURES["x86_64"], TWO)
    flags = {to_sframe(table, pcrel=pcrel, frame_pointer=True)[0][3] for pcrel in (False, True)}
    assert flags == {SORTED | FRAME_POINTER, SORTED | FRAME_POINTER | PCREL}


@pytest.mark.parametrize(("name", "value"), [("pcrel", False), ("frame_pointer", True)])
def test_only_version_2_has_a_choice(name: str, value: bool) -> None:
    with pytest.raises(BuildError, match=rf"^\.sframe: {name}: has no choice in version 3, only in version 2$"):
        to_sframe(table_of(ARCHITECTURES["x86_64"], TWO), version=3, **{name: value})
    for to in ("eh_frame", "breakpad"):
        with pytest.raises(BuildError, match=f"{name}: applies to SFrame only"):
            convert(LS, "unwritten", to, **{name: value})
    with pytest.raises(BuildError, match=f"{name}: does not apply to debug_line"):
        convert(LS, "unwritten", "debug_line", **{name: value})


def test_a_relocatable_file_has_no_other_starts(tmp_path: Path) -> None:
    compiled.require()
    (tmp_path / "a.c").write_text("int f(void) { return 0; }\n")
    subprocess.run(["gcc", "-c", "-fasynchronous-unwind-tables", "a.c"], cwd=tmp_path, check=True)
    with pytest.raises(BuildError, match="pcrel: starts in a relocatable file are relative to their own fields"):
        write_sframe(tmp_path / "a.o", tmp_path / "b.o", pcrel=False)
    write_sframe(tmp_path / "a.o", tmp_path / "b.o", frame_pointer=True)
    done = subprocess.run(["objcopy", "-O", "binary", "-j", ".sframe", "b.o", "raw"], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / "raw").read_bytes()[3] == FRAME_POINTER | PCREL


# --- readelf -------------------------------------------------------------------------------------------------


@pytest.mark.oracle("trixie", "forky")
def test_readelf_before_errata_1_reads_starts_relative_to_the_section(tmp_path: Path) -> None:
    """Debian trixie has binutils 2.44."""
    write_sframe(LS, tmp_path / "absolute", pcrel=False, compact="none")
    write_sframe(LS, tmp_path / "relative", compact="none")
    by_244, by_247, relative = (
        run_oracle("readelf", "-wN", "--sframe", tmp_path / name, suite=suite).partition("Function Index :")[2]
        for suite, name in (("trixie", "absolute"), ("forky", "absolute"), ("forky", "relative"))
    )
    assert len(re.findall("func idx", by_247)) > 300
    assert by_247 == relative
    assert by_244.split() == by_247.split()


# --- what is left out ----------------------------------------------------------------------------------------

# A section with everything that a table has no place for, and the sentences about it.
RICH = section(
    Fde(0x1000, 16, (fre(0, 8, -16), fre(1, 16, -16, 5), fre(2, 24, -16, 5, 6, 7))),
    flags=FRAME_POINTER,
    auxiliary=b"abc",
)
FLAG = "the flag FRAME_POINTER of .sframe is left out (--frame-pointer writes it)"
OTHERS = (
    "the auxiliary header of .sframe (3 bytes) is left out",
    "offsets after CFA, RA and FP in 2 FREs of .sframe are left out",
)


def test_convert_and_merge_tell_what_they_leave_out(tmp_path: Path) -> None:
    (tmp_path / "rich").write_bytes(RICH)
    converted = convert(tmp_path / "rich", tmp_path / "out", "sframe")
    assert converted.warnings == (FLAG, *OTHERS)
    kept = convert(tmp_path / "rich", tmp_path / "out", "sframe", frame_pointer=True)
    assert kept.warnings == OTHERS
    assert (tmp_path / "out").read_bytes()[3] == SORTED | FRAME_POINTER | PCREL
    assert convert(tmp_path / "out", tmp_path / "plain", "sframe").warnings == (FLAG,)
    assert convert(tmp_path / "plain", tmp_path / "again", "sframe").warnings == ()
    merged = merge_sframe([tmp_path / "plain", tmp_path / "rich"], tmp_path / "merged")
    assert merged.warnings == tuple(f"{tmp_path / 'rich'}: {one}" for one in (FLAG, *OTHERS))


def test_sframe_tells_what_of_the_replaced_section_is_left_out(tmp_path: Path) -> None:
    assert write_sframe(LS, tmp_path / "one", frame_pointer=True).warnings == ()
    assert write_sframe(tmp_path / "one", tmp_path / "two").warnings == (FLAG,)
    assert write_sframe(tmp_path / "one", tmp_path / "two", frame_pointer=True).warnings == ()


def test_the_commands_have_the_options_and_print_the_warnings(tmp_path: Path) -> None:
    options = ("--no-pcrel", "--frame-pointer")
    raw = tmp_path / "raw"
    done = unwindkit("sframe", LS, "--section", raw, *options)
    assert (done.returncode, raw.read_bytes()[3]) == (DONE, SORTED | FRAME_POINTER)
    for command in (
        ("convert", raw, tmp_path / "out", "--from", "sframe", "--to", "sframe"),
        ("merge", raw, "-o", tmp_path / "out"),
    ):
        done = unwindkit(*command)
        assert (done.returncode, (tmp_path / "out").read_bytes()[3]) == (DONE, SORTED | PCREL)
        assert done.stderr.count(FLAG) == 1
        done = unwindkit(*command, *options)
        assert (done.returncode, (tmp_path / "out").read_bytes()[3]) == (DONE, SORTED | FRAME_POINTER)
        assert "warning" not in done.stderr
    (tmp_path / "rich").write_bytes(RICH)
    done = unwindkit("convert", tmp_path / "rich", tmp_path / "out", "--from", "sframe", "--to", "eh_frame")
    warnings = "".join(f"unwindkit: {tmp_path / 'rich'}: warning: {one}\n" for one in (FLAG, *OTHERS))
    assert done.stderr.endswith(warnings)
    for to in ("eh_frame", "debug_line"):
        for option in options:
            assert unwindkit("convert", LS, tmp_path / "no", "--to", to, option).returncode == WRONG


def test_dump_shows_what_a_table_has_no_place_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(sframes(RICH))
    (found,) = json.loads(unwindkit("dump", "--sframe", "--json", tmp_path / "file").stdout)
    assert (found["flags"], found["auxiliary_header"]) == (["FRAME_POINTER"], "616263")
    (fde,) = found["functions"] if "functions" in found else found["fdes"]
    assert [one.get("further_words", []) for one in fde["fres"]] == [[], [5], [5, 6, 7]]
