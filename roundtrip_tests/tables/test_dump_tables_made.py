"""Look-up tables and macros made by hand, dumped by us and by readelf 2.47; differences: docs/commands/dump.md.

Strategy: sections with every byte written out here, in a file of any machine; a difference is compared with what
readelf prints for an equivalent section that it understands, or with the words of the specification.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from unwindkit import ParseError
from unwindkit.jobs.dump import dump_sections
from unwindkit.jobs.section_dumps import TABLE_SECTIONS

from ..support.handmade import octets
from ..support.made.made_frames import TARGETS, X86_64, Target, elf_file
from ..support.oracles import oracle_command, run_oracle
from ..support.tiny_elf import NOBITS, PROGBITS, Content
from .test_vectors_lookup_tables import GNU_NAMES_BIG, NAMES, RANGES, RANGES_BIG_64
from .test_vectors_macros import MACINFO, MACRO, VENDORS_BIG_64

pytestmark = pytest.mark.oracle
S390X = TARGETS["s390x"]
STRINGS = b"A 1\0B\0" + b"C(x) x\0"


def texts(path: Path, *sections: tuple[str, str | bytes], target: Target = X86_64) -> tuple[str, str]:
    """What we print and what readelf prints of these sections."""
    contents = [
        Content(name, data if isinstance(data, bytes) else octets(data), PROGBITS, 0) for name, data in sections
    ]
    path.write_bytes(elf_file(target, *contents))
    ours = b"".join(dump_sections(path, TABLE_SECTIONS)).decode()
    command = [*oracle_command("readelf"), "-wNrptm", path]
    theirs = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return ours, theirs


def body(entries: str, flags: str = "00", version: str = "0500") -> str:
    return f"{version} {flags} {entries} 00"


@pytest.mark.parametrize(
    ("sections", "target"),
    [
        ([(".debug_aranges", RANGES + RANGES)], X86_64),
        ([(".debug_aranges", RANGES + "00" * 9)], X86_64),
        ([(".debug_pubnames", NAMES), (".debug_pubtypes", NAMES + NAMES)], X86_64),
        ([(".debug_gnu_pubnames", GNU_NAMES_BIG), (".debug_gnu_pubtypes", GNU_NAMES_BIG)], S390X),
        ([(".debug_macinfo", MACINFO)], X86_64),
        ([(".debug_macro", MACRO.replace("0b 07 02 ", "").replace("0c 08 8302 ", ""))], X86_64),
        ([(".debug_macinfo", ""), (".debug_aranges", "")], X86_64),
    ],
)
def test_equal(sections: list[tuple[str, str]], target: Target, tmp_path: Path) -> None:
    ours, theirs = texts(tmp_path / "file", *sections, target=target)
    assert ours == theirs != ""


def test_narrow_addresses(tmp_path: Path) -> None:
    narrow = "14000000 0200 00000000 04 00 00000000 00100000 20000000"
    ours, theirs = texts(tmp_path / "file", (".debug_aranges", narrow), target=TARGETS["x86"])
    assert "\n    Address    Length\n    00001000 00000020\n" in ours
    assert ours == theirs


def test_kinds_and_wide_offsets_of_gnu_names(tmp_path: Path) -> None:
    names = "".join(f"{number:08x} {byte:02x} 6e00 " for number, byte in enumerate(range(0, 256, 16), 0xFFFFF8))
    length = 2 + 8 + 16 * 7 + 4
    ours, theirs = texts(
        tmp_path / "file",
        (".debug_gnu_pubnames", f"{length:08x} 0002 00000000 00000001 {names} 00000000"),
        target=S390X,
    )
    assert "    1000000  g,unused5     n\n" not in ours
    assert "    fffffd  g,unused5     n\n    fffffe  g,unused6     n\n" in ours
    assert "    1000007  s,unused7     n\n" in ours
    assert ours == theirs


@pytest.mark.parametrize("strings", [None, STRINGS, STRINGS[:-1], b""])
def test_strings_that_are_not_there(strings: bytes | None, tmp_path: Path) -> None:
    entries = "05 01 00000000  05 02 04000000 06 03 08000000 05 04 0d000000 05 05 ffffffff"
    others = [] if strings is None else [(".debug_str", strings)]
    ours, theirs = texts(tmp_path / "file", (".debug_macro", body(entries)), *others)
    assert ours == theirs
    assert ("macro : x\n" not in ours) is True


# Forms that readelf accepts in macros: number, and the bytes of a value, the only difference between the cases.
FORMS = {
    "data1": ("0b", "85"),
    "data2": ("05", "85ff"),
    "data4": ("06", "00000000"),
    "data8": ("07", "8500000000000080"),
    "sdata": ("0d", "80ff7f"),
    "udata": ("0f", "ffffffffffffffffff01"),
    "block": ("09", "8300 0102ff"),
    "block1": ("0a", "02 0a0b"),
    "block2": ("03", "0100 0c"),
    "block4": ("04", "01000000 0d"),
    "flag": ("0c", "01"),
    "string": ("08", "616200"),
    "strp": ("0e", "04000000"),
    "sec_offset": ("17", "10000000"),
}


@pytest.mark.parametrize("form", FORMS)
def test_described_opcode(form: str, tmp_path: Path) -> None:
    """An opcode that is neither standard nor the vendors'."""
    number, value = FORMS[form]
    table = f"03 20 00  21 01 {number}  22 02 {number} {number}"
    unit = body(f"{table} 20 21 {value} 22 {value} {value} 01 05 4100", flags="04")
    ours, theirs = texts(tmp_path / "file", (".debug_macro", unit), (".debug_str", STRINGS))
    assert f"DW_MACRO_21 arguments: DW_FORM_{form}\n" in ours
    assert ours == theirs


