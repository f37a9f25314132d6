"""PLT sections of AArch64 and s390x without call frame information are recognized by their bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from unwindkit import find_rows, read_elf
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.plt import plt_functions, with_uncovered_plt
from unwindkit.converters.table.model import Function

from ..support.handmade import octets
from ..support.oracles import oracle_root

BTI = "5f2403d5"
NOP = "1f2003d5"
# From libc.so.6 2.43 of Debian sid, arm64.
FIRST = """
    f07bbfa9  # stp x16, x30, [sp, #-16]!
    700c00b0  # adrp x16, GOT
    115646f9  # ldr x17, [x16, #3240]
    10a23291  # add x16, x16, #3240
    20021fd6  # br x17
"""
ENTRY = """
    700c00b0  # adrp x16, GOT
    115a46f9  # ldr x17, [x16, #3248]
    10c23291  # add x16, x16, #3248
    20021fd6  # br x17
"""
# libstdc++.so.6: the GOT entry is the first of its page.
ENTRY_AT_0 = """
    500f00f0  # adrp x16, GOT
    110240f9  # ldr x17, [x16]
    1f2003d5  # nop
    20021fd6  # br x17
"""
SIGNED_ENTRY = """
    700c00b0 115a46f9 10c23291
    9f2103d5  # autia1716
    20021fd6
"""
DESCRIPTORS = """
    e20fbfa9  # stp x2, x3, [sp, #-16]!
    220f00d0  # adrp x2
    230f00d0  # adrp x3
    42f047f9  # ldr x2, [x2, #4064]
    63a03f91  # add x3, x3, #4072
    40001fd6  # br x2
"""
S390X_FIRST = """
    e310f0380024  # stg %r1, 56(%r15)
    c010000da51d  # larl %r1, GOT
    d207f0301008  # mvc 48(8, %r15), 8(%r1)
    e31010100004  # lg %r1, 16(%r1)
    07f1          # br %r1
    0700 0700 0700
"""
S390X_ENTRY = """
    c010000da51c  # larl %r1, GOT entry
    e31010000004  # lg %r1, 0(%r1)
    07f1          # br %r1
    0d10          # basr %r1, %r0
    e310100c0014  # lgf %r1, 12(%r1)
    c0f4ffffffe5  # jg first entry
    00000018      # offset in .rela.plt
"""


def shape(functions: list[Function], ra: int) -> list[tuple[object, ...]]:
    """Start, size and block of each function; of each row its offset, the CFA's from SP, and the place of RA."""
    return [
        (
            *(one.start, one.size, one.repetition),
            [(row.offset, row.cfa.value, [r.value for r in row.registers if r.register == ra]) for row in one.rows],
        )
        for one in functions
    ]


AARCH64 = [
    pytest.param(
        FIRST + NOP * 3 + ENTRY + ENTRY_AT_0,
        [(0x1000, 32, 0, [(0, 0, []), (4, 16, [-8])]), (0x1020, 32, 16, [(0, 0, [])])],
        id="plain",
    ),
    pytest.param(
        BTI + FIRST + NOP * 2 + ENTRY,
        [(0x1000, 32, 0, [(0, 0, []), (8, 16, [-8])]), (0x1020, 16, 16, [(0, 0, [])])],
        id="a library with BTI: the first entry alone has one",
    ),
    pytest.param(
        BTI + FIRST + NOP * 2 + (BTI + ENTRY + NOP) * 2,
        [(0x1000, 32, 0, [(0, 0, []), (8, 16, [-8])]), (0x1020, 48, 24, [(0, 0, [])])],
        id="a program with BTI",
    ),
    pytest.param(
        FIRST + NOP * 3 + (SIGNED_ENTRY + NOP) * 2,
        [(0x1000, 32, 0, [(0, 0, []), (4, 16, [-8])]), (0x1020, 48, 24, [(0, 0, [])])],
        id="signed GOT entries",
    ),
    pytest.param(
        FIRST + NOP * 3 + (BTI + SIGNED_ENTRY) * 2,
        [(0x1000, 32, 0, [(0, 0, []), (4, 16, [-8])]), (0x1020, 48, 24, [(0, 0, [])])],
        id="signed GOT entries and BTI",
    ),
    pytest.param(
        FIRST + NOP * 3 + ENTRY + DESCRIPTORS + NOP * 2,
        [
            (0x1000, 32, 0, [(0, 0, []), (4, 16, [-8])]),
            (0x1030, 32, 0, [(0, 0, []), (4, 16, [])]),
            (0x1020, 16, 16, [(0, 0, [])]),
        ],
        id="TLS descriptors",
    ),
    pytest.param(
        FIRST + NOP * 3 + BTI + DESCRIPTORS + NOP,
        [(0x1000, 32, 0, [(0, 0, []), (4, 16, [-8])]), (0x1020, 32, 0, [(0, 0, []), (8, 16, [])])],
        id="TLS descriptors and BTI, no other entry",
    ),
    pytest.param(ENTRY * 3, [(0x1000, 48, 16, [(0, 0, [])])], id="no first entry"),
    pytest.param(FIRST + NOP * 3, [(0x1000, 32, 0, [(0, 0, []), (4, 16, [-8])])], id="the first entry alone"),
]


