"""Readelf's names of the registers that SFrame tracks, and the values that SFrame's ABIs fix, by architecture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .oracles import OracleError


@dataclass(frozen=True, slots=True)
class Architecture:
    """Readelf's names of the registers that SFrame tracks, and the values that SFrame's ABI fixes.

    `fp`, `sp`, `ra` are (DWARF number, name in -wF). `ra_fixed` is the CFA-relative offset of an untracked RA
    (None: tracked). `sp_rule` matches the valid rules of the SP, which SFrame derives from the CFA.
    """

    name: str
    fp: tuple[int, str]
    sp: tuple[int, str]
    ra: tuple[int, str]
    ra_fixed: int | None
    sp_rule: str
    fp_needs_ra: bool = False
    in_registers: bool = False
    cfa_multiple: int = 1
    slot_multiple: int = 1


ARCHITECTURES = {  # by e_machine
    62: Architecture("x86_64", (6, "rbp"), (7, "rsp"), (16, "rip"), -8, r"v\+0"),
    183: Architecture("aarch64", (29, "x29"), (31, "sp"), (30, "x30"), None, r"v\+0", fp_needs_ra=True),
    # The CFA offset is stored in units of 8, and an odd slot offset would be a register (specification, s390x).
    22: Architecture(
        "s390x", (11, "r11"), (15, "r15"), (14, "r14"), None, r"v-160|c[+-]\d+|r\d+.*",
        in_registers=True, cfa_multiple=8, slot_multiple=2,
    ),
}  # fmt: skip


def architecture_of(path: Path) -> Architecture:
    with path.open("rb") as file:
        header = file.read(20)
    machine = int.from_bytes(header[18:20], "big" if header[5] == 2 else "little")
    if header[:5] != b"\x7fELF\x02" or machine not in ARCHITECTURES:
        raise OracleError(f"{path}: not ELF64 of an architecture that SFrame knows (e_machine {machine})")
    return ARCHITECTURES[machine]
