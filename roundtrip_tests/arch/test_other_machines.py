"""Machines outside the table of architectures: read, found and converted with plain register numbers.

Strategy: the example of the text on call frame information, a function for M88000, in files made by hand. The rows of
the prologue are those of the text; the epilogue, which it leaves out, undoes them in reverse order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from unwindkit import (
    BuildError,
    CfaKind,
    CfaRule,
    RegisterRule,
    Row,
    RuleKind,
    by_pc,
    convert,
    find_in_file,
    from_debug_frame,
    from_eh_frame,
    info,
    open_elf,
    read_elf,
    to_debug_frame,
    to_directives,
    to_eh_frame,
    to_sframe,
    to_stack_cfi,
)
from unwindkit.converters.arch.table import NAMES

from ..support.commands import refuses, unwindkit
from ..support.made import made_frames
from ..support.made.made_frames import Cie, Fde, elf_file, frame_section
from ..support.tiny_elf import ALLOC, EXECINSTR, Content

M88000 = made_frames.Target(5, 32, ">")
NAME = "EM_88K-32-big"
START, SIZE = 0x10000, 0x50
# DW_CFA_def_cfa r7 ofs 0; same_value r0; undefined r1, r2, r3; same_value r4, r5, r6; register r8 in r1.
CIE = Cie(
    bytes.fromhex("0c 07 00  08 00  07 01 07 02 07 03  08 04 08 05 08 06  09 08 01"),
    version=1,
    code_factor=4,
    data_factor=-4,
    return_column=8,
)
# advance_loc 1; def_cfa_offset 12; advance_loc 1; offset r8 1; advance_loc 1; offset r6 2; advance_loc 9;
# restore r6; advance_loc 1; restore r8; advance_loc 1; def_cfa_offset 0.
FDE = Fde(bytes.fromhex("41 0e0c  41 8801  41 8602  49 c6  41 c8  41 0e00"), START, SIZE)


def same(*registers: int) -> list[RegisterRule]:
    return [RegisterRule(one, RuleKind.SAME_VALUE) for one in registers]


def rows() -> tuple[Row, ...]:
    """The rows of foo, as in the text's table: the offset, that of the CFA from r7, and the rules of r6 and r8."""
    in_r1, at_4 = RegisterRule(8, RuleKind.REGISTER, 1), RegisterRule(8, RuleKind.OFFSET, -4)
    kept, at_8 = RegisterRule(6, RuleKind.SAME_VALUE), RegisterRule(6, RuleKind.OFFSET, -8)
    lost = [RegisterRule(one, RuleKind.UNDEFINED) for one in (1, 2, 3)]
    table = [
        (0, 0, kept, in_r1),
        (4, 12, kept, in_r1),
        (8, 12, kept, at_4),
        (12, 12, at_8, at_4),
        (48, 12, kept, at_4),
        (52, 12, kept, in_r1),
        (56, 0, kept, in_r1),
    ]
    return tuple(
        Row(offset, CfaRule(CfaKind.REGISTER, 7, cfa), (*same(0), *lost, *same(4, 5), r6, r8))
        for offset, cfa, r6, r8 in table
    )


