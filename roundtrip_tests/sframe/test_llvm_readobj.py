"""LLVM's reader (llvm-readobj 22 of Debian sid) agrees with readelf and the CFI on our V2 sections, entry by entry.

Strategy: real files are written with FREs shared and with neighbours merged; LLVM's text is parsed completely and
compared with readelf's of the same bytes, with the FDEs' fields from our reader, and with the file's own CFI.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unwindkit import read_elf, to_sframe
from unwindkit.converters.sframe.section import sframe_columns
from unwindkit.converters.sframe.write import Compact
from unwindkit.schemas.section import Section

from ..support.handmade import octets
from ..support.judges import referee
from ..support.oracles import OracleError, oracle_command, run_oracle
from ..support.programs.debian_binaries import address_behind, file_of
from ..support.real_files import REAL_FILES
from ..support.texts.llvm_text import LLVM_READOBJ, SUITE, LlvmSframe, llvm_sframe, parse_llvm_sframe
from ..support.texts.readelf_text import FrameRows, SframeRows, frame_rows
from ..support.wrapped import rows_of_bytes, wrapped_section

pytestmark = pytest.mark.oracle(SUITE)
MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine; LLVM does not interpret s390x's words


def cases() -> list[Any]:
    sid = [("sid-amd64", "libc6"), *(("sid-arm64", name) for name in ("libc6", "libstdc++6", "perl-base"))]
    marked = [pytest.param(found, id="-".join(found), marks=pytest.mark.oracle(found[0])) for found in sid]
    return [pytest.param(Path(path), id=Path(path).name) for path in REAL_FILES] + marked


@pytest.mark.parametrize("compact", ["share", "merge"])
@pytest.mark.parametrize("file", cases())
def test_every_fde_and_fre_is_read_alike(file: Path | tuple[str, str], compact: Compact, tmp_path: Path) -> None:
    path = file if isinstance(file, Path) else file_of(*file)
    table = read_elf(path)
    address = address_behind(table)
    data, _ = to_sframe(table, 2, address, compact)
    by_readelf = rows_of_bytes(tmp_path / "file", data, address, MACHINES[table.architecture.name], "little")
    found = llvm_sframe(tmp_path / "file")
    assert_same_rows(found.rows, by_readelf)
    assert_same_fields(found, data, address)

    frame = frame_rows(path)
    compared = referee.compare(frame, found.rows, between(frame))
    wrong = [one for one in compared.differences if one.kind is not referee.Kind.UNSAYABLE]
    assert not wrong, "\n".join(map(str, wrong[:10]))
    assert compared.bytes_compared > 0.98 * int((frame.end - frame.start).sum())
    assert (2 * found.rows.header.num_fdes < len(frame.start)) == (compact == "merge")


def assert_same_rows(found: SframeRows, expected: SframeRows) -> None:
    for field in fields(SframeRows):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        assert np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs, field.name


def assert_same_fields(found: LlvmSframe, data: bytes, address: int) -> None:
    """What readelf does not show: where the sub-sections and the FREs of each FDE are."""
    columns = sframe_columns(Section(".sframe", memoryview(data), address))
    assert found.fre_len == len(columns.fres)
    assert 28 + found.freoff == columns.fres_offset
    assert found.fdeoff == 0
    assert np.array_equal(found.fre_offset, columns.fre_offset)
    assert np.array_equal(found.num_fres, columns.num_fres)
    assert len(set(found.fre_offset.tolist())) < len(found.fre_offset), "some are shared"


def between(frame: FrameRows) -> list[tuple[int, int]]:
    """The gaps between functions, where any rule is allowed."""
    order = np.argsort(frame.start)
    ends, starts = np.maximum.accumulate(frame.end[order])[:-1].tolist(), frame.start[order][1:].tolist()
    return [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]


S390X = octets("""
    dee2 02 05 04 00 00 00  00000001 00000001 00000005 00000000 00000014
    00000fe4 00000004 00000000 00000001 00 00 0000
    00 07 14 d0 21   # CFA r15+320, RA at CFA-48, FP in f0
""")
# Two rows of a function of 4 bytes at 0x1000, and the output of llvm-readobj-22 --sframe (22.1.8) for them.
SECTION = octets("""
    e2de 02 05 03 00 f8 00  01000000 02000000 07000000 00000000 14000000
    e40f0000 04000000 00000000 02000000 00 00 0000
    00 03 08  01 04 10 f0
