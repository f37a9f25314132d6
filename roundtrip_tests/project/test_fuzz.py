"""Mutated sections and files: only ParseError may be raised, and both engines give the same result.

Strategy: seeds are small (made by hand, with every instruction, or cut from a real file), mutations are drawn from
random numbers with a fixed seed, so that failures are reproducible. `roundtrip_tests/fuzz` does more of
the same; here are the reference engine and sections cut anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import settings
from unwindkit import ParseError, by_pc
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.dump.eh_frame_hdr import eh_frame_hdr_json, eh_frame_hdr_text
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.table.model import UnwindTable
from unwindkit.schemas import cfi, cfi_sections, engine
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.eh_frame_hdr import EhFrameHdr
from unwindkit.schemas.section import ByteOrder, Section

from ..cfi.test_vectors_cfi import EXAMPLES
from ..conftest import engine_in_use
from ..support.handmade import ENCODED_CIE, PLAIN_CIE, X86_64_START, Fde, eh_frame, entry, octets
from ..support.real_files import REAL_FILES

# One by default, two in .ci/run, ten in a long run.
SEEDS = range(max(100, settings.default.max_examples) // 100)
# Bytes that mean something in these formats: lengths, LEB128 ends, opcodes, extremes.
TELLING = [0x00, 0x01, 0x02, 0x04, 0x0A, 0x0B, 0x0C, 0x0F, 0x10, 0x16, 0x1B, 0x2D, 0x40, 0x41, 0x7F, 0x80, 0x9B, 0xFF]


def mutated(random_: random.Random, data: bytes) -> bytes:
    """Some bytes of `data` flipped, replaced, moved, repeated or removed."""
    changed = bytearray(data)
    for _ in range(random_.choice([1, 1, 1, 2, 3, 8])):
        if not changed:
            break
        where, other = random_.randrange(len(changed)), random_.randrange(len(changed))
        size = random_.choice([1, 1, 2, 4, 8, 20])
        match random_.randrange(6):
            case 0:
                changed[where] ^= 1 << random_.randrange(8)
            case 1:
                changed[where] = random_.choice(TELLING)
            case 2:
                changed[where : where + size] = changed[other : other + size]
            case 3:
                del changed[where : where + size]
            case 4:
                changed[where:where] = bytes(random_.choice(TELLING) for _ in range(size))
            case 5:
                changed[where : where + size] = random_.choice([b"\xff", b"\x00", b"\x80"]) * size
    return bytes(changed)


def outcome(read: Callable[[], UnwindTable]) -> object:
    """The rules by PC, or the error's text."""
    try:
        return by_pc(read())
    except ParseError as error:
        return str(error)


def agree(read: Callable[[], UnwindTable], data: bytes) -> None:
    """Both engines give the same, and raise only ParseError."""
    with engine_in_use("pure"):
        pure = outcome(read)
    with engine_in_use("compiled"):
        compiled = outcome(read)
    assert pure == compiled, data.hex()


def fde_tails() -> list[str]:
    """Instruction streams that contain every opcode once, and typical ones."""
    every = " ".join(text for text, opcode, _ in EXAMPLES if opcode.name not in ("set_loc", "restore_state"))
    return [
        every.replace("0a", "0a 0b", 1),
        "41 0e10 8602 43 0d06 4a 0c0708",
        "0a 44 0e18 0a 44 8303 0b 44 c3 0b",
        "01 1010000000000000 0e20",
        "2d 44 2d",
        "0f 02 7708 44 10 06 02 7600 44 16 03 01 30",
    ]


def cfi_seeds() -> list[tuple[str, Dialect, ByteOrder, int, bytes]]:
    """Architecture, dialect, byte order, address size and bytes."""
    fdes = [Fde(0x1000 * number, 0x40, tail) for number, tail in enumerate(fde_tails(), 1)]
    plain = eh_frame(f"{PLAIN_CIE} {X86_64_START}", *fdes)
    zplr = octets("15000000 00000000 01 7a504c5200 01 78 10 07 9b 10000000 1b 1b")
    zplr += octets("11000000 1d000000 e0ffffff 20000000 04 80000000 11000000 32000000 2b000000 20000000 04 00000000")
    aligned = entry(bytes(4) + octets(f"{ENCODED_CIE} 50 000000"))
    aligned += entry(octets("18000000 00000000 0040000000000000 1000000000000000 00 41 0e10"))
    version_4 = entry(octets("ffffffff 04 00 04 02 01 78 8001 0c 07 08"), "big")
    version_4 += entry(octets("00000000 1234 00001000 00000040 41 0e 10 82 01 01 00001004 0e 18"), "big")
    wide = octets("ffffffff 0900000000000000 00000000 01 00 01 78 10")
    wide += octets("ffffffff 1700000000000000 21000000 0010000000000000 2000000000000000 0c0708")
    return [
        ("x86_64", EH_FRAME, "little", 8, plain),
        ("aarch64", EH_FRAME, "little", 8, eh_frame(f"{PLAIN_CIE} 0c 1f 00", *fdes)),
        ("x86_64", EH_FRAME, "little", 8, zplr + bytes(4)),
        ("x86", EH_FRAME, "little", 4, aligned),
        ("mips", DEBUG_FRAME, "big", 4, version_4),
        ("x86_64", EH_FRAME, "little", 8, wide),
    ]