@pytest.fixture(name="path", params=[".eh_frame", ".debug_frame"])
def path_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file with the function, in one of both sections."""
    name: str = request.param
    is_eh = name == ".eh_frame"
    code = Content(".text", bytes(SIZE), flags=ALLOC | EXECINSTR)
    frames = Content(
        name, frame_section(M88000, CIE, FDE, is_eh=is_eh, address=START + SIZE if is_eh else 0), flags=ALLOC * is_eh
    )
    path = tmp_path / "foo"
    path.write_bytes(elf_file(M88000, code, frames))
    return path


def test_the_table_is_that_of_the_text(path: Path) -> None:
    table = read_elf(path)
    assert (table.architecture.name, table.byte_order, table.address_size) == (NAME, "big", 4)
    (function,) = table
    assert (function.start, function.size, function.return_column) == (START, SIZE, 8)
    assert function.rows == rows()


def test_info_names_the_machine(path: Path) -> None:
    found = info(path)
    assert (found.architecture, found.byte_order, found.code_bytes) == (NAME, "big", SIZE)
    (about,) = found.sections
    assert (about.functions, about.rows, about.covered_bytes, about.fault) == (1, 7, SIZE, None)
    assert unwindkit("info", path).stdout.startswith(f"{path}: EM_88K-32-big, big-endian, ET_DYN, 80 bytes of code\n")


def test_find_prints_numbers_of_registers(path: Path) -> None:
    (found,) = find_in_file(path, [START + 20])[1]
    assert found.row == rows()[3]
    text = unwindkit("find", path, hex(START + 20)).stdout
    assert "+0xc: cfa=r7+12 r0=s r1=undefined r2=undefined r3=undefined r4=s r5=s r6=c-8 r8=c-4\n" in text
    (rules,) = [one["rules"] for one in json.loads(unwindkit("find", "--json", path, hex(START)).stdout)]
    assert rules["cfa"] == "r7+0"
    assert rules["r8"] == "r1"


@pytest.mark.parametrize("to", ["eh_frame", "debug_frame"])
def test_convert_between_both_sections(path: Path, to: Literal["eh_frame", "debug_frame"], tmp_path: Path) -> None:
    report = convert(path, tmp_path / "raw", to, section_only=True)
    assert (report.functions, report.converted, report.refused) == (1, 1, {})
    data, address = (tmp_path / "raw").read_bytes(), report.address or 0
    table = from_eh_frame(data, address, NAME) if to == "eh_frame" else from_debug_frame(data, NAME)
    assert by_pc(table) == by_pc(read_elf(path))
    # The bytes are a raw section, whose machine is given by the same name.
    raw: dict[str, Any] = {"source": to, "architecture": NAME, "address": address}
    back = convert(tmp_path / "raw", tmp_path / "back", "debug_frame", **raw)
    assert back.converted == 1
    assert by_pc(from_debug_frame((tmp_path / "back").read_bytes(), NAME)) == by_pc(read_elf(path))


@pytest.mark.oracle
def test_readelf_prints_what_was_written_as_we_do(path: Path, tmp_path: Path) -> None:
    data, refusals = to_debug_frame(read_elf(path))
    assert not refusals
    made = tmp_path / "made"
    made.write_bytes(elf_file(M88000, Content(".debug_frame", data, flags=0)))
    made_frames.agree(made)
    assert len(made_frames.by_us(made, interpreted=True).splitlines()) > len(rows())


def test_raw_sections_are_read_with_the_name_of_the_machine(path: Path, tmp_path: Path) -> None:
    (header,) = [one for one in open_elf(path).sections if one.name in (".eh_frame", ".debug_frame")]
    raw, kind = tmp_path / "raw", header.name.removeprefix(".")
    raw.write_bytes(bytes(open_elf(path).contents(header).data))
    given = ("--from", kind, "--arch", NAME, "--address", hex(header.address))
    done = unwindkit("find", raw, hex(START + 20), *given)
    assert "+0xc: cfa=r7+12 r0=s r1=undefined r2=undefined r3=undefined r4=s r5=s r6=c-8 r8=c-4\n" in done.stdout
    done = unwindkit("info", raw, *given)
    assert done.stdout.startswith(f"{raw}: EM_88K-32-big, big-endian, raw section")
    assert "1 function, 7 rows, 1 distinct row run" in done.stdout
    refuses(raw, "info", raw, "--from", kind, "--arch", "m88k", says=f"{header.name}: architecture: {UNKNOWN}")


UNKNOWN = f"'m88k' is unknown: it is one of {NAMES}"


def test_a_relocatable_file(path: Path) -> None:
    """Without relocations; their types are not known."""
    data = bytearray(path.read_bytes())
    data[16:18] = bytes([0, 1])  # e_type: ET_REL
    path.write_bytes(data)
    table = read_elf(path)
    assert [function.rows for function in table] == [rows()]
    about = info(path)
    assert (about.type, about.sections[0].rows) == ("ET_REL", 7)


def test_other_targets_are_refused_in_one_sentence(path: Path, tmp_path: Path) -> None:
    table, out = read_elf(path), tmp_path / "out"
    assert to_eh_frame(table)[0]
    for target, reason in (
        (to_sframe, r"^\.sframe: abi_arch: SFrame has no ABI for EM_88K-32-big$"),
        (to_stack_cfi, r"^STACK CFI: registers: Breakpad has no register names for EM_88K-32-big$"),
        (to_directives, r"^directives: the assembler's defaults for EM_88K-32-big are not known$"),
    ):
        with pytest.raises(BuildError, match=reason):
            target(table)
    refuses(path, "sframe", path, "-o", out, says=".sframe: abi_arch: SFrame has no ABI for EM_88K-32-big")
    refuses(path, "breakpad", path, "-o", out, says="MODULE: architecture: Breakpad has no name for EM_88K-32-big")
    name = ".eh_frame" if b".eh_frame" in path.read_bytes() else ".debug_frame"
    reason = "the assembler's defaults for EM_88K-32-big are not known"
    refuses(path, "convert", path, out, "--from", name[1:], "--to", "directives", says=f"directives: {reason}")
    assert not out.exists()
