"""`unwindkit find`: the row in force at a PC, from each source in the file, as in readelf 2.47.

Strategy: files made by hand with obvious rows; then readelf's rows of `.eh_frame` and `.sframe` of compiled
programs, real files and other architectures' binaries, at the first, last and next PC of every row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unwindkit import write_sframe
from unwindkit.converters.files.find import find_in_file, found_json
from unwindkit.schemas.sframe import FdeInfo

from ..support.binutils import EVERY_VERSION, SFRAME, Binutils, chosen
from ..support.commands import DONE, NOT_ELF, refuses, unwindkit, usage_error
from ..support.handmade import PLAIN_CIE, X86_64_START, eh_frame, entry, octets
from ..support.handmade import Fde as CfiFde
from ..support.made.made_sframe import (
    AARCH64,
    ADDRESS,
    ONE,
    PCREL,
    S390X,
    SORTED,
    Fde,
    fre,
    masked,
    section,
    sframes,
    shown,
)
from ..support.programs import compiled
from ..support.programs.debian_binaries import file_of
from ..support.programs.plt_programs import cfi_offsets, plt_sections
from ..support.real_files import REAL_FILES
from ..support.texts.readelf_text import FrameRows, RowText, SframeRows, SframeText, frame_rows, sframe_rows
from ..support.tiny_elf import CFI, CODE, NOBITS, Content, tiny_elf
from ..support.wrapped import SHT_GNU_SFRAME

# --- by hand --------------------------------------------------------------------------------------------------

# CFI has functions at 0x1000 (rows at +0, +1) and 0x1040, 0x40 bytes each; `.sframe` is at 0x10d0 and has one of 0x30
# bytes at 0x1000, from its fourth byte on.
ROWS = (fre(4, 8), fre(8, 16, -16))
BOTH = tiny_elf(CODE, CFI, Content(".sframe", section(Fde(-0xD0, 0x30, ROWS)), SHT_GNU_SFRAME))


def written(folder: Path, data: bytes) -> Path:
    (folder / "file").write_bytes(data)
    return folder / "file"


def test_as_text(tmp_path: Path) -> None:
    done = unwindkit("find", written(tmp_path, BOTH), "0x1008", "4097", "0x1000", "0x1030", "0x107f", "0x1080", "0")
    assert (done.returncode, done.stderr) == (DONE, "")
    assert done.stdout == (
        "0x1008\n"
        "  .eh_frame    0x1000..0x1040 +0x1: cfa=sp+16 ra=c-8\n"
        "  .sframe      0x1000..0x1030 +0x8: cfa=sp+16 fp=c-16 ra=c-8\n"
        "0x1001\n"
        "  .eh_frame    0x1000..0x1040 +0x1: cfa=sp+16 ra=c-8\n"
        "  .sframe      0x1000..0x1030 no row\n"
        "0x1000\n"
        "  .eh_frame    0x1000..0x1040 +0x0: cfa=sp+8 ra=c-8\n"
        "  .sframe      0x1000..0x1030 no row\n"
        "0x1030\n"
        "  .eh_frame    0x1000..0x1040 +0x1: cfa=sp+16 ra=c-8\n"
        "  .sframe      no function\n"
        "0x107f\n"
        "  .eh_frame    0x1040..0x1080 +0x0: cfa=sp+8 ra=c-8\n"
        "  .sframe      no function\n"
        "0x1080\n"
        "  .eh_frame    no function\n"
        "  .sframe      no function\n"
        "0x0\n"
        "  .eh_frame    no function\n"
        "  .sframe      no function\n"
    )


def test_as_json(tmp_path: Path) -> None:
    done = unwindkit("find", "--json", written(tmp_path, BOTH), "0x1008", "0x1001", "0x1040")
    assert (done.returncode, done.stderr) == (DONE, "")
    in_cfi = {"source": ".eh_frame", "repetition": 0}
    in_sframe = {"source": ".sframe", "repetition": 0}
    first = {"start": 0x1000, "size": 0x40, "offset": 1, "rules": {"cfa": "sp+16", "ra": "c-8"}}
    second = {"start": 0x1040, "size": 0x40, "offset": 0, "rules": {"cfa": "sp+8", "ra": "c-8"}}
    short = {"start": 0x1000, "size": 0x30}
    no_row = {"offset": None, "rules": None}
    assert json.loads(done.stdout) == [
        {"pc": 0x1008} | in_cfi | first,
        {"pc": 0x1008} | in_sframe | short | {"offset": 8, "rules": {"cfa": "sp+16", "fp": "c-16", "ra": "c-8"}},
        {"pc": 0x1001} | in_cfi | first,
        {"pc": 0x1001} | in_sframe | short | no_row,
        {"pc": 0x1040} | in_cfi | second,
        {"pc": 0x1040} | in_sframe | {"start": None, "size": None} | no_row,
    ]


def lines(folder: Path, data: bytes, *pcs: int) -> list[str]:
    done = unwindkit("find", written(folder, data), *map(hex, pcs))
    assert (done.returncode, done.stderr) == (DONE, "")
    return [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]


def test_every_source_in_their_order(tmp_path: Path) -> None:
    """Several sections of one name, an empty one and one with debugging information are separate sources."""
    cie = entry(b"\xff\xff\xff\xff" + octets(f"{PLAIN_CIE} 0c0718 9001"))  # def_cfa r7+24, offset r16 1
    fde = entry(bytes(4) + (0x1000).to_bytes(8, "little") + (8).to_bytes(8, "little"))
    debug = Content(".debug_frame", cie + fde, flags=0)
    data = tiny_elf(
        CODE,
        Content(".sframe", b"", SHT_GNU_SFRAME),
        debug,
        CFI,
        Content(".sframe", section(Fde(-0x140, 0x30, ROWS)), SHT_GNU_SFRAME),
    )
    found = lines(tmp_path, data, 0x1007)
    assert [line.split()[0] for line in found] == [".eh_frame", ".debug_frame", ".sframe", ".sframe"]
    assert found[1] == ".debug_frame 0x1000..0x1008 +0x0: cfa=sp+24 ra=c-8"
    assert found[2] == ".sframe      no function"


def test_block_of_a_repetitive_function(tmp_path: Path) -> None:
    plt = Fde(0x1000, 40, (fre(0, 8), fre(11, 16)), masked(), 16)
    data = sframes(section(plt))
    start = 0x1080 + 0x1000
    assert lines(tmp_path, data, start + 10, start + 11, start + 15, start + 16, start + 39, start + 40) == [
        f".sframe      {start:#x}..{start + 40:#x} +{offset} of each 16 bytes: cfa=sp+{cfa} ra=c-8"
        for offset, cfa in (("0x0", 8), ("0xb", 16), ("0xb", 16), ("0x0", 8), ("0x0", 8))
    ] + [".sframe      no function"]


def test_rules_of_other_architectures(tmp_path: Path) -> None:
    signed = Fde(
        0x1000, 16, (fre(0, 32, -8, -16, signed=1, base=0), fre(4, 0, signed=1), fre(8, 16, -8)), FdeInfo(0, 1, 0, 0)
    )
    path = shown(tmp_path / "arm", section(signed, abi=AARCH64), AARCH64)
    start = ADDRESS + 0x1000
    done = unwindkit("find", path, *(hex(start + offset) for offset in (0, 4, 8)))
    assert re.findall(r": (.*)", done.stdout) == ["cfa=fp+32 fp=c-16 ra=c-8[s]", "cfa=sp+0 ra=u[s]", "cfa=sp+16 ra=c-8"]
    slots = Fde(0x1000, 16, (fre(0, 0), fre(4, 20, 0x21, 0x23), fre(8, 20, 0, -40)))
    path = shown(tmp_path / "s390x", section(slots, abi=S390X), S390X)
    done = unwindkit("find", path, *(hex(start + offset) for offset in (0, 4, 8)))
    assert re.findall(r": (.*)", done.stdout) == [
        "cfa=sp+160 sp=v-160",
        "cfa=sp+320 fp=r17 ra=r16 sp=v-160",
        "cfa=sp+320 fp=c-40 sp=v-160",
    ]


def test_rules_of_every_kind(tmp_path: Path) -> None:
    kinds = [
        ("0c0710", "cfa=sp+16 ra=c-8"),
        ("0c0a10", "cfa=r10+16 ra=c-8"),
        ("0f027708", "cfa=exp(7708) ra=c-8"),
        ("0803", "cfa=sp+8 r3=s ra=c-8"),
        ("090c0d", "cfa=sp+8 r12=r13 ra=c-8"),
        ("090607", "cfa=sp+8 fp=sp ra=c-8"),
        ("140603", "cfa=sp+8 fp=v-24 ra=c-8"),
        ("1006027700", "cfa=sp+8 fp=exp(7700) ra=c-8"),
        ("1606027700", "cfa=sp+8 fp=vexp(7700) ra=c-8"),
        ("0710", "cfa=sp+8 ra=undefined"),
        ("0706", "cfa=sp+8 fp=undefined ra=c-8"),
    ]
    fdes = [CfiFde(0x1000 + 16 * index, 16, code) for index, (code, _) in enumerate(kinds)]
    data = tiny_elf(CODE, Content(".eh_frame", eh_frame(f"{PLAIN_CIE} {X86_64_START}", *fdes)))
    found = lines(tmp_path, data, *(fde.start for fde in fdes))
    assert [line.partition(": ")[2] for line in found] == [text for _, text in kinds]


# --- as in readelf ----------------------------------------------------------------------------------------------


PROBES = 10_000


def probes(rows: FrameRows | SframeRows) -> Iterable[int]:
    """The PC of every row and function's end, and its neighbours; of large files, as many as PROBES of these, drawn."""
    pcs = np.concatenate([rows.start, rows.end, rows.pc])
    pcs = np.unique(np.concatenate([pcs - np.uint64(1), pcs, pcs + np.uint64(1)]))
    drawn = np.random.default_rng(len(pcs)).permutation(len(pcs))[:PROBES]
    return pcs[np.sort(drawn)].tolist()


