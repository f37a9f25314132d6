"""`unwindkit explain`: every byte of a record is one field, and the rows are those of the table.

Strategy: one section by hand with its whole text; then laws on real files, on `.sframe` of every version and on
damaged bytes. The rows are compared with the table's, the disassembled bytes with the file's.
"""

from __future__ import annotations

import json
import random
import re
import sys
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import pytest
import unwindkit
from unwindkit import ExplainedRecord, Explanation, ParseError
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.explanation.cfi import MEANINGS
from unwindkit.explanation.code import MISSING, UNKNOWN, disassembled
from unwindkit.explanation.html import explanation_page
from unwindkit.explanation.model import ExplainedField
from unwindkit.schemas.cfi import Effect
from unwindkit.schemas.section import ByteOrder
from unwindkit.schemas.sframe import HEADER_SIZE

from ..support.commands import DONE, WRONG
from ..support.commands import unwindkit as run
from ..support.handmade import entry, octets
from ..support.linked_elf import START, linked_elf
from ..support.made.made_sframe import Fde, fre, masked, section
from ..support.programs.debian_binaries import SUITES, file_of
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import CODE, tiny_elf

ADDRESS = 0x2000
CRT1 = [Path(folder, "crt1.o") for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")]
EH_FRAME = octets("""
    14000000 00000000          # CIE: length, ID
    01 7a5200 01 78 10 01 1b   # version, "zR", factors 1 and -8, column 16; 1 byte: pcrel sdata4
    0c0708 9001 0000           # def_cfa r7+8, offset r16 at cfa-8, padding
    14000000 1c000000          # FDE: length, distance to the CIE
    e00f0000 10000000 00       # 0x3000 - 0x2020; 16 bytes; no augmentation data
    41 0e10 00000000           # advance 1, def_cfa_offset 16, padding
    00000000
""")
RAW = {"source": "eh_frame", "architecture": "x86_64"}
TEXT = """\
0x3004: function 0x3000..0x3010, x86_64
  .eh_frame    0x3001: cfa=sp+16 ra=c-8

.eh_frame CIE at 0x0 (DWARF5 6.4.1; LSB Core 10.6.1.1)
  000000  14 00 00 00  length  20  bytes that follow
  000004  00 00 00 00  CIE_id  0x0  a CIE
  000008  01  version  1  1 in .eh_frame and DWARF 2, 3 in DWARF 3, 4 in DWARF 4 and 5
  000009  7a 52 00  augmentation  'zR'  z: augmentation data with a length; R: encoding of an FDE's addresses
  00000c  01  code_alignment_factor  1  unit of location advances, in bytes
  00000d  78  data_alignment_factor  -8  unit of factored offsets, in bytes
  00000e  10  return_address_register  r16 (rip)  column of the return address; one byte in version 1
  00000f  01  augmentation_data length  1  bytes that follow
  000010  1b  R: encoding  DW_EH_PE_pcrel|sdata4  encoding of an FDE's addresses
  000011  0c 07 08  DW_CFA_def_cfa  r7 (rsp), 8  CFA = register + offset (DWARF5 6.4.2.2)
  000014  90 01  DW_CFA_offset  r16 (rip), 1 * -8 = -8  saved at CFA + offset (DWARF5 6.4.2.3)
  000016  00 00  DW_CFA_nop  2 times  no effect; padding (DWARF5 6.4.2.5)

.eh_frame FDE at 0x18 (DWARF5 6.4.1; LSB Core 10.6.1.2)
  000018  14 00 00 00  length  20  bytes that follow
  00001c  1c 00 00 00  CIE_pointer  0x1c  CIE at 0x0: distance back to it, from this field
  000020  e0 0f 00 00  initial_location  0xfe0  0x3000; first address covered, as stored, DW_EH_PE_pcrel|sdata4
  000024  10 00 00 00  address_range  0x10  bytes covered
  000028  00  augmentation_data length  0  bytes that follow
  row 0x3000: cfa=sp+8 ra=c-8
  000029  41  DW_CFA_advance_loc  1  a new row, this many bytes on (DWARF5 6.4.2.1)
  00002a  0e 10  DW_CFA_def_cfa_offset  16  CFA at this offset from the same register (DWARF5 6.4.2.2)
  row 0x3001: cfa=sp+16 ra=c-8
  00002c  00 00 00 00  DW_CFA_nop  4 times  no effect; padding (DWARF5 6.4.2.5)

STACK CFI
  STACK CFI INIT 3000 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^
  STACK CFI 3001 .cfa: $rsp 16 +
"""


def explained(data: bytes | str, pc: int) -> Explanation:
    (one,) = unwindkit.explain(data, pc, address=ADDRESS, **RAW)
    return one


def file(folder: Path, data: bytes) -> Path:
    (folder / "file").write_bytes(data)
    return folder / "file"


def bytes_of(record: ExplainedRecord) -> bytes:
    """The bytes of its fields, which follow each other."""
    at = record.fields[0].offset
    for field in record.fields:
        assert field.data
        assert field.offset == at, (record.title, field)
        at += len(field.data)
    return b"".join(field.data for field in record.fields)


def rows_in(records: tuple[ExplainedRecord, ...]) -> list[str]:
    return [field.row for one in records for field in one.fields if field.row]


def archive_of(members: dict[str, bytes]) -> bytes:
    """An ar archive (System V)."""
    parts = [
        f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        for name, data in members.items()
    ]
    return b"!<arch>\n" + b"".join(parts)


def fde_records(found: Explanation, section: str) -> tuple[ExplainedRecord, ...]:
    return tuple(one for one in found.records if one.section == section and not one.title.startswith("CIE"))


# --- by hand --------------------------------------------------------------------------------------------------


def test_as_text(tmp_path: Path) -> None:
    done = run(
        "explain", file(tmp_path, EH_FRAME), "0x3004", "--from", "eh_frame", "--arch", "x86_64", "--address", "0x2000"
    )
    assert done.returncode == DONE
    assert re.sub(r"(?<=\S) {2,}(?=\S)", "  ", done.stdout) == re.sub(r"(?<=\S) {2,}(?=\S)", "  ", TEXT)


def test_every_byte_of_the_section_is_explained_once() -> None:
    found = explained(EH_FRAME, 0x3000)
    assert b"".join(map(bytes_of, found.records)) + bytes(4) == EH_FRAME


def test_fields_of_an_augmentation() -> None:
    """Personality, LSDA, signal frame."""
    data = octets("""
        19000000 00000000
        01 7a504c525300 01 78 10 07   # "zPLRS"; 7 bytes
        9b 78563412 1b 1b             # P: indirect pcrel sdata4; L, R
        0c0708
        14000000 21000000
        db0f0000 10000000 04 44332211 # 0x3000 - 0x2025; LSDA
        000000
        00000000
    """)
    cie, fde = explained(data, 0x3000).records
    fields = {field.name: field.value for field in (*cie.fields, *fde.fields)}
    assert fields["P: encoding"] == "DW_EH_PE_indirect|pcrel|sdata4"
    assert (fields["P: personality"], fields["lsda"]) == ("0x12345678", "0x11223344")
    assert (fields["L: encoding"], fields["R: encoding"]) == ("DW_EH_PE_pcrel|sdata4",) * 2
    assert bytes_of(cie) + bytes_of(fde) + bytes(4) == data


def test_a_row_after_the_end_is_none_of_the_function() -> None:
    """The second advance reaches the end: 1 + 15."""
    data = EH_FRAME.replace(octets("41 0e10 00000000"), octets("41 0e10 4f 0e08 00"))
    found = explained(data, 0x300F)
    assert rows_in(found.records) == [
        "0x3000: cfa=sp+8 ra=c-8",
        "0x3001: cfa=sp+16 ra=c-8",
        "0x3010: after the function's end",
    ]
    assert found.rules == {".eh_frame": "0x3001: cfa=sp+16 ra=c-8"}


def test_a_row_at_an_address() -> None:
    """DW_CFA_set_loc, relative to its operand at 0x202a."""
    data = EH_FRAME.replace(octets("41 0e10 00000000"), octets("01 de0f0000 0e10"))
    found = explained(data, 0x3009)
    assert rows_in(found.records) == ["0x3000: cfa=sp+8 ra=c-8", "0x3008: cfa=sp+16 ra=c-8"]
    (field,) = [one for one in found.records[1].fields if one.name == "DW_CFA_set_loc"]
    assert (field.value, len(field.data)) == ("0xfde", 5)


def test_an_unknown_augmentation_is_left_as_it_is() -> None:
    data = EH_FRAME.replace(octets("7a5200"), octets("515200"))
    data = data.replace(octets("e00f0000 10000000 00"), octets("0030000000000000 10"))
    found = explained(data, 0x3000)
    cie, fde = found.records
    assert [(one.name, len(one.data)) for one in cie.fields][-1] == ("rest", 12)
    assert [one.name for one in fde.fields] == ["length", "CIE_pointer", "initial_location", "address_range"]
    assert found.notes == (
        ".eh_frame: the CIE's augmentation is unknown, so there are no rows",
        "STACK CFI: the row has no CFA rule",
    )
    assert bytes_of(cie) + bytes_of(fde) + bytes(4) == data


def test_an_fde_without_instructions() -> None:
    data = EH_FRAME.replace(octets("14000000 1c000000"), octets("0d000000 1c000000")).replace(
        octets("41 0e10 00000000"), b""
    )
    assert rows_in(explained(data, 0x3000).records) == ["0x3000: cfa=sp+8 ra=c-8"]


def test_members_of_an_archive(tmp_path: Path) -> None:
    """Each that has the function; an archive without unwind information is refused."""
    members = {"a.o": linked_elf(), "bare.o": bytes(tiny_elf(CODE)), "b.o": linked_elf()}
    found = unwindkit.explain(archive_of(members), START)
    assert [one.file for one in found] == ["(a.o)", "(b.o)"]  # bytes have no name of their own
    assert len(unwindkit.find_in_file(archive_of(members), [START])[1]) == 2 * len(found[0].rules)
    with pytest.raises(ParseError, match="no file in the archive has unwind information"):
        unwindkit.explain(archive_of({"a.txt": b"text"}), START)


# The bytes of instructions, and how their operands are shown: factors 2 and -8.
OPERANDS = {
    "42": ("DW_CFA_advance_loc", "2 * 2 = 4"),
    "02 03": ("DW_CFA_advance_loc1", "3 * 2 = 6"),
    "03 0400": ("DW_CFA_advance_loc2", "4 * 2 = 8"),
    "04 05000000": ("DW_CFA_advance_loc4", "5 * 2 = 10"),
    "83 02": ("DW_CFA_offset", "r3 (rbx), 2 * -8 = -16"),
    "c3": ("DW_CFA_restore", "r3 (rbx)"),
    "05 03 02": ("DW_CFA_offset_extended", "r3 (rbx), 2 * -8 = -16"),
    "07 03": ("DW_CFA_undefined", "r3 (rbx)"),
    "09 03 06": ("DW_CFA_register", "r3 (rbx), r6 (rbp)"),
    "0a": ("DW_CFA_remember_state", ""),
    "0b": ("DW_CFA_restore_state", ""),
    "0c 07 20": ("DW_CFA_def_cfa", "r7 (rsp), 32"),
    "11 03 7e": ("DW_CFA_offset_extended_sf", "r3 (rbx), -2 * -8 = 16"),
    "12 07 7c": ("DW_CFA_def_cfa_sf", "r7 (rsp), -4 * -8 = 32"),
    "10 03 02 7708": ("DW_CFA_expression", "r3 (rbx), 2 bytes: 77 08"),
    "2e 10": ("DW_CFA_GNU_args_size", "16"),
    "2f 03 02": ("DW_CFA_GNU_negative_offset_extended", "r3 (rbx), -2 * -8 = 16"),
}


def test_operands_of_instructions() -> None:
    cie = "01 7a5200 02 78 10 01 1b 0c0708 9001 0000"
    fde = "db0f0000 60000000 00" + " ".join(OPERANDS)
    data = entry(bytes(4) + octets(cie)) + entry(octets("1c000000") + octets(fde))
    data = data.replace(octets("db0f0000"), octets("e00f0000")) + bytes(4)
    found = explained(data, 0x3000)
    shown = [(one.name, one.value) for one in found.records[1].fields]
    assert shown[5:] == list(OPERANDS.values())
    advanced = [row.partition(":")[0] for row in rows_in(found.records)]
    assert advanced == ["0x3000", "0x3004", "0x300a", "0x3012", "0x301c"]


def test_addresses_of_the_size_that_the_cie_gives() -> None:
    """Version 4, addresses of 4 bytes in x86-64."""
    cie = entry(octets("ffffffff 04 00 04 00 01 78 10 0c0708 9001"))
    fde = entry(bytes(4) + octets("00300000 10000000 01 08300000 0e10"))
    (found,) = unwindkit.explain(cie + fde, 0x3009, source="debug_frame", architecture="x86_64")
    assert bytes_of(found.records[0]) + bytes_of(found.records[1]) == cie + fde
    assert rows_in(found.records) == ["0x3000: cfa=sp+8 ra=c-8", "0x3008: cfa=sp+16 ra=c-8"]
    assert found.rules == {".debug_frame": "0x3008: cfa=sp+16 ra=c-8"}


def test_an_aligned_pointer_includes_its_padding() -> None:
    """The start of the function is at 0x20, or at the next multiple of 8; its size follows without padding."""
    cie = entry(bytes(4) + octets("01 7a5200 01 78 10 01 50 0c0708 9001 0000"))
    for padding in (0, 4):
        function = octets("0030000000000000 1000000000000000 00")
        fde = entry(octets("1c000000") + bytes(padding) + function)
        (found,) = unwindkit.explain(cie + fde + bytes(4), 0x3000, address=ADDRESS + padding, **RAW)
        fields = {one.name: one for one in found.records[1].fields}
        assert (fields["initial_location"].value, len(fields["initial_location"].data)) == ("0x3000", 8 + padding)
        assert (fields["address_range"].value, len(fields["address_range"].data)) == ("0x10", 8)


def test_a_block_of_a_repetitive_function() -> None:
    data = section(Fde(0x1000, 40, (fre(0, 8), fre(11, 16)), masked(), 16))
    for offset, rule in ((10, "0x3000: cfa=sp+8"), (11, "0x300b: cfa=sp+16"), (16, "0x3000: cfa=sp+8")):
        (found,) = unwindkit.explain(data, 0x3000 + offset, source="sframe", address=ADDRESS)
        assert found.rules == {".sframe": f"{rule} ra=c-8"}


def test_a_relocatable_file_is_shown_by_offsets(tmp_path: Path) -> None:
    """The second function of crt1.o."""
    path = next((path for path in CRT1 if path.exists()), None)
    if path is None:
        pytest.skip("no crt1.o of x86-64 is installed")
    (found,) = unwindkit.explain(path, "_dl_relocate_static_pie")
    assert found.section == ".text"
    assert found.pc == found.start > 0
    assert rows_in(found.records) == [f"{found.start:#x}: cfa=sp+8 ra=c-8"]
    assert found.stack_cfi == (f"STACK CFI INIT {found.start:x} {found.size:x} .cfa: $rsp 8 + .ra: .cfa -8 + ^",)
    assert all(found.start <= line.pc < found.start + found.size for line in found.code)


def test_a_pc_without_a_function(tmp_path: Path) -> None:
    found = explained(EH_FRAME, 0x4000)
    assert (found.size, found.records, found.rules) == (0, (), {".eh_frame": "no function"})
    done = run("explain", file(tmp_path, linked_elf()), "nothing")
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr.endswith("no function is called nothing\n")


def test_every_instruction_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Effect) - {Effect.UNKNOWN}


