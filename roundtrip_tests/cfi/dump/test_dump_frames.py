"""`unwindkit dump --frames` and `--frames-interp` print what `readelf -wNf` and `-wNF` of binutils 2.47 print.

Strategy: files from elsewhere, dumped by both: the machine's libraries, and the C library of every architecture.
Sections made by hand: test_dump_frames_made.py; known differences: test_dump_frames_differences.py.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unwindkit import ParseError
from unwindkit.jobs.dump import CFI_SECTIONS, dump_json

from ...support.commands import DONE, WRONG, unwindkit
from ...support.made.made_frames import agree, by_readelf
from ...support.oracles import FRAME_SUITES, oracle_root, run_oracle
from ...support.real_files import REAL_FILES

oracle = pytest.mark.oracle
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
LARGEST = 3_000_000
SAMPLE = 60


def libraries() -> list[Path]:
    """Those of this machine up to LARGEST bytes; a sample, or all if HYPOTHESIS_PROFILE=long."""
    paths = {path.resolve() for path in LIBRARIES.glob("*.so*") if path.is_file() and path.stat().st_size < LARGEST}
    elf = sorted(path for path in paths if path.open("rb").read(4) == b"\x7fELF")
    if os.environ.get("HYPOTHESIS_PROFILE") == "long" or len(elf) <= SAMPLE:
        return elf
    return random.Random(0).sample(elf, SAMPLE)


@oracle
@pytest.mark.parametrize("part", range(6))
def test_libraries_of_this_machine(part: int) -> None:
    for path in libraries()[part::6]:
        agree(path)


@oracle
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_real_files(path: str) -> None:
    agree(Path(path))


@pytest.mark.parametrize("suite", [pytest.param(suite, marks=oracle(suite)) for suite in FRAME_SUITES])
def test_c_library_of_every_architecture(suite: str) -> None:
    (path,) = {found.resolve() for pattern in FRAME_SUITES[suite] for found in oracle_root(suite).glob(pattern)}
    agree(path)


# --- the command ------------------------------------------------------------------------------------------------


@oracle
@pytest.mark.parametrize(
    ("flags", "option"),
    [
        (["--frames"], "-wNf"),
        (["--frames-interp"], "-wNF"),
        (["--frames", "--frames-interp"], "-wNfF"),
    ],
)
@pytest.mark.parametrize("pure", [False, True])
def test_command(flags: list[str], option: str, pure: bool) -> None:
    done = unwindkit("dump", *flags, REAL_FILES[0], pure=pure)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert done.stdout == run_oracle("readelf", option, REAL_FILES[0])


@oracle
def test_sections_are_in_the_order_of_the_file_whatever_is_asked_for(tmp_path: Path) -> None:
    from unwindkit import write_sframe

    write_sframe(REAL_FILES[0], tmp_path / "file")
    done = unwindkit("dump", "--sframe", "--frames-interp", tmp_path / "file")
    assert done.stdout == run_oracle("readelf", "-wNF", "--sframe", tmp_path / "file")
    assert re.findall("Contents of the (.*) section", done.stdout) == [".eh_frame_hdr", ".eh_frame", "SFrame"]


def test_without_such_sections(tmp_path: Path) -> None:
    from ...support.tiny_elf import CODE, tiny_elf

    (tmp_path / "file").write_bytes(tiny_elf(CODE))
    done = unwindkit("dump", "--frames", tmp_path / "file")
    reason = "the file has none of .eh_frame_hdr, .eh_frame, .debug_frame"
    assert (done.returncode, done.stdout, done.stderr) == (WRONG, "", f"unwindkit: {tmp_path / 'file'}: {reason}\n")


# --- JSON: the same content ---------------------------------------------------------------------------------------


def plain(path: str, *, interpreted: bool) -> dict[str, list[dict[str, Any]]]:
    """What the command prints, by section."""
    done = unwindkit("dump", "--json", "--frames-interp" if interpreted else "--frames", path)
    assert (done.returncode, done.stderr) == (DONE, "")
    return {one["section"]: one.get("entries", one.get("table")) for one in json.loads(done.stdout)}


def entries_of(text: str) -> list[list[str]]:
    """The lines of each CIE and FDE that readelf prints."""
    body = text.partition("Contents of the .eh_frame section:\n\n")[2]
    return [part.split("\n") for part in re.split(r"\n(?=[0-9a-f]{8} )", body) if part.strip() and "ZERO" not in part]


def cell(rule: object) -> str:
    """A rule from JSON, as in readelf."""
    match rule:
        case None | "undefined":
            return "u"
        case "same_value":
            return "s"
        case {"offset": offset}:
            return f"c{offset:+}"
        case {"val_offset": offset}:
            return f"v{offset:+}"
        case {"expression": _}:
            return "exp"
        case {"val_expression": _}:
            return "vexp"
    raise AssertionError(rule)


def row_line(row: dict[str, Any]) -> list[str]:
    cfa = row["cfa"]
    text = "exp" if "expression" in cfa else f"{cfa['register']}{cfa['offset']:+}"
    return [f"{row['pc']:016x}", text, *map(cell, row["registers"].values())]


@oracle
def test_json_has_the_rows_that_readelf_prints() -> None:
    for path in REAL_FILES[:2]:
        found = plain(path, interpreted=True)[".eh_frame"]
        printed = entries_of(by_readelf(Path(path), interpreted=True).decode())
        assert len(found) == len(printed) > 300
        initial: dict[int, list[str]] = {}
        for entry, (head, *lines) in zip(found, printed, strict=True):
            assert head.startswith(f"{entry['offset']:08x} {entry['length']:016x} ")
            if entry["kind"] == "FDE":
                end = entry["initial_location"] + entry["address_range"]
                assert head.endswith(f"FDE cie={entry['cie']:08x} pc={entry['initial_location']:016x}..{end:016x}")
            rows = [line.split() for line in lines if line and "LOC" not in line]
            if entry["kind"] == "CIE":
                initial[entry["offset"]] = rows[-1][1:]
            # readelf prints no row for an FDE without instructions: its row is the CIE's.
            rows = rows or [[f"{entry['initial_location']:016x}", *initial[entry["cie"]]]]
            assert [row_line(row) for row in entry["rows"]] == rows
            for heading in filter(lambda line: "LOC" in line, lines):
                names = ["ra" if name == "rip" else name for name in entry["rows"][0]["registers"]]
                assert heading.split() == ["LOC", "CFA", *names]


def instruction_line(one: dict[str, Any]) -> str:
    """An instruction from JSON, as in readelf except for register numbers."""
    operands = ["; ".join(value) if isinstance(value, list) else value for value in one["operands"]]
    match one["name"].removeprefix("DW_CFA_"), operands:
        case (("offset" | "offset_extended" | "offset_extended_sf"), [register, offset]):
            text = f": {register} at cfa{offset:+}"
        case "def_cfa", [register, offset]:
            text = f": {register} ofs {offset}"
        case "def_cfa_expression", [operations]:
            text = f" ({operations})"
        case _, [register, operations] if one["name"].endswith("expression"):
            text = f": {register} ({operations})"
        case _, [value]:
            text = f": {value}"
        case _, []:
            text = ""
        case other:
            raise AssertionError(other)
    return one["name"] + text + (f" to {one['location']:016x}" if "location" in one else "")


@oracle
def test_json_has_the_instructions_that_readelf_prints() -> None:
    for path in REAL_FILES[:2]:
        found = plain(path, interpreted=False)[".eh_frame"]
        printed = entries_of(by_readelf(Path(path), interpreted=False).decode())
        for entry, (_, *lines) in zip(found, printed, strict=True):
            # In JSON, too, an expression's registers have their numbers.
            shown = [re.sub(r"(?<!_b)(?<!_)r\d+ \((\w+)\)", r"\1", line[2:]) for line in lines if "DW_CFA" in line]
            assert [instruction_line(one) for one in entry["instructions"]] == shown
            data = [line.partition(":")[2].split() for line in lines if "Augmentation data" in line]
            assert entry["augmentation_data"] == "".join(data[0] if data else [])
            if entry["kind"] == "CIE":
                text = "\n".join(lines)
                assert f"Version:               {entry['version']}\n" in text
                assert f'Augmentation:          "{entry["augmentation"]}"\n' in text
                assert f"Code alignment factor: {entry['code_alignment_factor']}\n" in text
                assert f"Data alignment factor: {entry['data_alignment_factor']}\n" in text
                assert f"Return address column: {entry['return_address_register']}\n" in text


@oracle
def test_json_has_the_table_that_readelf_prints() -> None:
    table = plain(REAL_FILES[0], interpreted=True)[".eh_frame_hdr"]
    text = run_oracle("readelf", "-wNF", REAL_FILES[0])
    pairs = re.findall(r"^  0x\w+ \(offset: (\w+)\) -> 0x\w+ fde=\[ +(\w+)\]$", text, re.MULTILINE)
    base = int(re.findall(r"Start of frame section:  0x\w+ \(offset: (\w+)\)", text)[0], 0)
    assert [(f"{row['initial_location']:#x}", f"{row['fde'] - base:x}") for row in table] == pairs


def test_json_is_streamed() -> None:
    """Entries are produced one by one: the first is available before the others are made."""
    (section,) = (one for one in dump_json(REAL_FILES[0], CFI_SECTIONS) if one.name == "entries")
    assert isinstance(section.parts, Iterator)
    assert next(section.parts)["kind"] == "CIE"


def test_a_broken_section_is_an_error_with_its_place(tmp_path: Path) -> None:
    from ...support.tiny_elf import CFI, CODE, Content, tiny_elf

    data = bytes([0xFF, *CFI.data[1:]])
    (tmp_path / "file").write_bytes(tiny_elf(CODE, Content(".eh_frame", data)))
    with pytest.raises(ParseError, match=r"entry\[0\]\.length: the length reaches past the section's end"):
        [*dump_json(tmp_path / "file", CFI_SECTIONS)]
    done = unwindkit("dump", "--frames", tmp_path / "file")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (WRONG, "", 1)