def texts_at(rows: FrameRows | SframeRows, pcs: Iterable[int]) -> list[RowText | SframeText | None]:
    """What readelf shows at each PC: the last row at or before it, in the one function that contains it."""
    order = np.argsort(rows.start, kind="stable")
    found: list[RowText | SframeText | None] = []
    for pc in pcs:
        place = int(np.searchsorted(rows.start[order], np.uint64(pc), side="right")) - 1
        index = int(order[place])
        if place < 0 or pc >= rows.end[index]:
            found.append(None)
            continue
        here = slice(rows.first_row[index], rows.first_row[index + 1])
        block = int(rows.repetition_block[index]) if isinstance(rows, SframeRows) else 0
        target = (pc - int(rows.start[index])) % block if block else pc
        last = int(np.searchsorted(rows.pc[here], np.uint64(target), side="right")) - 1
        found.append(rows.texts[rows.text[here][last]] if last >= 0 else None)
    return found


def agrees(path: Path, source: str, rows: FrameRows | SframeRows, **names: str) -> int:
    """Compare one source with readelf's rows at every probe, and return how many had one. `names` are readelf's names
    of a CFA's registers."""
    pcs = list(probes(rows))
    architecture, everything = find_in_file(path, pcs)
    found = [one for one in everything if one.source == source]
    assert [one.pc for one in found] == pcs
    count = 0
    for one, text in zip(found, texts_at(rows, pcs), strict=True):
        rules = found_json(architecture, one)["rules"]
        said = None if rules is None else shorthand(rules, names)
        expected = None
        if text is not None:
            # `r13 (x13)` is one register; `f`, the fixed offset, is only on AMD64; operations are compared elsewhere.
            ra = "c-8" if text.ra == "f" else text.ra
            cfa, fp, ra = (re.sub(r" \(\w+\)|(?<=exp)\(.*", "", one) for one in (text.cfa, text.fp, ra))
            expected = cfa, fp, ra
            if " in column " in ra and said is not None:
                # A signal frame of s390x: readelf's RA is the CIE's column, ours is the ABI's.
                expected = (*expected[:2], said[2])
        assert said == expected, hex(one.pc)
        count += expected is not None
    return count