# --- forms of output ------------------------------------------------------------------------------------------


def test_json_has_the_same(tmp_path: Path) -> None:
    path = file(tmp_path, linked_elf())
    (one,) = json.loads(run("explain", path, hex(START), "--json").stdout)
    (found,) = unwindkit.explain(path, START)
    assert [one["pc"], one["size"], one["rules"]] == [START, found.size, found.rules]
    assert [field["data"] for record in one["records"] for field in record["fields"]] == [
        field.data.hex() for record in found.records for field in record.fields
    ]


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    path = file(tmp_path, linked_elf())
    plain, painted = (run("explain", path, hex(START), "--color", when).stdout for when in ("auto", "always"))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", painted) == plain != painted


class _Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone(tmp_path: Path) -> None:
    path, out = file(tmp_path, linked_elf()), tmp_path / "out.html"
    assert run("explain", path, hex(START), "--html", out).returncode == DONE
    page = _Page()
    page.feed(out.read_text(encoding="utf-8"))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not {"src", "href", "onclick"} & {name for name, _ in page.attributes}
    (found,) = unwindkit.explain(path, START)
    fields = [field for record in found.records for field in record.fields]
    assert all(field.data.hex(" ") in page.text and field.meaning in page.text for field in fields)
    assert run("explain", path, hex(START), "--html", "-").stdout == out.read_text(encoding="utf-8")


