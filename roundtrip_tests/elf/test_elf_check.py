"""The check finds every kind of damage, in the output of each engine.

Strategy: it is run on results damaged in one place each, by hand or in every field of every header; and on a pair of
files where a change that is right in one cannot be right in the other.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from unwindkit.writers.elf.add import HEADERS_KEPT, HEADERS_MOVED, write_by_engines
from unwindkit.writers.elf.checks.added import ExpectedSection, check_added

from ..support.programs.elf_programs import (
    DEBUG,
    ENGINES,
    LIBRARY,
    PT_GNU_SFRAME,
    RELOCS,
    SHARED,
    SIZE,
    Built,
    Place,
    expected,
    fields_of,
    headers,
    in_header,
    in_section,
    in_segment,
    index_of,
    patched,
    section_at,
    segment_at,
    sframe,
    unnoticed,
    value_at,
)

EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
Damage = tuple[Place, str, int, str]  # where, struct format, value, and the words of the fault

DAMAGE: dict[str, Damage] = {
    "code": (in_section(".text", 40), "B", 0xCC, r"\.text: bytes differ from 0x28"),
    "data": (in_section(".data"), "B", 0xCC, r"\.data: bytes differ"),
    "symbol": (in_section(".symtab", 24 * 9 + 8), "Q", 0x77, r"\.symtab: bytes differ .* in entry 9"),
    "dynamic symbol": (in_section(".dynsym", 24 + 8), "Q", 0x77, r"\.dynsym: bytes differ .* in entry 1"),
    "symbol version": (in_section(".gnu.version", 4), "H", 9, r"\.gnu\.version: bytes differ"),
    "hash": (in_section(".gnu.hash", 4), "I", 9, r"\.gnu\.hash: bytes differ"),
    "dynamic entry": (in_section(".dynamic", 8), "Q", 0x77, r"\.dynamic: bytes differ"),
    "relocation": (in_section(".rela.dyn", 16), "Q", 0x77, r"\.rela\.dyn: bytes differ"),
    "build id": (in_section(".note.gnu.build-id", 16), "I", 0x77, r"\.note\.gnu\.build-id: bytes differ"),
    "debug information": (in_section(".debug_info", 20), "I", 0x77777777, r"\.debug_info: bytes differ"),
    "interpreter": (in_section(".interp", 3), "B", 0x77, r"PT_INTERP .*: the file's bytes differ"),
    "machine": (lambda _: 18, "H", 183, "e_machine is EM_AARCH64"),
    "section's address": (in_header(".bss", 16), "Q", 0x77, r"\.bss: sh_addr is 0x77"),
    "section's name": (in_header(".plt", 0), "I", 0, r"\.plt: is now "),
    "section's place": (in_header(".comment", 24), "Q", 0x40, r"\.comment: bytes differ"),
    "PT_LOAD moved": (in_segment("PT_LOAD", 16, 1), "Q", 0x9000, "PT_LOAD at 0x1000: is missing"),
    "PT_LOAD misplaced": (in_segment("PT_LOAD", 8, 1), "Q", 0x1008, "p_offset 0x1008 differ modulo p_align"),
    "PT_LOAD shorter": (in_segment("PT_LOAD", 32, 3), "Q", 0x10, "are neither the old sizes nor extended as declared"),
    "PT_LOAD over the next": (in_segment("PT_LOAD", 40, 0), "Q", 0x1800, "overlap or are not in order"),
    "PT_LOAD writable": (in_segment("PT_LOAD", 4, 1), "I", 7, "p_flags is 0x7, was 0x5"),
    "stack": (in_segment("PT_GNU_STACK", 4), "I", 7, "PT_GNU_STACK .*p_flags is 0x7"),
    "TLS": (in_segment("PT_TLS", 16), "Q", 8, "PT_TLS .*p_vaddr is 0x8"),
    "dynamic segment": (in_segment("PT_DYNAMIC", 0), "I", 0, "PT_DYNAMIC .*p_type is PT_NULL"),
    "PT_PHDR": (in_segment("PT_PHDR", 16), "Q", 0x48, "PT_PHDR: p_vaddr is 0x48, should be"),
    "new bytes": (in_section(".sframe", 8), "B", 0x77, "differ from those that were requested"),
    "new size": (in_header(".sframe", 32), "Q", SIZE + 8, r"new \.sframe: sh_size is 0x1390, should be 0x1388"),
    "new type": (in_header(".sframe", 4), "I", 1, r"new \.sframe: sh_type is SHT_PROGBITS, should be 0x6ffffff4"),
    "new segment missing": (in_segment(PT_GNU_SFRAME, 0), "I", 0, "1 sections and 0 segments"),
    "new PT_LOAD unreadable": (in_segment("PT_LOAD", 4, 4), "I", 6, "its PT_LOAD is not read-only"),
    "new PT_LOAD's alignment": (in_segment("PT_LOAD", 48, 4), "Q", 8, "p_align 0x8 is not a page size"),
    "PT_LOAD past the file": (in_segment("PT_LOAD", 32, 4), "Q", 1 << 40, "PT_LOAD at 0x[0-9a-f]+: ends past the file"),
    "new section over another": (in_header(".bss", 32), "Q", 1 << 32, r"new \.sframe: overlaps \.bss"),
    "PT_PHDR missing": (in_segment("PT_PHDR", 0), "I", 0, "there are 0 PT_PHDR, there were 1"),
    "section names elsewhere": (in_header(".shstrtab", 32), "Q", 1 << 40, "is not terminated by a zero byte"),
    "new PT_LOAD missing": (in_segment("PT_LOAD", 0, 4), "I", 0, "no PT_LOAD maps"),
}  # fmt: skip
WHERE_IT_MOVED = {"interpreter": r"\.interp, which moved: its bytes have changed"}


def written(before: Path, good: Path, engine: str) -> ExpectedSection:
    """A faultless file, and the check's arguments for it."""
    told = expected(before, write_by_engines(before, good, sframe(), (engine,)))
    assert check_added(before, good, told) == ()
    return told