def shorthand(rules: dict[str, str], names: dict[str, str]) -> tuple[str, str, str]:
    """CFA, FP and RA in readelf's notation, which does not show the bytes of expressions."""
    cfa, fp, ra = (re.sub(r"\(.*", "", rules.get(name, none)) for name, none in (("cfa", ""), ("fp", "u"), ("ra", "u")))
    return re.sub(r"^\w+(?=[+-])", lambda register: names.get(register[0], register[0]), cfa), fp, ra


AMD64_NAMES = {"sp": "rsp", "fp": "rbp", "r0": "rax", "r1": "rdx", "r2": "rcx", "r3": "rbx", "r4": "rsi", "r5": "rdi"}


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["O2", "O3-frame-pointer", "static", "lazy"])
def test_compiled_programs(name: str, tmp_path: Path) -> None:
    compiled.require()
    (flags,) = (flags for flags in compiled.FLAG_SETS if flags.name == name)
    path = tmp_path / "written"
    write_sframe(compiled.build(tmp_path, flags), path)
    assert agrees(path, ".eh_frame", frame_rows(path), **AMD64_NAMES) > 300
    assert agrees(path, ".sframe", sframe_rows(path)) > 300


@pytest.mark.oracle
@pytest.mark.parametrize("path", [path for path in REAL_FILES if Path(path).name in ("ls", "bash")], ids=str)
def test_real_files(path: str, tmp_path: Path) -> None:
    written = tmp_path / "written"
    write_sframe(path, written)
    assert agrees(written, ".eh_frame", frame_rows(written), **AMD64_NAMES) > 5_000
    assert agrees(written, ".sframe", sframe_rows(written)) > 5_000