def test_the_page_escapes_what_the_file_says() -> None:
    field = ExplainedField(0, b"<", "<b>", "<i>", "<u>", "<em>")
    record = ExplainedRecord("<script>", "<a>", "<q>", (field,))
    found = Explanation("<p>", "<code>", 0, "", "<b>", 0, 1, {"<x>": "<y>"}, (record,), ("<z>",), (), ("<w>",))
    page = explanation_page([found])
    assert re.search(r"<(?:script|a|q|em|b|i|u|s|x|y|z|w)>", page) is None
    assert "&lt;script&gt;" in page


def test_the_input_is_not_overwritten(tmp_path: Path) -> None:
    path = file(tmp_path, linked_elf())
    assert run("explain", path, hex(START), "--html", path).returncode == WRONG
    assert path.read_bytes() == linked_elf()


# --- laws -----------------------------------------------------------------------------------------------------


def check_file(path: str, count: int) -> None:
    """Fields follow each other up to the record's end; rows are the table's."""
    table = unwindkit.read_elf(path)
    chosen = random.Random(path).sample(range(len(table)), min(count, len(table)))
    for function in map(table.function, sorted(chosen)):
        if not function.size:
            continue
        for found in unwindkit.explain(path, function.start):
            if found.start != function.start:
                continue  # it overlaps another one
            for record in found.records:
                data = bytes_of(record)
                if record.title.startswith(("CIE", "FDE at")):
                    assert len(data) == int(record.fields[0].value) + len(record.fields[0].data)
            rows = rows_in(fde_records(found, table.source))
            starts = [int(row.partition(":")[0], 16) for row in rows]
            starts = [one for one in starts if one < function.start + function.size]
            assert starts == [function.start + row.offset for row in function.rows]