@pytest.mark.parametrize("name", ["aarch64", "aarch64_be"])
@pytest.mark.parametrize(("text", "expected"), AARCH64)
def test_aarch64_plt_is_told_by_its_bytes(name: str, text: str, expected: list[tuple[object, ...]]) -> None:
    # Instructions are little-endian in both byte orders.
    assert shape(plt_functions(".plt", 0x1000, octets(text), ARCHITECTURES[name]), 30) == expected


@pytest.mark.parametrize(
    ("address", "text", "expected"),
    [
        (0x1000, S390X_FIRST + S390X_ENTRY * 2, [(0x1000, 32, 0), (0x1020, 64, 32)]),
        # libc's starts at 0x2c128: readers disagree on the start of a block.
        (0x2C128, S390X_FIRST + S390X_ENTRY * 2, [(0x2C128, 32, 0), (0x2C148, 64, 0)]),
        (0x2C388, S390X_ENTRY * 17, [(0x2C388, 544, 0)]),
    ],
)
def test_s390x_plt_is_told_by_its_bytes(address: int, text: str, expected: list[tuple[int, int, int]]) -> None:
    found = shape(plt_functions(".plt", address, octets(text), ARCHITECTURES["s390x"]), 14)
    assert found == [(*place, [(0, 160, [])]) for place in expected]


UNKNOWN = [
    ("aarch64", FIRST + NOP * 2),  # cut
    ("aarch64", FIRST + NOP * 3 + ENTRY + NOP),  # four extra bytes
    ("aarch64", FIRST + NOP * 3 + ENTRY + ENTRY.replace("20021fd6", "20023fd6")),  # blr, which would return
    ("aarch64", FIRST + NOP * 3 + ENTRY.replace("700c00b0", "710c00b0")),  # adrp x17
    ("aarch64", FIRST + NOP * 3 + ENTRY.replace("115a46f9", "115a06f9")),  # str
    ("aarch64", FIRST.replace("f07bbfa9", "f07bbea9") + NOP * 3 + ENTRY),  # 32 bytes pushed
    ("aarch64", FIRST + NOP * 3 + ENTRY + BTI + ENTRY + NOP),  # two kinds
    ("s390x", S390X_FIRST + S390X_ENTRY + "0700"),
    ("s390x", S390X_FIRST + S390X_ENTRY.replace("07f1", "0df1")),  # basr, which would return
    ("s390x", S390X_FIRST.replace("e310f0380024", "e310f0300024") + S390X_ENTRY),
]


@pytest.mark.parametrize(("name", "text"), UNKNOWN)
def test_bytes_that_no_linker_writes_are_left_alone(name: str, text: str) -> None:
    assert plt_functions(".plt", 0x1000, octets(text), ARCHITECTURES[name]) == []


REAL = [
    ("sid-arm64", "usr/lib/aarch64-linux-gnu/libc.so.6", 0),
    ("sid-arm64", "usr/lib/aarch64-linux-gnu/libstdc++.so.6", 0),
    ("sid-arm64", "usr/bin/perl", 0),
    # .eh_frame covers the entries except the IRELATIVE ones: about half.
    ("sid-s390x", "usr/lib/s390x-linux-gnu/libc.so.6", 0.3),
]


@pytest.mark.oracle("sid-arm64", "sid-s390x")
@pytest.mark.parametrize(("suite", "name", "covered"), REAL)
def test_plt_of_debian_binaries_is_covered_whole(suite: str, name: str, covered: float) -> None:
    path: Path = oracle_root(suite) / name
    image, table = open_elf(path), read_elf(path)
    (section,) = image.named(".plt")
    pcs = np.arange(section.address, section.address + section.size, 2)
    before = np.mean(find_rows(table, pcs).row >= 0)
    assert covered <= before < 1
    found = with_uncovered_plt(image, table)
    assert np.all(find_rows(found, pcs).row >= 0)
    known = find_rows(table, pcs)
    # Covered entries keep their rows.
    assert np.array_equal(find_rows(found, pcs).row[known.row >= 0], known.row[known.row >= 0])