def is_found(fault: str, before: Path, bad: Path, told: ExpectedSection) -> bool:
    return any(re.search(fault, one) for one in check_added(before, bad, told))


@EVERY_ENGINE
@pytest.mark.parametrize("damage", DAMAGE)
def test_check_reports_damage(damage: str, engine: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    place, form, value, fault = DAMAGE[damage]
    if engine == HEADERS_KEPT:
        fault = WHERE_IT_MOVED.get(damage, fault)
    bad = patched(good, tmp_path / "bad", (place(good), form, value))
    assert is_found(fault, before, bad, told)


@EVERY_ENGINE
def test_check_reports_segments_that_share_a_page(engine: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    start, _, _, size = struct.unpack_from("<4Q", good.read_bytes(), segment_at(good, "PT_LOAD", 3) + 16)
    address = start + size
    bad = patched(good, tmp_path / "bad", (segment_at(good, "PT_LOAD", 4) + 16, "Q", address))
    assert is_found(f"PT_LOADs at 0x[0-9a-f]+ and {address:#x} share a page", before, bad, told)


def test_check_reports_program_headers_at_other_addresses_than_the_first_segment(built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, HEADERS_MOVED)
    place = segment_at(good, "PT_LOAD", 4) + 16
    (address,) = struct.unpack_from("<Q", good.read_bytes(), place)
    bad = patched(good, tmp_path / "bad", (place, "Q", address + 0x1000))
    fault = "the program header table's PT_LOAD has a different p_vaddr - p_offset than the first one"
    assert fault in check_added(before, bad, told)


@EVERY_ENGINE
def test_check_reports_sections_that_were_not_asked_for(engine: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    other = replace(told, name=".other")
    assert is_found(r"^unexpected sections at the end of the table: \.sframe$", before, good, other)
    # A section that was there before has its index in the result.
    bad = patched(good, tmp_path / "bad", (in_header(".sframe", 0)(good), "I", 0))
    assert is_found(r"\.sframe: was replaced by $", good, bad, told)
    assert is_found(r"\.sframe: is missing$", good, before, told)


@EVERY_ENGINE
@pytest.mark.parametrize("number", [0, 4])
def test_check_reports_a_longer_segment(number: int, engine: str, built: Built, tmp_path: Path) -> None:
    """The first one, and the new one: in the file and in memory."""
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    place = segment_at(good, "PT_LOAD", number)
    (size,) = struct.unpack_from("<Q", good.read_bytes(), place + 32)
    bad = patched(good, tmp_path / "bad", (place + 32, "Q", size + 8), (place + 40, "Q", size + 8))
    faults = [
        "PT_LOAD at 0x0: .* are neither the old sizes nor extended as declared",
        r"does not contain exactly \.sframe, with or without the program headers",
    ]
    assert is_found(faults[number == 4], before, bad, told)


@EVERY_ENGINE
def test_check_reports_an_interpreter_behind_a_segment(engine: str, built: Built, tmp_path: Path) -> None:
    """The gABI wants PT_PHDR and PT_INTERP before any PT_LOAD."""
    before, good, bad = built(DEBUG), tmp_path / "good", tmp_path / "bad"
    told = written(before, good, engine)
    data, place = bytearray(good.read_bytes()), segment_at(good, "PT_INTERP")
    data[place : place + 112] = data[place + 56 : place + 112] + data[place : place + 56]
    patched(good, bad)
    bad.write_bytes(data)
    assert is_found("PT_INTERP comes after a PT_LOAD", before, bad, told)


MOVED = r"\.interp, which moved: "
NOTE, INTERP = ".note.gnu.property", ".interp"
OF_PROGRAM: dict[str, Damage] = {
    "moved bytes": (in_section(NOTE, 20), "I", 0x77, r"\.note\.gnu\.property, which moved: its bytes have changed"),
    "moved address": (in_header(INTERP, 16), "Q", 0x2A8, MOVED + "no PT_LOAD maps 0x[0-9a-f]+ in the file to 0x2a8"),
    "moved alignment": (in_header(NOTE, 16), "Q", 0x3, "which moved: 0x3 is not aligned to 8"),
    "moved place": (in_header(INTERP, 24), "Q", 0x318, MOVED + "overlaps the program header table"),
    "moved over another": (in_header(INTERP, 24), "Q", 0x1010, MOVED + r"overlaps \.init"),
    "moved, of another type": (in_header(INTERP, 4), "I", 7, MOVED + "sh_type is SHT_NOTE, was SHT_PROGBITS"),
    "moved, of another size": (in_header(INTERP, 32), "Q", 27, MOVED + "sh_size is 0x1b, was 0x1c"),
    "PT_INTERP at the old place": (in_segment("PT_INTERP", 8), "Q", 0x318, r"PT_INTERP .*: p_offset is 0x318, was 0x"),
    "PT_INTERP at the old address": (in_segment("PT_INTERP", 16), "Q", 0x318, "PT_INTERP .*: p_vaddr is 0x318, was"),
    "property at the old place": (in_segment("PT_GNU_PROPERTY", 8), "Q", 0x338, "PT_GNU_PROP.*: p_offset is 0x338"),
    "build id's note, dropped too": (in_segment("PT_NOTE", 0), "I", 0, "PT_NOTE .*: p_type is PT_NULL, was PT_NOTE"),
    "between what moved": (in_section(NOTE, -2), "B", 1, r"new PT_LOAD at .*: contains stray bytes before \.sframe"),
    "PT_LOAD of what moved, unreadable": (in_segment("PT_LOAD", 4, 4), "I", 2, MOVED + "its PT_LOAD is not readable"),
}  # fmt: skip
OF_LIBRARY: dict[str, Damage] = {
    "DT_GNU_HASH": (lambda path: value_at(path, "DT_GNU_HASH"), "Q", 0x77, r"\.gnu\.hash .*dynamic entry has 0x77"),
    "DT_SYMTAB": (lambda path: value_at(path, "DT_SYMTAB"), "Q", 0x77, r"\.dynsym .*dynamic entry has 0x77"),
    "DT_STRTAB": (lambda path: value_at(path, "DT_STRTAB"), "Q", 0x77, r"\.dynamic: bytes differ"),
    "hash": (in_section(".gnu.hash", 4), "I", 9, r"\.gnu\.hash, which moved: its bytes have changed"),
    "dynamic symbol": (in_section(".dynsym", 24 + 8), "Q", 0x77, r"\.dynsym, which moved: its bytes have changed"),
    "note that stepped back": (in_section(".note.gnu.build-id", 16), "I", 0x77, "build-id, which moved: its bytes"),
    "PT_NOTE at the old place": (in_segment("PT_NOTE", 8, 0), "Q", 0x8, "PT_NOTE .*: p_offset is 0x8, was 0x"),
}  # fmt: skip


@pytest.mark.parametrize("damage", OF_PROGRAM)
def test_check_reports_damage_of_what_moved(damage: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, HEADERS_KEPT)
    place, form, value, fault = OF_PROGRAM[damage]
    bad = patched(good, tmp_path / "bad", (place(good), form, value))
    assert is_found(fault, before, bad, told), check_added(before, bad, told)


@pytest.mark.parametrize("damage", OF_LIBRARY)
def test_check_reports_damage_of_tables_that_moved(damage: str, built: Built, tmp_path: Path) -> None:
    before, good = built(SHARED, LIBRARY), tmp_path / "good"
    told = written(before, good, HEADERS_KEPT)
    place, form, value, fault = OF_LIBRARY[damage]
    bad = patched(good, tmp_path / "bad", (place(good), form, value))
    assert is_found(fault, before, bad, told), check_added(before, bad, told)


def test_check_reports_a_table_that_nothing_points_at(built: Built, tmp_path: Path) -> None:
    """If the dynamic entry has another tag in both files, that of the moved table is missing."""
    before, good = built(SHARED, LIBRARY), tmp_path / "good"
    told = written(before, good, HEADERS_KEPT)
    for tag, name in (("DT_GNU_HASH", r"\.gnu\.hash"), ("DT_SYMTAB", r"\.dynsym")):
        edited = [
            patched(path, tmp_path / out, (value_at(path, tag) - 8, "Q", 0x6FFFFE00))
            for path, out in ((before, "one"), (good, "two"))
        ]
        assert is_found(f"{name} moved, but 0 dynamic entries refer to it", *edited, told)


def symbol_of(path: Path, name: str) -> int:
    """File offset of the value of a section's STT_SECTION symbol."""
    table, data, index = dict(headers(path)[1])[".symtab"], path.read_bytes(), index_of(path, name)
    start, size = int(str(table["sh_offset"])), int(str(table["sh_size"]))
    return next(
        start + place + 8
        for place in range(0, size, 24)
        if struct.unpack_from("<BxH", data, start + place + 4) == (3, index)  # STT_SECTION
    )


def test_check_reports_a_section_s_symbol_that_did_not_follow(built: Built, tmp_path: Path) -> None:
    before, good = built(RELOCS), tmp_path / "good"
    told = written(before, good, HEADERS_KEPT)
    for name in (INTERP, NOTE):
        place = symbol_of(good, name)
        (old,) = struct.unpack_from("<Q", before.read_bytes(), symbol_of(before, name))
        bad = patched(good, tmp_path / "bad", (place, "Q", old))
        assert is_found(rf"\.symtab: symbol \d+ is in {re.escape(name)}, which moved", before, bad, told)
        # Nor may the symbol be of any other section.
        values = zip((before, good), ("one", "two"), strict=True)
        kinds = [patched(path, tmp_path / out, (symbol_of(path, name) - 4, "B", 1)) for path, out in values]
        assert is_found(rf"\.symtab: symbol \d+ is in {re.escape(name)}, which moved", *kinds, told)


def test_check_reports_a_note_that_nothing_repeats(built: Built, tmp_path: Path) -> None:
    """If PT_GNU_PROPERTY has another type in both files, the dropped PT_NOTE is a fault."""
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, HEADERS_KEPT)
    other = 0x6474E5FF
    pair = [
        patched(path, tmp_path / name, (segment_at(path, "PT_GNU_PROPERTY"), "I", other))
        for path, name in ((before, "one"), (good, "two"))
    ]
    assert is_found(r"program headers besides PT_LOAD, PT_PHDR and the section's, there were", *pair, told)


def test_check_reports_a_table_that_grew_over_something(built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, HEADERS_KEPT)
    foreign = patched(before, tmp_path / "foreign", (in_section(INTERP, 29)(before), "B", 1))
    assert check_added(foreign, good, told) == ("the longer program header table overwrites other bytes",)


@EVERY_ENGINE
def test_check_reports_moves_that_are_not_declared(engine: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    all_but = [ExpectedSection(*_shape(told), tuple(set(told.moved) - {one})) for one in told.moved]
    for undeclared in all_but:
        assert is_found(r"section \[\d+\] \.\S+: sh_addr is", before, good, undeclared)
    assert len(all_but) == (2 if engine == HEADERS_KEPT else 0)
    text = ExpectedSection(*_shape(told), (*told.moved, index_of(before, ".text")))
    assert is_found(r"\.text, which moved: is not a note, hash table", before, good, text)
    absent = ExpectedSection(*_shape(told), (*told.moved, 99))
    assert is_found("section 99 should have moved but is missing", before, good, absent)


def _shape(told: ExpectedSection) -> tuple[str, int, int, int, bytes, int]:
    return told.name, told.section_type, told.segment_type, told.address, told.data, told.alignment


@EVERY_ENGINE
def test_check_watches_every_field_of_every_header(engine: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    # Names may be followed by other bytes in their table.
    fields = [field for field in fields_of(good) if field != section_at(good, ".shstrtab") + 32]
    assert unnoticed(good, tmp_path / "bad", fields, lambda bad: check_added(before, bad, told)) == []


@EVERY_ENGINE
def test_check_reports_mode_length_and_lost_ends(engine: str, built: Built, tmp_path: Path) -> None:
    before, good = tmp_path / "before", tmp_path / "good"
    before.write_bytes(built(DEBUG).read_bytes() + b"appended")
    told = written(before, good, engine)
    bad = tmp_path / "bad"
    bad.write_bytes(good.read_bytes()[:-1] + b"!")
    bad.chmod(0o600)
    faults = check_added(before, bad, told)
    assert any("the last 8 bytes" in one for one in faults)
    assert any("the file's mode is 100600" in one for one in faults)
    bad.write_bytes(b"no ELF file")
    assert check_added(before, bad, told) == ("the result cannot be read: Magic number does not match",)


def test_check_refuses_what_lief_makes_by_itself(built: Built, tmp_path: Path) -> None:
    import lief

    before, after = built(DEBUG), tmp_path / "program"
    binary = lief.ELF.parse(before)
    assert binary is not None
    section = lief.ELF.Section(".sframe")
    section.flags = 2  # SHF_ALLOC
    section.content = memoryview(bytes(SIZE))
    added = binary.add(section)
    assert added is not None
    binary.write(str(after))
    wanted = ExpectedSection(".sframe", 1, PT_GNU_SFRAME, added.virtual_address, bytes(SIZE), 8)
    faults = check_added(before, after, wanted)
    assert any(".text: sh_addr is" in one for one in faults)
    assert any("mode" in one for one in faults)
