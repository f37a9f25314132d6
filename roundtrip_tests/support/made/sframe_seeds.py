"""Sound `.sframe` sections of each version and ABI, small, to be corrupted.

Strategy: tables made by hand are written in V2; V1 is the same records with shorter FDEs.
"""

from __future__ import annotations

from dataclasses import replace

from unwindkit import FunctionFlag, to_sframe
from unwindkit.converters.arch.table import Architecture, architecture_of_abi
from unwindkit.converters.rules import RaState, RuleKind
from unwindkit.converters.table.model import Function, RegisterRule, Row, table_of
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.section import Section
from unwindkit.schemas.sframe_abi import SFRAME_ABI

from ..handmade import at, on, row

ADDRESS = 0x400
AMD64 = (row(0, on(7, 8), at(16, -8)), row(1, on(7, 300), at(6, -16), at(16, -8)), row(4, on(6, 16), at(16, -8)))
AARCH64 = (
    row(0, on(31, 0)),
    row(8, on(31, 16), at(29, -16), at(30, -8), ra_state=RaState.SIGNED),
    row(12, on(29, 300)),
)
S390X = (
    row(0, on(15, 160)),
    row(6, on(15, 320), at(11, -72), at(14, -48)),
    row(9, on(15, 160), RegisterRule(11, RuleKind.REGISTER, 16), RegisterRule(14, RuleKind.REGISTER, 17)),
)
ROWS = {
    SFRAME_ABI.AARCH64_ENDIAN_BIG: AARCH64,
    SFRAME_ABI.AARCH64_ENDIAN_LITTLE: AARCH64,
    SFRAME_ABI.AMD64_ENDIAN_LITTLE: AMD64,
    SFRAME_ABI.S390X_ENDIAN_BIG: S390X,
}


def sframe_seeds() -> dict[str, bytes]:
    """A section at ADDRESS by `VERSION-ABI`, each with all FRE types and a repetitive block."""
    seeds = {}
    for abi_arch, rows in ROWS.items():
        architecture = architecture_of_abi(abi_arch)
        data, _ = to_sframe(table_of(architecture, _functions(architecture, rows)), section_address=ADDRESS)
        seeds[f"V2-{abi_arch.name}"] = data
        seeds[f"V1-{abi_arch.name}"] = _in_version_1(data, architecture)
    return seeds


def _functions(architecture: Architecture, rows: tuple[Row, ...]) -> list[Function]:
    key = FunctionFlag.PAUTH_B_KEY if architecture.signs_return_addresses else FunctionFlag(0)
    column = architecture.return_address
    return [
        Function(0x1000, 0x40, rows, return_column=column),
        Function(0x2000, 0x400, (rows[0], replace(rows[1], offset=0x300)), return_column=column, flags=key),
        Function(0x3000, 0x20000, (*rows, replace(rows[0], offset=0x10000)), return_column=column),
        Function(0x30000, 0x40, rows[:2], return_column=column, repetition=16),
    ]


def _in_version_1(data: bytes, architecture: Architecture) -> bytes:
    """The same FREs after FDEs of version 1."""
    order = architecture.byte_order
    section, _ = engine.parse(sframe.SframeSection, Section.of(".sframe", data, ADDRESS, order), 0, len(data))
    fdes = tuple(
        sframe.FuncDescEntryV1(
            # From the field, which is at that offset, to the section's start.
            fde.func_start_address + sframe.HEADER_SIZE + 20 * index,
            *(fde.func_size, fde.func_start_fre_off, fde.func_num_fres, fde.func_info),
        )
        for index, fde in enumerate(section.fdes)
    )
    header = replace(section.header, version=1, flags=sframe.SFRAME_F.FDE_SORTED, freoff=17 * len(fdes))
    return engine.build(replace(section, header=header, fdes=fdes), order)