ADDRESSES = (0, 0x1234, 0x7FFFFFFFFFFFFFF8, 0xFFFFFFFFFFFFFFF0)


EVERY_SEED = pytest.mark.parametrize("seed", SEEDS)
EVERY_SECTION = pytest.mark.parametrize("number", range(6))


def mutated_sections(number: int, seed: str, count: int) -> Iterator[Section]:
    """One of `cfi_seeds`, with some number of changes, at some address."""
    _, dialect, order, address_size, data = cfi_seeds()[number]
    random_ = random.Random(seed)
    for _ in range(count):
        changed = mutated(random_, data)
        yield Section.of(dialect.name, changed, random_.choice(ADDRESSES), order, address_size)


@EVERY_SEED
@EVERY_SECTION
def test_mutated_call_frame_information(seed: int, number: int) -> None:
    architecture, dialect, *_ = cfi_seeds()[number]
    for section in mutated_sections(number, f"cfi {number} {seed}", 150):
        agree(lambda: table_from_cfi(section, dialect, ARCHITECTURES[architecture]), bytes(section.data))  # noqa: B023
        reference_reads(section, dialect)


def reference_reads(section: Section, dialect: Dialect) -> None:
    """The reference engine raises nothing else either, and what it reads it builds again."""
    try:
        found = cfi_sections.parse_section(section, dialect)
        for _, one in found:
            if isinstance(one, cfi.Fde):
                instructions = Section.of("instructions", one.instructions, 0, section.byte_order, section.address_size)
                cfi_sections.parse_instructions(instructions, 0, len(instructions))
    except ParseError:
        return
    assert cfi_sections.build_section(found, dialect, section) == section.data


@pytest.mark.parametrize("number", range(6))
def test_call_frame_information_cut_anywhere(number: int) -> None:
    architecture, dialect, order, address_size, data = cfi_seeds()[number]
    for size in range(len(data)):
        section = Section.of(dialect.name, data[:size], 0, order, address_size)
        agree(lambda: table_from_cfi(section, dialect, ARCHITECTURES[architecture]), data[:size])  # noqa: B023
        reference_reads(section, dialect)


def real_eh_frame() -> Section:
    """The first entries of a real `.eh_frame`."""
    image = open_elf(REAL_FILES[0])
    section = image.contents(image.named(".eh_frame")[0])
    ends = [offset for offset, _ in cfi_sections.parse_section(section, EH_FRAME) if offset <= 1500]
    return replace(section, data=section.data[: ends[-1]])


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_real_eh_frame(seed: int) -> None:
    real = real_eh_frame()
    architecture = open_elf(REAL_FILES[0]).architecture
    assert architecture is not None
    random_ = random.Random(f"real {seed}")
    for _ in range(100):
        section = replace(real, data=memoryview(mutated(random_, bytes(real.data))))
        agree(lambda: table_from_cfi(section, EH_FRAME, architecture), bytes(section.data))  # noqa: B023


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_eh_frame_hdr(seed: int) -> None:
    data = octets("01 1b 03 3b 34000000 03000000 00f0ffff 4c000000 20000000 64000000 80000000 7c000000")
    random_ = random.Random(f"hdr {seed}")
    for _ in range(500):
        changed = mutated(random_, data)
        section = Section.of(".eh_frame_hdr", changed, random_.choice(ADDRESSES), random_.choice(["little", "big"]))
        for read in (eh_frame_hdr_text, lambda section: eh_frame_hdr_json(section)[1]):
            with suppress(ParseError):
                assert [*read(section)] or read is not eh_frame_hdr_text
        try:
            found, _ = engine.parse(EhFrameHdr, section, 0, len(section))
        except ParseError:
            continue
        assert engine.build(found, section.byte_order, address=section.address) == changed
