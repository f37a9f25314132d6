"""check on sections with one changed field: every change is reported, or readelf 2.47 shows that it changes no row.

Strategy: `python -m roundtrip_tests.changed_rows [--count N] [--seed S] [FILE ...]`. The `.eh_frame` of each file is
compared with a copy, with our `.sframe` of both versions and with our STACK CFI, each with one field changed at random:
of an FDE, an FRE, a CFI instruction, a CIE, a line. Prints the outcomes by field; exit status 1 if a change is missed.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from unwindkit import (
    FormatError,
    UnwindTable,
    from_eh_frame,
    from_sframe,
    from_stack_cfi,
    open_elf,
    read_elf,
    to_sframe,
    to_stack_cfi,
)
from unwindkit.converters.arch.table import breakpad_names
from unwindkit.converters.cfi.records import read_records
from unwindkit.converters.elf.image import ElfImage
from unwindkit.converters.files.inputs import Raw, open_image
from unwindkit.converters.files.lint import Code, lint
from unwindkit.converters.refusals import Refusals
from unwindkit.converters.sframe.section import sframe_columns
from unwindkit.converters.walk.compare import EVERYTHING, Scope, compare, sframe_scope, stack_cfi_scope
from unwindkit.schemas.cfi import EH_FRAME
from unwindkit.schemas.derive import dtype_of
from unwindkit.schemas.section import Section
from unwindkit.schemas.sframe import FDE_RECORDS, FDE_SIZES, FRE_OFFSET_SIZES, SFRAME_VERSION, FuncDescAttribute

from .support.oracles import OracleError, run_oracle
from .support.real_files import REAL_FILES
from .support.wrapped import wrapped_section

# What is changed: an offset in the section, a size in bytes, and the name of the field.
Place = tuple[int, int, str]
# A changed section, the name of the field, and readelf's text of any such section (None: it does not read it).
Changed = tuple[bytes, str]
STACK_CFI, MISSED = "STACK CFI", "MISSED"
CODES = {"little": "<", "big": ">"}


@dataclass(frozen=True, slots=True)
class Case:
    """One source that is changed. `read` gives its table; `rows` readelf's text of it; `change` one changed copy."""

    name: str
    data: bytes
    read: Callable[[bytes], UnwindTable]
    rows: Callable[[bytes], str]
    change: Callable[[random.Random], Changed]
    scope: Scope
    refused: Refusals | None


_CIE_TABLE = re.compile(r"^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ CIE .*\n(?:.+\n)*", re.MULTILINE)


def cases_of(path: str, folder: Path) -> list[Case]:
    """The sources of a file: its own `.eh_frame`, our `.sframe` of both versions, our STACK CFI."""
    image, table = open_elf(path), read_elf(path, ".eh_frame")
    return [
        _eh_frame_case(image, Path(path).read_bytes(), folder),
        *(_sframe_case(image, table, version, folder) for version in (2, 3)),
        _stack_cfi_case(table, folder),
    ]


def _eh_frame_case(image: ElfImage, file: bytes, folder: Path) -> Case:
    section = image.contents(image.named(".eh_frame")[0])
    place = section.file_offset or 0

    def rows(data: bytes) -> str:
        (folder / "file").write_bytes(file[:place] + data + file[place + len(data) :])
        # The table of a CIE is no row: an advance there changes it, and no function.
        return _CIE_TABLE.sub("", run_oracle("readelf", "-wNF", folder / "file"))

    records = read_records(section, EH_FRAME, image.architecture)
    fdes = list(zip(records.fdes.body.tolist(), records.instructions.tolist(), records.fdes.end.tolist(), strict=True))
    cies = zip(records.cies.columns.start.tolist(), records.cies.columns.end.tolist(), strict=True)
    used_of_cies = [at for start, end in cies for at in range(start, end) if section.data[at]]

    def change(draw: random.Random) -> Changed:
        """One byte of an instruction that is not DW_CFA_nop, the start, or the size of an FDE; of a CIE's program."""
        body, instructions, end = draw.choice(fdes)
        kind = draw.choice(("instruction", "instruction", "instruction", "initial_location", "address_range", "CIE"))
        if kind == "CIE":
            return _with_byte(draw, section.data, draw.choice(used_of_cies)), "CIE instruction"
        if kind == "instruction":
            used = [at for at in range(instructions, end) if section.data[at]] or [instructions - 1]
            return _with_byte(draw, section.data, draw.choice(used)), kind
        # pcrel sdata4, then a size of four bytes (LSB Core, .eh_frame).
        return _with_number(draw, section.data, (body + 4 * (kind == "address_range"), 4, kind), "<"), kind

    def read(data: bytes) -> UnwindTable:
        return from_eh_frame(data, section.address, image.architecture.name, image.byte_order)

    return Case(".eh_frame", bytes(section.data), read, rows, change, EVERYTHING, None)