def test_no_described_opcodes(tmp_path: Path) -> None:
    ours, theirs = texts(tmp_path / "file", (".debug_macro", body("00 04", flags="04") * 2))
    assert ours == theirs
    assert "Extension" not in ours


def test_file_names(tmp_path: Path) -> None:
    """In a directory, in none, with a directory that does not exist; no file, and a number past the last."""
    program = octets(
        "27000000 0400 1e000000"  # unit_length, version, header_length
        "01 01 01 fb 0e 04 01 00 00"  # instruction length, operations, is_stmt, line_base, line_range, opcodes
        "642f6500 00"  # include_directories: "d/e"
        "6100 00 00 00  6200 01 00 00  6300 02 00 00 00"  # file_names
        "000000"
    )
    entries = "".join(f"03 00 {file:02x} " for file in range(5)) + "04" * 5
    unit = body("00000000" + entries, flags="02")
    ours, theirs = texts(tmp_path / "file", (".debug_macro", unit), (".debug_line", program))
    assert " filenum: 1 filename: a\n" in ours
    assert " filenum: 2 filename: d/e/b\n" in ours
    assert ours.count("filename") == 2
    assert ours == theirs


def test_section_without_bytes_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(elf_file(X86_64, Content(".debug_aranges", octets(RANGES), NOBITS, 0)))
    assert b"".join(dump_sections(path, TABLE_SECTIONS)).decode() == (
        "section '.debug_aranges' has the NOBITS type - its contents are unreliable.\n"
    )


# --- known differences ------------------------------------------------------------------------------------------------


def test_segments(tmp_path: Path) -> None:
    """readelf prints no ranges when there are segments."""
    ours, theirs = texts(tmp_path / "file", (".debug_aranges", RANGES_BIG_64), target=S390X)
    assert theirs.endswith("Segment size:             2\n\n")
    assert ours == theirs[:-1] + "\n    Address            Length\n    0007:00001000 00000020\n\n"


def test_offsets_of_8_bytes_beside_large_numbers(tmp_path: Path) -> None:
    """readelf prints line and file numbers as signed 32-bit numbers."""
    ours, theirs = texts(tmp_path / "file", (".debug_macinfo", "01 ffffffff0f 4100 03 00 8080808010 04 00"))
    assert "lineno : 4294967295 macro : A\n" in ours
    assert "filenum: 4294967296\n" in ours
    assert "lineno : -1 macro : A\n" in theirs


