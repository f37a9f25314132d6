"""`unwindkit dump --sframe --json`: the content of the text, under the specification's names; and dumps as commands.

Strategy: the text, which other tests compare with readelf's, and the JSON are both parsed and compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import write_sframe
from unwindkit.jobs.dump import SFRAME_SECTIONS, dump_json
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.sframe import SFRAME_VERSION, FdeInfo
from unwindkit.schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS
from unwindkit.schemas.strategies import valid_sframe_sections

from ..conftest import fewer
from ..support.commands import DONE, NOT_ELF, refuses, unwindkit, usage_error
from ..support.made.made_sframe import (
    AARCH64,
    ADDRESS,
    AMD64,
    ONE,
    PCREL,
    S390X,
    SORTED,
    Fde,
    by_us,
    fre,
    masked,
    section,
    sframes,
    shown,
)
from ..support.real_files import REAL_FILES
from ..support.texts.readelf_text import parse_sframe_rows
from ..support.tiny_elf import tiny_elf

# A function in both: start, end, block, key, and its rows: PC (PCMASK: from the block), CFA, FP, RA.
Said = list[tuple[int, int, int, str, list[tuple[int, str, str, str]]]]


def said_by_text(text: str, data: bytes) -> Said:
    rows = parse_sframe_rows(text, data)
    found: Said = []
    for index, (start, end) in enumerate(zip(rows.start.tolist(), rows.end.tolist(), strict=True)):
        here = slice(rows.first_row[index], rows.first_row[index + 1])
        texts = (rows.texts[number] for number in rows.text[here].tolist())
        said = [(pc, t.cfa, t.fp, t.ra) for pc, t in zip(rows.pc[here].tolist(), texts, strict=True)]
        found.append((start, end, int(rows.repetition_block[index]), rows.attributes[index], said))
    return found


def said_by_json(found: dict[str, Any]) -> Said:
    """In the text's notation: `f` where the header fixes the RA."""
    fixed = found["cfa_fixed_ra_offset"]
    result: Said = []
    for function in found["functions"]:
        start, is_masked = function["func_start_address"], function["fdetype"] == "PCMASK"
        rows = []
        for one in function["fres"]:
            pc = one["start_address"] + (0 if is_masked else start)
            if one["cfa"] is None:
                rows.append((pc, "", "", "undefined"))
                continue
            assert not fixed or one["ra"] == {"offset": fixed}
            ra = ("f" if fixed else slot(one["ra"])) + "[s]" * one["mangled_ra"]
            rows.append((pc, f"{one['cfa']['register']}{one['cfa']['offset']:+}", slot(one["fp"]), ra))
        block = function["func_rep_size"] if is_masked else 0
        has_key = found["abi_arch"].startswith("AARCH64") and function["pauth_key"] == "B"
        result.append((start, start + function["func_size"], block, "B" * has_key, rows))
    return result


def slot(found: dict[str, int] | None) -> str:
    match found:
        case None:
            return "u"
        case {"register": register}:
            return f"r{register}"
    return f"c{found['offset']:+d}"


def plain(path: Path) -> list[dict[str, Any]]:
    """What the command prints, without a process."""
    sections = dump_json(path, SFRAME_SECTIONS)
    return [json.loads(json.dumps(fields | {name: list(parts)})) for fields, name, parts in sections]


@pytest.mark.parametrize("abi", SFRAME_ABI, ids=lambda abi: abi.name)
@fewer(10)
@given(data=st.data())
def test_any_section_says_the_same_in_both(abi: SFRAME_ABI, data: st.DataObject, tmp_path: Path) -> None:
    record = data.draw(valid_sframe_sections(SFRAME_VERSION.V2, abi, plain=True))
    raw = engine.build(record, SFRAME_ABIS[abi].byte_order)
    path = shown(tmp_path / "file", raw, abi)
    (found,) = plain(path)
    assert said_by_json(found) == said_by_text(by_us(path), raw)
    flags = [
        name for bit, name in enumerate(("FDE_SORTED", "FRAME_POINTER", "FDE_FUNC_START_PCREL")) if raw[3] >> bit & 1
    ]
    assert (found["flags"], found["abi_arch"], found["version"]) == (flags, abi.name, 2)
    numbers = [field.name for field in fields(sframe.Header) if field.name not in ("flags", "abi_arch")]
    assert {name: found[name] for name in numbers} == {name: getattr(record.header, name) for name in numbers}


