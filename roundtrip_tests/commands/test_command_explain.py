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
from unwindkit.explanation.code import MACHINES, MISSING, disassembled
from unwindkit.explanation.html import explanation_page
from unwindkit.explanation.model import ExplainedField
from unwindkit.schemas.cfi import Effect
from unwindkit.schemas.sframe import HEADER_SIZE

from ..support.commands import DONE, WRONG
from ..support.commands import unwindkit as run
from ..support.handmade import octets
from ..support.linked_elf import START, linked_elf
from ..support.programs.debian_binaries import SUITES, file_of
from ..support.real_files import REAL_FILES

ADDRESS = 0x2000
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
  row 0x3000: cfa=sp+8 ra=c-8
  000018  14 00 00 00  length  20  bytes that follow
  00001c  1c 00 00 00  CIE_pointer  0x1c  CIE at 0x0: distance back to it, from this field
  000020  e0 0f 00 00  initial_location  0xfe0  0x3000; first address covered, as stored, DW_EH_PE_pcrel|sdata4
  000024  10 00 00 00  address_range  0x10  bytes covered
  000028  00  augmentation_data length  0  bytes that follow
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
    return [row for one in records for row in (one.row, *(field.row for field in one.fields)) if row]


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
    field = ExplainedField(0, b"<", "<b>", "<i>", "<u>", "<s>")
    record = ExplainedRecord("<script>", "<a>", "<q>", (field,), "<em>")
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


def test_every_machine_is_known() -> None:
    assert set(MACHINES) == set(ARCHITECTURES)


def test_without_a_disassembler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    (found,) = unwindkit.explain(file(tmp_path, linked_elf()), START)
    assert (found.code, found.notes) == ((), (MISSING,))


@pytest.mark.parametrize("suite", SUITES)
def test_other_machines(suite: str) -> None:
    check_file(str(file_of(suite, "libc6")), 25)
