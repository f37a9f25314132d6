"""The check of an added section: places and sizes that only it would notice, and what it compares bytes with.

Strategy: a faultless result and a fault of one kind each; files of more than the piece that is compared at once.
"""

from __future__ import annotations

import mmap
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from unwindkit.schemas.section import BuildError
from unwindkit.writers.elf.add import HEADERS_KEPT, HEADERS_MOVED, write_by_engines
from unwindkit.writers.elf.checks.added import check_added
from unwindkit.writers.elf.checks.compare import CHUNK, difference, difference_outside, is_zero_outside
from unwindkit.writers.elf.remove import remove_sections

from ..support.programs.elf_programs import (
    DEBUG,
    LIBRARY,
    PT_GNU_SFRAME,
    SHARED,
    SIZE,
    Built,
    headers,
    in_header,
    in_section,
    in_segment,
    line_of,
    patched,
    run,
    segment_at,
    sframe,
    value_at,
)
from .test_elf_check import EVERY_ENGINE, is_found, written


@EVERY_ENGINE
def test_an_address_that_is_not_aligned_is_a_fault(engine: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    alignment = 2 * (told.address & -told.address)
    fault = f"the new .sframe: {told.address:#x} is not aligned to {alignment}"
    assert fault in check_added(before, good, replace(told, alignment=alignment))
    assert fault not in check_added(before, good, replace(told, alignment=alignment // 2))


@EVERY_ENGINE
@pytest.mark.parametrize("align", [0xFFF, 0x800, 0x3000, 0x1001])
def test_an_alignment_that_is_no_page_size_is_a_fault(align: int, engine: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    bad = patched(good, tmp_path / "bad", (in_segment("PT_LOAD", 48, 4)(good), "Q", align))
    assert is_found(f"p_align {align:#x} is not a page size", before, bad, told)


@EVERY_ENGINE
@pytest.mark.parametrize("before_table", [0, 8, SIZE - 1, SIZE])
def test_bytes_over_the_program_headers_are_a_fault(
    before_table: int, engine: str, built: Built, tmp_path: Path
) -> None:
    """The section starts so many bytes before the program headers, or at them; SIZE bytes before, it ends there."""
    before, good = built(DEBUG), tmp_path / "good"
    told = written(before, good, engine)
    # A table further on in the file, at a multiple of 8, so that the section can be before it.
    table = 0x4000
    bad = patched(good, tmp_path / "bad", (32, "Q", table), (in_header(".sframe", 24)(good), "Q", table - before_table))
    data, (old,) = bytearray(bad.read_bytes()), struct.unpack_from("<Q", good.read_bytes(), 32)
    size = 56 * len(headers(good)[0])
    data = data.ljust(table + size, b"\0")
    data[table : table + size] = good.read_bytes()[old : old + size]
    bad.write_bytes(data)
    assert is_found("new .sframe: overlaps the program header table", before, bad, told) == (before_table < SIZE)


def test_lost_set_id_bits_are_a_fault_if_the_owner_is_the_same(built: Built, tmp_path: Path) -> None:
    before, good, bad = tmp_path / "before", tmp_path / "good", tmp_path / "bad"
    shutil.copy(built(DEBUG), before)
    before.chmod(0o6755)
    told = written(before, good, HEADERS_MOVED)
    shutil.copy(good, bad)
    for mode in (0o0755, 0o2755, 0o4755):
        bad.chmod(mode)
        assert f"the file's mode is 10{mode:04o}, it was 106755" in check_added(before, bad, told)
    bad.chmod(0o6755)
    assert check_added(before, bad, told) == ()


# --- dynamic entries --------------------------------------------------------------------------------------------


def after_the_last(path: Path) -> int:
    """The file offset of the dynamic entry after the first DT_NULL."""
    return value_at(path, "DT_NULL") + 8


def test_dynamic_entries_after_the_end_do_not_count(built: Built, tmp_path: Path) -> None:
    """What follows DT_NULL is no entry, whatever its tag (gABI, Dynamic Section)."""
    library, good, symtab = built(SHARED, LIBRARY), tmp_path / "good", 6
    place = after_the_last(library)
    assert struct.unpack_from("<QQ", library.read_bytes(), place) == (0, 0)  # GNU ld leaves some unused
    before = patched(library, tmp_path / "before", (place, "Q", symtab), (place + 8, "Q", 0x77))
    written(before, good, HEADERS_KEPT)
    assert struct.unpack_from("<QQ", good.read_bytes(), after_the_last(good)) == (symtab, 0x77)


def test_two_dynamic_entries_for_a_table_keep_it_where_it_is(built: Built, tmp_path: Path) -> None:
    """DT_SYMTAB in place of DT_STRSZ, with the same address."""
    library = built(SHARED, LIBRARY)
    (address,) = struct.unpack_from("<Q", library.read_bytes(), value_at(library, "DT_SYMTAB"))
    place = value_at(library, "DT_STRSZ")
    before = patched(library, tmp_path / "before", (place - 8, "Q", 6), (place, "Q", address))
    with pytest.raises(BuildError) as caught:
        write_by_engines(before, tmp_path / "out", sframe(), (HEADERS_KEPT,))
    assert str(caught.value) == "PT_DYNAMIC: does not refer to .dynsym, which is in the way"


# --- what is left of a section that was removed -----------------------------------------------------------------


def without_undoing(good: Path, out: Path) -> Path:
    """The section removed where its addition cannot be undone: p_paddr of its program header is not ours."""
    altered = patched(good, out.with_name("altered"), (segment_at(good, PT_GNU_SFRAME) + 24, "Q", 0))
    remove_sections(altered, out, ".sframe", PT_GNU_SFRAME)
    return out


def test_the_space_of_a_removed_section_is_used_again_only_if_it_is_zero(built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    report = write_by_engines(before, good, sframe(), (HEADERS_KEPT,))
    place = in_section(".sframe")(good)
    left = without_undoing(good, tmp_path / "left")
    again = write_by_engines(left, tmp_path / "again", sframe(), (HEADERS_KEPT,))
    assert again.address == report.address
    # A byte of that space is another tool's: it stays, and the section goes elsewhere.
    taken = patched(left, tmp_path / "taken", (place + SIZE - 1, "B", 0x77))
    other = write_by_engines(taken, tmp_path / "other", sframe(), (HEADERS_KEPT, HEADERS_MOVED))
    assert other.address > report.address
    assert (tmp_path / "other").read_bytes()[place + SIZE - 1] == 0x77
    assert line_of(other) in run(tmp_path / "other", "operand")[1]


def test_program_headers_whose_old_place_is_taken_stay_where_they_are(built: Built, tmp_path: Path) -> None:
    """Another tool wrote over the old table: a byte of p_paddr of the first one, at offset 64 + 24."""
    before, good = built(DEBUG), tmp_path / "good"
    write_by_engines(before, good, sframe(), (HEADERS_MOVED,))
    (moved,) = struct.unpack_from("<Q", good.read_bytes(), 32)
    assert moved > 64
    back = without_undoing(good, tmp_path / "back")
    assert struct.unpack_from("<Q", back.read_bytes(), 32) == (64,)
    (old,) = struct.unpack_from("<B", good.read_bytes(), 88)
    taken = patched(good, tmp_path / "taken", (88, "B", old ^ 1))
    stays = without_undoing(taken, tmp_path / "stays")
    assert struct.unpack_from("<Q", stays.read_bytes(), 32) == (moved,)
    assert stays.read_bytes()[88] == old ^ 1
    assert run(stays, "operand")[0] == 3


# --- bytes ------------------------------------------------------------------------------------------------------


def mapped(path: Path, data: bytes) -> mmap.mmap:
    path.write_bytes(data)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@pytest.mark.parametrize("place", [0, 1, CHUNK - 1, CHUNK, CHUNK + 5, 2 * CHUNK + 99])
def test_the_first_difference_is_counted_from_the_start(place: int, tmp_path: Path) -> None:
    size = 2 * CHUNK + 100
    same, other = bytes(size + 3), bytearray(size + 3)
    other[3 + place] = other[-1] = 1
    one, two = mapped(tmp_path / "one", same), mapped(tmp_path / "two", bytes(other))
    assert difference(one, 3, two, 3, size) == place
    assert difference(one, 3, two, 3, place) is None
    assert difference(one, 3, two, 3, place + 1) == place
    assert difference_outside(one, two, 3, 3 + size, []) == 3 + place
    last = None if place == size - 1 else 3 + size - 1
    assert difference_outside(one, two, 3, 3 + size, [(3 + place, 4 + place)]) == last
    assert is_zero_outside(two, 3, 2 + size, [(3 + place, 4 + place)])
    assert not is_zero_outside(two, 3, 3 + size, [(3, 3 + place), (4 + place, 3 + size)])


def test_a_file_that_ends_early_differs_where_it_ends(tmp_path: Path) -> None:
    one, two = mapped(tmp_path / "one", bytes(20)), mapped(tmp_path / "two", bytes(12))
    assert difference(one, 0, two, 0, 20) == 12
