"""`.sframe` sections made by hand, field by field, even such as no tool writes; dumped by readelf and by us.

Strategy: a test gives the fields that it is about, and all others are filled in so that counts and offsets are correct.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unwindkit.jobs.dump import dump_sframe
from unwindkit.schemas import engine
from unwindkit.schemas.sframe import FdeInfo, FrameRowEntry, FreInfo, FuncDescEntry, Header, SframeSection
from unwindkit.schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS

from ..oracles import OracleError, run_oracle
from ..tiny_elf import ALLOC, CODE, Content, tiny_elf
from ..wrapped import SHT_GNU_SFRAME, wrapped_section

AMD64, S390X, AARCH64 = SFRAME_ABI.AMD64_ENDIAN_LITTLE, SFRAME_ABI.S390X_ENDIAN_BIG, SFRAME_ABI.AARCH64_ENDIAN_LITTLE
E_MACHINES = {AMD64: 62, S390X: 22, AARCH64: 183, SFRAME_ABI.AARCH64_ENDIAN_BIG: 183}
ADDRESS = 0x10000  # of the section
PLAIN = FdeInfo(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Fde:
    """An FDE and its FREs, of one start address width; `shares`: it has none, and refers to those of the first."""

    start: int
    size: int
    fres: tuple[FrameRowEntry, ...] = ()
    info: FdeInfo = PLAIN
    repetition: int = 0
    shares: int = 0


def fre(start: int, *offsets: int, size: int = 0, base: int = 1, signed: int = 0) -> FrameRowEntry:
    """An FRE with offsets of 1 << `size` bytes, on SP or (base 0) FP."""
    return FrameRowEntry(start, FreInfo(signed, size, len(offsets), base), offsets)


def masked(fretype: int = 0) -> FdeInfo:
    return FdeInfo(0, 0, 1, fretype)


def section(
    *fdes: Fde, abi: SFRAME_ABI = AMD64, auxiliary: bytes = b"", gap: bytes = b"", behind: bytes = b"", **header: Any
) -> bytes:
    """A section of these; header fields as given, otherwise correct ones and no flags."""
    order = SFRAME_ABIS[abi].byte_order
    fres, entries = b"", []
    for fde in fdes:
        width = fde.info.fretype
        counted = (0, fde.shares) if fde.shares else (len(fres), len(fde.fres))
        entries.append(FuncDescEntry(fde.start, fde.size, *counted, fde.info, fde.repetition, 0))
        fres += b"".join(engine.build(one, order, fretype=width) for one in fde.fres)
    fields = {
        "magic": 0xDEE2,
        "version": 2,
        "flags": 0,
        "abi_arch": abi,
        "cfa_fixed_fp_offset": 0,
        "cfa_fixed_ra_offset": SFRAME_ABIS[abi].fixed_ra_offset or 0,
        "auxhdr_len": len(auxiliary),
        "num_fdes": len(fdes),
        "num_fres": sum(len(fde.fres) for fde in fdes),
        "fre_len": len(fres),
        "fdeoff": len(gap),
        "freoff": len(gap) + 20 * len(fdes),
    }
    record = SframeSection(Header(**fields | header), auxiliary, gap, tuple(entries), b"", fres, behind)
    return engine.build(record, order)


SORTED, FRAME_POINTER, PCREL = 1, 2, 4
ONE = Fde(0x1000, 16, (fre(0, 8), fre(4, 16, -16)))
TRACKED = Fde(0x1000, 16, (fre(0, 0), fre(4, 16, -8, -16)))
TWICE = Fde(0x2000, 16, shares=2)  # the FREs of the first


def sframes(*contents: bytes, section_type: int = SHT_GNU_SFRAME, flags: int = ALLOC, **header: int) -> bytes:
    """An x86-64 file with each of these as an `.sframe`."""
    found = (Content(".sframe", data, section_type, flags) for data in contents)
    return bytes(tiny_elf(CODE, *found, **header))


def shown(path: Path, data: bytes, abi: SFRAME_ABI = AMD64, address: int = ADDRESS) -> Path:
    """A file with that section, of the ABI's architecture."""
    wrapped_section(path, data, address, E_MACHINES[abi], SFRAME_ABIS[abi].byte_order)
    return path


def by_us(path: Path) -> str:
    return b"".join(dump_sframe(path)).decode()


def by_readelf(path: Path) -> str:
    return run_oracle("readelf", "--sframe", path)


def readelf_or_error(path: Path) -> str:
    """readelf's output, or its error message where it fails."""
    try:
        return by_readelf(path)
    except OracleError as error:
        return str(error)