def _sframe_case(image: ElfImage, table: UnwindTable, version: int, folder: Path) -> Case:
    address = int(table.functions.start.max())
    data, refused = to_sframe(table, version=version, section_address=address)
    columns = sframe_columns(Section(".sframe", memoryview(data), address))
    order = CODES[image.byte_order]
    layout = dtype_of(FDE_RECORDS[SFRAME_VERSION(version)], image.byte_order)
    attributes = dtype_of(FuncDescAttribute, image.byte_order)
    fdes = int(columns.origin[0])
    fres = list(zip(columns.fre_offset.tolist(), columns.num_fres.tolist(), columns.widths().tolist(), strict=True))

    def change(draw: random.Random) -> Changed:
        index = draw.randrange(len(columns))
        if draw.random() < 0.3:
            return fde_change(draw, index)
        place = _fre_place(draw, data, columns.fres_offset, *fres[index])
        return _with_number(draw, data, place, order), place[2]

    def fde_change(draw: random.Random, index: int) -> Changed:
        """A field of the FDE; of version 3, half of them in the attributes before its FREs."""
        which, at = layout, fdes + index * FDE_SIZES[SFRAME_VERSION(version)]
        if version == SFRAME_VERSION.V3 and draw.random() < 0.5:
            which, at = attributes, columns.fres_offset + int(columns.fre_offset[index]) - attributes.itemsize
        name = draw.choice([one for one in which.names or () if "padding" not in one])
        size, offset = which.fields[name][0].itemsize, which.fields[name][1]
        return _with_number(draw, data, (at + offset, size, name), order), f"FDE {name}"

    def rows(changed: bytes) -> str:
        wrapped_section(folder / "file", changed, address, MACHINES[image.architecture.name], image.byte_order)
        text = run_oracle("readelf", "-wN", "--sframe", folder / "file")
        # readelf 2.47 prints bits that version 2 does not use as version 3's attributes.
        return text if version == SFRAME_VERSION.V3 else re.sub(r', attr = ".*"', "", text)

    scope = sframe_scope(image.architecture, has_signal_frames=version == 3)
    return Case(f".sframe V{version}", data, lambda one: from_sframe(one, address), rows, change, scope, refused)


MACHINES = {"x86_64": 62, "aarch64": 183, "s390x": 22}


def _fre_place(draw: random.Random, data: bytes, base: int, offset: int, count: int, width: int) -> Place:
    """A field of one of the FREs from `offset` on (SFrame Frame Row Entries)."""
    at = base + offset
    for _ in range(draw.randrange(count) if count else 0):
        at += width + 1 + _words_size(data[at + width])
    info = data[at + width]
    words = info >> 1 & 0xF
    choice = draw.randrange(2 + words)
    if choice == 0:
        return at, width, "FRE start address"
    if choice == 1:
        return at + width, 1, "FRE info"
    size = FRE_OFFSET_SIZES[info >> 5 & 3]
    return at + width + 1 + (choice - 2) * size, size, "FRE offset"


def _words_size(info: int) -> int:
    return (info >> 1 & 0xF) * FRE_OFFSET_SIZES[info >> 5 & 3]