@pytest.mark.parametrize("path", REAL_FILES)
def test_on_real_files(path: str) -> None:
    check_file(path, 25)


@pytest.mark.parametrize("version", [2, 3])
def test_sframe_of_each_version(tmp_path: Path, version: int) -> None:
    """All FDEs and FREs of a section, and nothing twice but FREs that are shared."""
    out = tmp_path / "sframe"
    unwindkit.write_sframe_section(REAL_FILES[0], out, version=version, compact="none")
    data = out.read_bytes()
    table = unwindkit.from_sframe(data, section_address=0x1000)
    seen = bytearray(len(data))
    for function in table:
        if not function.size:
            continue
        (found,) = unwindkit.explain(data, function.start, source="sframe", address=0x1000)
        for record in found.records:
            at = record.fields[0].offset
            held = bytes_of(record)
            assert data[at : at + len(held)] == held
            seen[at : at + len(held)] = b"\1" * len(held)
        assert rows_in(found.records) == rows_in(fde_records(found, ".sframe"))
        assert [int(row.partition(":")[0], 16) for row in rows_in(found.records)] == [
            function.start + row.offset for row in function.rows
        ]
    assert not any(seen[:HEADER_SIZE])
    assert all(seen[HEADER_SIZE:])


def test_damaged_bytes_are_refused_or_explained() -> None:
    """Each byte inverted, and each truncation."""
    inverted = (bytes([*EH_FRAME[:at], EH_FRAME[at] ^ 0xFF, *EH_FRAME[at + 1 :]]) for at in range(len(EH_FRAME)))
    outcomes = set()
    for data in chain(inverted, (EH_FRAME[:end] for end in range(len(EH_FRAME)))):
        try:
            for record in explained(data, 0x3004).records:
                bytes_of(record)
            outcomes.add("explained")
        except ParseError:
            outcomes.add("refused")
    assert outcomes == {"explained", "refused"}