def test_opcodes_of_vendors_are_read_as_they_are_described(tmp_path: Path) -> None:
    """readelf prints a notice for 0xe0 and above, and decodes the operands as opcodes."""
    ours, theirs = texts(tmp_path / "file", (".debug_macro", VENDORS_BIG_64), (".debug_str", STRINGS), target=S390X)
    assert "<Target Specific macro op: 0xe0 - UNHANDLED" in theirs
    assert ours.endswith(
        "    DW_MACRO_e0 has no arguments\n"
        "    DW_MACRO_e1 arguments: DW_FORM_data1, DW_FORM_block1, DW_FORM_strp\n"
        "    DW_MACRO_05 arguments: DW_FORM_udata, DW_FORM_strp\n\n"
        " DW_MACRO_e0\n"
        " DW_MACRO_e1 - 7, 2 byte block: aa bb , (indirect string, offset: 0x123): <offset is too big>\n"
        " DW_MACRO_define_strp - lineno : 1 macro : <offset is too big>\n\n"
    )


@pytest.mark.parametrize(
    ("number", "value", "shown"),
    [
        ("1e", "01" + "00" * 15, " 0x1"),
        ("1f", "00000000", " (indirect line string, offset: 0): L"),
        ("1d", "10000000", " <0x10>"),
        ("1a", "01", " (indexed string: 0x1): B"),
        ("25", "00", " (indexed string: 0): A 1"),
        ("27", "010000", " (indexed string: 0x1): B"),
    ],
)
def test_forms_that_readelf_does_not_take(number: str, value: str, shown: str, tmp_path: Path) -> None:
    """DWARF5 6.3.1 allows them."""
    unit = body(f"01 20 01 {number} 20 {value}", flags="04")
    sections = [(".debug_macro", unit), (".debug_str", STRINGS), (".debug_line_str", b"L\0")]
    offsets = octets("0c000000 0500 0000 00000000 04000000")
    ours, theirs = texts(tmp_path / "file", *sections, (".debug_str_offsets", offsets))
    assert ours.endswith(f" DW_MACRO_20 -{shown}\n\n")
    assert "DW_MACRO_20 -" not in theirs


def test_indexed_strings(tmp_path: Path) -> None:
    """The offsets begin after the header of .debug_str_offsets (DWARF5 7.26); readelf counts the header's bytes as
    offsets."""
    unit = body("0b 01 00 0b 02 01 0c 03 01 0b 04 02 0b 05 80808080808080808001")
    header, offsets = octets("0c000000 0500 0000"), octets("00000000 04000000")
    sections = [(".debug_macro", unit), (".debug_str", STRINGS)]
    ours, theirs = texts(tmp_path / "file", *sections, (".debug_str_offsets", header + offsets))
    assert " DW_MACRO_define_strx lineno : 1 macro : A 1\n DW_MACRO_define_strx lineno : 2 macro : B\n" in ours
    assert " DW_MACRO_undef_strx lineno : 3 macro : B\n" in ours
    assert ours.count("<string index too big>") == 2
    # Without a header readelf prints what we print with one.
    without = texts(tmp_path / "file", *sections, (".debug_str_offsets", offsets))
    assert without[1] == ours != theirs


def test_indexed_strings_without_sections(tmp_path: Path) -> None:
    unit = (".debug_macro", body("0b 01 00"))
    for others in ([], [(".debug_str_offsets", "00000000")]):
        ours, theirs = texts(tmp_path / "file", unit, *others)
        assert ours == theirs
    several = octets("08000000 0500 0000 00000000") * 2
    ours = texts(tmp_path / "file", unit, (".debug_str", STRINGS), (".debug_str_offsets", several))[0]
    assert "macro : <string index of an unknown unit>\n" in ours