@pytest.mark.parametrize(
    ("suite", "names"),
    [
        pytest.param("sid-arm64", {"fp": "x29", "r0": "x0"}, marks=pytest.mark.oracle("sid-arm64")),
        pytest.param("sid-s390x", {"sp": "r15", "fp": "r11"}, marks=pytest.mark.oracle("sid-s390x")),
    ],
)
def test_binaries_of_other_architectures(suite: str, names: dict[str, str]) -> None:
    path = file_of(suite, "libc6")
    assert agrees(path, ".eh_frame", frame_rows(path), **names) > 0.8 * PROBES


@pytest.mark.parametrize("tools", [pytest.param(None, id="ours"), *EVERY_VERSION[:2]])
def test_every_pc_of_a_plt(tools: Binutils | None, tmp_path: Path) -> None:
    """Compared with the value of the CFI's own expression; V1 has no field for the PLT's repeated block."""
    compiled.require()
    (flags,) = (flags for flags in compiled.FLAG_SETS if flags.name == "lazy")
    if tools is not None:
        flags = replace(flags, flags=(*chosen(tmp_path, tools), SFRAME, *flags.flags))
    path = compiled.build(tmp_path, flags)
    if tools is None:
        write_sframe(path, path)
    plt = plt_sections(path)[".plt"]
    expected = {pc: offset for pc, offset in cfi_offsets(path).items() if pc in plt}
    found = [one for one in find_in_file(path, list(expected))[1] if one.source == ".sframe"]
    assert [one.row.cfa.value for one in found if one.row is not None] == list(expected.values())
    assert [one.repetition for one in found] == [0] * 16 + [16] * (len(plt) - 16)
    assert len(plt) > 100


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pcs", [[], ["0x"], ["-1"], ["0x10000000000000000"], ["0x1000", "1.5"], ["08"]])
def test_wrong_usage(pcs: list[str], tmp_path: Path) -> None:
    done = unwindkit("find", written(tmp_path, BOTH), *pcs)
    assert usage_error(done).startswith("unwindkit find: error: ")
    assert "_address" not in done.stderr, "a name that users do not know"


def test_highest_address(tmp_path: Path) -> None:
    assert lines(tmp_path, BOTH, (1 << 64) - 1) == [".eh_frame    no function", ".sframe      no function"]


BROKEN = {
    "no unwind information": (
        tiny_elf(CODE),
        "has no unwind information: none of .eh_frame, .debug_frame, .sframe",
    ),
    "without its bytes": (
        tiny_elf(CODE, Content(".eh_frame", CFI.data, NOBITS)),
        "has no unwind information: none of .eh_frame, .debug_frame, .sframe",
    ),
    "broken .eh_frame": (
        tiny_elf(CODE, Content(".eh_frame", CFI.data[:-1])),
        ".eh_frame+0x2d (file 0x1ad): entry[2].length: the length reaches past the section's end",
    ),
    "broken .sframe beside a good .eh_frame": (
        tiny_elf(CODE, CFI, Content(".sframe", section(ONE)[:-1], SHT_GNU_SFRAME)),
        ".sframe+0x0 (file 0x1d0): header.fre_len: the sub-section ends at 0x37, the section at 0x36",
    ),
    "broken FRE": (
        sframes(section(Fde(-0x80, 0x10, ROWS)).replace(octets("04 03 08"), octets("04 63 08"))),
        ".sframe+0x30 (file 0x1b0): FDE[0].FRE: 3 is not a valid size of stack offsets",
    ),
    "not sorted as flagged": (
        sframes(section(Fde(-0x70, 0x10, ROWS), Fde(-0x80, 0x10, ROWS), flags=SORTED)),
        ".sframe+0x30 (file 0x1b0): FDE[1].func_start_address: is below the one before, "
        "but the section is flagged as sorted",
    ),
    "version 4": (
        sframes(b"\xe2\xde\x04" + section(ONE, flags=PCREL)[3:]),
        ".sframe+0x2 (file 0x182): header.version: unknown version 4, expected one of 1, 2, 3",
    ),
    "not ELF": (b"#!/bin/sh\n", NOT_ELF),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file(name: str, tmp_path: Path) -> None:
    data, says = BROKEN[name]
    path = written(tmp_path, bytes(data))
    for options in ([], ["--json"]):
        refuses(path, "find", *options, path, "0x1004", says=says)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    refuses(tmp_path / "none", "find", tmp_path / "none", "0", says="No such file or directory")
    refuses(tmp_path, "find", tmp_path, "0", says="Is a directory")