# --- code -----------------------------------------------------------------------------------------------------


def test_code_is_shown_with_rows(tmp_path: Path) -> None:
    pytest.importorskip("capstone", reason="capstone has no wheel for this machine")
    code = octets("55 4889e5 c3")
    assert [line.is_asked for line in disassembled(ARCHITECTURES["x86_64"], "little", code, 0, 4, hex)[0]] == [
        False,
        False,
        True,
    ]
    rows = {0: "a", 1: "b", 4: "c"}
    lines, note = disassembled(
        ARCHITECTURES["x86_64"], "little", code, 0x1000, 0x1002, lambda at: rows[max(one for one in rows if one <= at)]
    )
    assert [(one.pc, one.text, one.is_asked, one.row) for one in lines] == [
        (0x1000, "push rbp", False, "a"),
        (0x1001, "mov rbp, rsp", True, "b"),
        (0x1004, "ret", False, "c"),
    ]
    assert (b"".join(one.data for one in lines), note) == (code, "")


# A return of each machine, by its manual, and the byte order.
RETURNS: dict[str, tuple[ByteOrder, str, str]] = {
    "x86": ("little", "c3", "ret"),
    "x86_64": ("little", "c3", "ret"),
    "x32": ("little", "c3", "ret"),
    "arm": ("little", "1eff2fe1", "bx lr"),
    "aarch64": ("little", "c0035fd6", "ret"),
    "aarch64_be": ("little", "c0035fd6", "ret"),  # instructions are little-endian there, too
    "mips": ("big", "03e00008", "jr $ra"),
    "mips64": ("little", "0800e003", "jr $ra"),
    "ppc": ("big", "4e800020", "blr"),
    "ppc64": ("little", "2000804e", "blr"),
    "riscv32": ("little", "8280", "c.jr ra"),
    "riscv64": ("little", "8280", "c.jr ra"),
    "s390x": ("big", "07fe", "br %r14"),
    "sparc64": ("big", "81c3e008", "retl"),
    "loongarch64": ("little", "2000004c", "ret"),
}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_machine_is_known(machine: str) -> None:
    capstone = pytest.importorskip("capstone", reason="capstone has no wheel for this machine")
    order, code, text = RETURNS[machine]
    lines, note = disassembled(ARCHITECTURES[machine], order, octets(code), 0x1000, 0x1000, hex)
    if machine == "loongarch64" and not hasattr(capstone, "CS_ARCH_LOONGARCH"):
        assert (lines, note) == ((), UNKNOWN)
    else:
        assert ([line.text for line in lines], note) == ([text], "")


def test_without_a_disassembler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    (found,) = unwindkit.explain(file(tmp_path, linked_elf()), START)
    assert (found.code, found.notes) == ((), (MISSING,))


@pytest.mark.parametrize("suite", SUITES)
def test_other_machines(suite: str) -> None:
    check_file(str(file_of(suite, "libc6")), 25)