def test_indexed_strings_of_several_units(tmp_path: Path) -> None:
    """The root entry of each unit gives the offsets that its macros use (DWARF5 7.26, 3.1.1)."""
    abbreviations = """
        05 34 00  03 08 00 00                   # 5: another tag, DW_AT_name: string
        01 11 01                                # 1: DW_TAG_compile_unit, with children
        11 01  1b 21 7f  34 19  02 18  90 42 09 # low_pc: addr, implicit_const -1, flag_present, exprloc, block
        73 1b  25 25  55 23  72 17  79 17       # addrx, strx1, rnglistx, str_offsets_base, macros: sec_offset
        00 00  00
    """
    root = "01 0010000000000000 02 3000 01 ee 05 07 09"
    unit = "23000000 0500 01 08 00000000 {} {}000000 {}000000 00 00"
    debug_info = unit.format(root, "14", "00") + unit.format(root, "08", "07")
    # A type unit, and one of DWARF 4, have no string offsets here.
    debug_info += "0e000000 0500 02 08 00000000 00000000 0000" + "08000000 0400 00000000 08 00"
    contributions = "08000000 0500 0000 00000000" + "08000000 0500 0000 04000000"
    sections = [
        (".debug_macro", body("0b 01 00") + body("0b 01 00")),
        (".debug_str", STRINGS),
        (".debug_str_offsets", octets(contributions)),
        (".debug_info", debug_info),
        (".debug_abbrev", abbreviations),
    ]
    ours = texts(tmp_path / "file", *sections)[0]
    assert ours.count("macro : B\n") == ours.count("macro : A 1\n") == 1
    assert ours.index("macro : B\n") < ours.index("macro : A 1\n")


REFUSED = {
    "a version of ranges": (".debug_aranges", RANGES.replace("0200 ", "0400 "), "set[0].version: 4 is not one of 2, 3"),
    "a size of addresses": (
        ".debug_aranges",
        RANGES.replace("\n    08 ", "\n    03 "),
        "set[0].address_size: 3 is not one of 1, 2, 4, 8",
    ),
    "a length of a set": (".debug_aranges", "ffffff00 0200", "set[0].length: the length reaches past"),
    "a set without room for a header": (".debug_aranges", "01000000 02", "set[0].length: 1 bytes do not hold a header"),
    "a version of names": (".debug_pubnames", NAMES.replace("0200 ", "0100 "), "set[0].version: 1 is not one of 2, 3"),
    "a name without an end": (
        ".debug_pubnames",
        "10000000 0200 00000000 00000000 01000000 6100"[:-2] + "61",
        "set[0].name[0]: the string has no terminating zero byte",
    ),
    "an offset that is cut": (
        ".debug_pubnames",
        "0c000000 0200 00000000 00000000 0100",
        "set[0].name[0]: the record ends",
    ),
    "a type of entry": (".debug_macinfo", "01 01 4100 07 00", "unit[0].entry[1]: the opcode is not defined"),
    "no end of a unit": (".debug_macinfo", "01 01 4100", "unit[0].entry[1]: the unit has no terminating opcode 0"),
    "a version of macros": (".debug_macro", "0600 00 00", "unit[0].header: unknown version"),
    "an opcode": (".debug_macro", body("0d"), "unit[0].entry[0]: the opcode is not defined"),
    "an opcode that version 4 does not have": (".debug_macro", body("0b 01 00", "00", "0400"), "unit[0].entry[0]: the"),
    "a form": (".debug_macro", body("01 20 01 10 20", "04"), "unit[0].header: the form of an operand is not defined"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    """readelf warns, and prints something or nothing."""
    name, data, said = REFUSED[case]
    path = tmp_path / "file"
    path.write_bytes(elf_file(X86_64, Content(name, octets(data), PROGBITS, 0)))
    with pytest.raises(ParseError) as caught:
        b"".join(dump_sections(path, TABLE_SECTIONS))
    assert caught.value.offset is not None
    assert said in str(caught.value)


def test_relocations_of_names_are_applied(tmp_path: Path) -> None:
    """readelf does not apply them: it shows several units of `ld -r` all at 0."""
    (tmp_path / "a.c").write_text("int a, b;\n")
    for name in ("a", "b"):
        command = ["gcc", "-g", "-gpubnames", f"-Da={name}1", f"-Db={name}2", "-c", "a.c", "-o", f"{name}.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["ld", "-r", "a.o", "b.o", "-o", "ab.o"], cwd=tmp_path, check=True)
    subprocess.run(["ld", "-e", "0", "a.o", "b.o", "-o", "ab"], cwd=tmp_path, check=True)
    linked = run_oracle("readelf", "-wNp", tmp_path / "ab")
    assert b"".join(dump_sections(tmp_path / "ab.o", (".debug_pubnames",))).decode() == linked
    assert run_oracle("readelf", "-wNp", tmp_path / "ab.o") != linked