def _with_byte(draw: random.Random, data: bytes | memoryview, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= draw.randrange(1, 256)
    return bytes(changed)


def _with_number(draw: random.Random, data: bytes | memoryview, place: Place, order: str) -> bytes:
    """The number at a place changed by a little, a bit, or to anything."""
    at, size, _ = place
    word = "little" if order == "<" else "big"
    old = int.from_bytes(data[at : at + size], word)
    new = draw.choice(
        (old + draw.choice((-8, -1, 1, 8)), old ^ 1 << draw.randrange(8 * size), draw.getrandbits(8 * size))
    )
    new %= 1 << 8 * size
    new = new if new != old else old ^ 1
    return bytes(data[:at]) + new.to_bytes(size, word) + bytes(data[at + size :])


def _stack_cfi_case(table: UnwindTable, folder: Path) -> Case:
    text, refused = to_stack_cfi(table)
    words = list(re.finditer(rb"(?<![\w.$])-?[0-9a-f]+\b|\$\w+", text))
    names = sorted({one.group() for one in words if one.group().startswith(b"$")})

    def change(draw: random.Random) -> Changed:
        """Another number or register in a line."""
        one = draw.choice(words)
        old = one.group()
        if old.startswith(b"$"):
            new, field = draw.choice([name for name in names if name != old]), "register"
        elif old.startswith(b"-"):
            new, field = b"-%d" % (int(old[1:]) + 8), "negative number"
        else:
            new, field = b"%x" % (int(old, 16) + draw.choice((1, 8, 0x10))), "number"
        return text[: one.start()] + new + text[one.end() :], field

    def read(data: bytes) -> UnwindTable:
        return from_stack_cfi(data, table.architecture.name, table.load_address)

    scope = stack_cfi_scope(breakpad_names(table.architecture), table.architecture)
    module = f"MODULE Linux {table.architecture.breakpad_module} 0 file\n".encode()

    def rows(data: bytes) -> str:
        """The text itself: a text with another word says something else."""
        (folder / "file").write_bytes(module + data)
        return data.decode()

    return Case(STACK_CFI, text, read, rows, change, scope, refused)


def outcome(case: Case, table: UnwindTable, original: str, changed: bytes, file: Path) -> str:
    """What check reports of a changed section: a comparison, or a fault of the section by itself."""
    try:
        found = compare(table, case.read(changed), case.scope, case.refused)
    except FormatError:
        return "unreadable"
    if not found.is_equal:
        return "different"
    try:
        text = case.rows(changed)
    except OracleError:
        text = ""  # readelf 2.47 aborts at an FRE past the end of its function
    linted = lint(open_image(file, Raw()))
    if any(Code(code).is_fault for one in linted for code in one.findings.code.tolist()):
        return "fault"
    return "proven unchanged" if text == original else MISSED


def difference(old: bytes, new: bytes) -> str:
    """The first bytes that differ."""
    at = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    return f"at {at:#x}: {old[at : at + 8].hex()} is now {new[at : at + 8].hex()}"


def run(paths: list[str], count: int, seed: int) -> Counter[tuple[str, str, str]]:
    """The number of changes by source, field and outcome; `count` for each source of each file."""
    outcomes: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as name:
        for path in paths:
            table = read_elf(path, ".eh_frame")
            for case in cases_of(path, Path(name)):
                draw, original = random.Random(f"{seed} {path} {case.name}"), case.rows(case.data)
                assert compare(table, case.read(case.data), case.scope, case.refused).is_equal
                for _ in range(count):
                    changed, field = case.change(draw)
                    found = outcome(case, table, original, changed, Path(name, "file"))
                    outcomes[case.name, field, found] += 1
                    if found == MISSED:
                        sys.stdout.write(f"missed: {path}: {case.name}: {field}: {difference(case.data, changed)}\n")
    return outcomes


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2500, help="changes of each source of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("files", nargs="*", default=REAL_FILES[:1])
    options = parser.parse_args()
    outcomes = run([str(one) for one in options.files], options.count, options.seed)
    for (source, field, what), number in sorted(outcomes.items()):
        sys.stdout.write(f"{source:12} {field:24} {what:18} {number:8,}\n")
    sys.stdout.write(f"{sum(outcomes.values()):,} changes\n")
    return int(any(what == MISSED for _, _, what in outcomes))


if __name__ == "__main__":
    sys.exit(main())