SECTIONS = {
    "registers in slots": (
        S390X,
        section(Fde(0x1000, 16, (fre(0, 0), fre(1, 0, 0x21, 0x23), fre(2, 0, -40, -7))), abi=S390X),
    ),
    "signed, key B": (
        AARCH64,
        section(Fde(0x1000, 16, (fre(0, 8, -8, -16, signed=1), fre(1, 8, signed=1)), FdeInfo(0, 1, 0, 1)), abi=AARCH64),
    ),
    "undefined RA": (AMD64, section(Fde(0x1000, 16, (fre(0), fre(4, 16, -16))))),
    "fixed FP": (AMD64, section(ONE, cfa_fixed_fp_offset=-32)),
    "PCMASK": (AMD64, section(Fde(0x1000, 64, (fre(0, 8), fre(11, 16)), masked(), 16))),
    "4 GiB": (AMD64, section(Fde(-0x1000, 0xFFFFFFFF, (fre(0, -(1 << 31), size=2),)))),
    "no FDEs": (AMD64, section(flags=SORTED | PCREL)),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_section_made_by_hand_says_the_same_in_both(name: str, tmp_path: Path) -> None:
    abi, data = SECTIONS[name]
    path = shown(tmp_path / "file", data, abi)
    (found,) = plain(path)
    assert said_by_json(found) == said_by_text(by_us(path), data)
    assert found["address"] == ADDRESS


def test_as_printed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(sframes(section(ONE, flags=PCREL), section()))
    done = unwindkit("dump", "--sframe", "--json", path)
    assert (done.returncode, done.stderr) == (DONE, "")
    first, second = json.loads(done.stdout)
    header = {
        "section": ".sframe", "address": 0x1080, "magic": 0xDEE2, "version": 2, "flags": ["FDE_FUNC_START_PCREL"],
        "abi_arch": "AMD64_ENDIAN_LITTLE", "cfa_fixed_fp_offset": 0, "cfa_fixed_ra_offset": -8, "auxhdr_len": 0,
        "num_fdes": 1, "num_fres": 2, "fre_len": 7, "fdeoff": 0, "freoff": 20,
    }  # fmt: skip
    row = {"fp": None, "ra": {"offset": -8}, "mangled_ra": False}
    function = {
        "func_start_address": 0x1080 + 28 + 0x1000, "func_size": 16, "fretype": "ADDR1", "fdetype": "PCINC",
        "pauth_key": "A", "func_rep_size": 0,
        "fres": [
            row | {"start_address": 0, "cfa": {"register": "sp", "offset": 8}},
            row | {"start_address": 4, "cfa": {"register": "sp", "offset": 16}, "fp": {"offset": -16}},
        ],
    }  # fmt: skip
    assert first == header | {"functions": [function]}
    none = dict.fromkeys(("num_fdes", "num_fres", "fre_len", "freoff"), 0) | {"flags": [], "functions": []}
    assert second == header | none | {"address": 0x10C0}


def test_names_are_the_specification_s(tmp_path: Path) -> None:
    """The summaries in the declarations, from which the manual's tables of fields are made."""
    (found,) = plain(shown(tmp_path / "file", section(ONE)))
    assert set(found) == {field.name for field in fields(sframe.Header)} | {"section", "address", "functions"}
    of_fdes = {field.name for record in (sframe.FuncDescEntry, FdeInfo) for field in fields(record)}
    assert set(found["functions"][0]) - of_fdes == {"fres"}
    assert of_fdes - set(found["functions"][0]) == {
        "func_start_fre_off", "func_num_fres", "func_info", "func_padding2", "unused"
    }  # fmt: skip


@pytest.mark.parametrize("path", [path for path in REAL_FILES if "stdc++" in path or "bash" in path], ids=str)
def test_large_files(path: str, tmp_path: Path) -> None:
    report = write_sframe(path, tmp_path / "file")
    (found,) = json.loads(unwindkit("dump", "--sframe", "--json", tmp_path / "file").stdout)
    assert len(found["functions"]) == found["num_fdes"] == report.fdes
    with (tmp_path / "file").open("rb") as file:
        data = ELFFile(file).get_section_by_name(".sframe").data()
    assert said_by_json(found) == said_by_text(by_us(tmp_path / "file"), data)


def test_empty_section(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(sframes(b"", section(ONE)))
    done = unwindkit("dump", "--sframe", "--json", path)
    assert done.returncode == DONE
    assert [len(one["functions"]) for one in json.loads(done.stdout)] == [0, 1]


def test_flags_without_a_name(tmp_path: Path) -> None:
    (found,) = plain(shown(tmp_path / "file", section(ONE, flags=SORTED | 0x80)))
    assert found["flags"] not in ([], ["FDE_SORTED"])


# --- as commands ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [[], ["--json"], ["--sframe"], ["--no-such", "FILE"], ["--sframe", "FILE", "FILE"]]
)
def test_wrong_usage(arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(sframes(section(ONE)))
    done = unwindkit("dump", *(path if one == "FILE" else one for one in arguments))
    assert usage_error(done).startswith("unwindkit dump: error: ")


def test_input_that_is_none(tmp_path: Path) -> None:
    for arguments in (["--sframe"], ["--sframe", "--json"]):
        refuses(tmp_path / "none", "dump", *arguments, tmp_path / "none", says="No such file or directory")
        refuses(tmp_path, "dump", *arguments, tmp_path, says="Is a directory")
        (tmp_path / "text").write_text("#!/bin/sh\n")
        refuses(tmp_path / "text", "dump", *arguments, tmp_path / "text", says=NOT_ELF)
        (tmp_path / "without").write_bytes(tiny_elf())
        says = ".sframe: the file has no such section"
        refuses(tmp_path / "without", "dump", *arguments, tmp_path / "without", says=says)


@pytest.mark.parametrize(
    "command", [["dump", "--sframe"], ["dump", "--sframe", "--json"], ["find"], ["find", "--json"]]
)
def test_reader_that_has_seen_enough(command: list[str], tmp_path: Path) -> None:
    """As `| head -1`: no traceback, whatever remained unwritten."""
    path = tmp_path / "file"
    path.write_bytes(sframes(section(*[ONE] * 3000)))
    pcs = [str(0x2080 + index % 16) for index in range(3000)] if "find" in command else []
    process = subprocess.Popen(
        [sys.executable, "-m", "unwindkit", *command, path, *pcs], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()