""")
TEXT = """
File: section
Format: elf64-x86-64
Arch: x86_64
AddressSize: 64bit
LoadName: <Not found>
SFrame section '.sframe' {
  Header {
    Magic: 0xDEE2
    Version: V2 (0x2)
    Flags [ (0x5)
      FDEFuncStartPCRel (0x4)
      FDESorted (0x1)
    ]
    ABI: AMD64EndianLittle (0x3)
    CFA fixed FP offset (unused): 0
    CFA fixed RA offset: -8
    Auxiliary header length: 0
    Num FDEs: 1
    Num FREs: 2
    FRE subsection length: 7
    FDE subsection offset: 0
    FRE subsection offset: 20
    Auxiliary header: []
  }
  Function Index [
    FuncDescEntry [0] {
      PC: 0x1000
      Size: 0x4
      Start FRE Offset: 0x0
      Num FREs: 2
      Info {
        FRE Type: Addr1 (0x0)
        FDE Type: PCInc (0x0)
        Raw: 0x0
      }
      Repetitive block size (unused): 0x0
      Padding2: 0x0
      FREs [
        Frame Row Entry {
          Start Address: 0x1000
          Return Address Signed: No
          Offset Size: B1 (0x0)
          Base Register: SP (0x1)
          CFA Offset: 8
          RA Offset: -8
        }
        Frame Row Entry {
          Start Address: 0x1001
          Return Address Signed: No
          Offset Size: B1 (0x0)
          Base Register: FP (0x0)
          CFA Offset: 16
          RA Offset: -8
          FP Offset: -16
        }
      ]
    }
  ]
}
"""


def test_the_text_of_a_section_made_by_hand_is_taken_apart_whole(tmp_path: Path) -> None:
    wrapped_section(tmp_path / "section", SECTION, 0, MACHINES["x86_64"], "little")
    said = run_oracle(LLVM_READOBJ, "--sframe", tmp_path / "section", suite=SUITE)
    assert said.replace(str(tmp_path / "section"), "section") == TEXT
    found = parse_llvm_sframe(TEXT)
    assert found.rows.pc.tolist() == [0x1000, 0x1001]
    assert [str(found.rows.texts[number]) for number in found.rows.text] == ["sp+8 u f", "fp+16 c-16 f"]
    assert (found.rows.start.tolist(), found.rows.end.tolist()) == ([0x1000], [0x1004])
    for unknown in (
        "          FP Offset: -16\n",
        "      Padding2: 0x0\n",
        "Start Address: 0x1000",
        "    Num FDEs: 1\n",
    ):
        with pytest.raises(OracleError):
            parse_llvm_sframe(TEXT.replace(unknown, unknown.replace("0", "?").replace("1", "?")))
    for missing in (
        TEXT[TEXT.index("        Frame") : TEXT.index("      ]\n    }")],
        TEXT[TEXT.index("    Func") : -7],
    ):
        with pytest.raises(OracleError):
            parse_llvm_sframe(TEXT.replace(missing, ""))


def test_faults_of_llvm_readobj(tmp_path: Path) -> None:
    """docs/formats/sframe.md lists them; remove one there once LLVM has fixed it."""
    section = tmp_path / "section"
    wrapped_section(section, SECTION, 0, MACHINES["x86_64"], "little")
    said = run_oracle(LLVM_READOBJ, "--sframe", "--elf-output-style=JSON", section, suite=SUITE)
    assert '"Repetitive block size (unused)":0Padding2: 0x0\n,"FREs":' in said
    with pytest.raises(json.JSONDecodeError):
        json.loads(said)
    # Version 3 is not read; that is only a warning: exit 0.
    wrapped_section(section, SECTION[:2] + b"\3" + SECTION[3:], 0, MACHINES["x86_64"], "little")
    done = subprocess.run([*oracle_command(LLVM_READOBJ, SUITE), "--sframe", section], capture_output=True, check=False)
    assert done.returncode == 0
    assert b"unsupported version number (3)" in done.stderr
    with pytest.raises(OracleError, match="no section of version 2"):
        llvm_sframe(section)
    # s390x: the words as they are stored, (320 - 160) / 8, and (16 << 1) | 1 for f0.
    wrapped_section(section, S390X, 0, 22, "big")
    said = run_oracle(LLVM_READOBJ, "--sframe", section, suite=SUITE)
    assert "    ABI: 0x4\n" in said
    assert "          CFA Offset: 20\n          RA Offset: -48\n          FP Offset: 33\n" in said
