"""What the SFrame text prescribes for each ABI (ABI/arch-specific Definition).

Strategy: one row per ABI; readers and writers depend on these values, never on an architecture's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .section import ByteOrder


class SFRAME_ABI(IntEnum):
    """ABI and architecture identifiers (SFrame ABI/arch Identifier)."""

    AARCH64_ENDIAN_BIG = 1
    AARCH64_ENDIAN_LITTLE = 2
    AMD64_ENDIAN_LITTLE = 3
    S390X_ENDIAN_BIG = 4


@dataclass(frozen=True, slots=True)
class SframeAbi:
    """One ABI. Offsets are in bytes from the CFA; if `fixed_ra_offset` is None, each row tracks RA.

    The caller's SP is the CFA plus `sp_value_offset`. A stored CFA offset is (offset - `cfa_adjustment`) /
    `cfa_alignment`. `has_register_slots`: an RA or FP word may name a register. `sp_is_saved`: functions save
    the SP with other registers, with that same value. `signs_return_addresses`: an FRE can mark RA as signed.
    """

    abi_arch: SFRAME_ABI
    byte_order: ByteOrder
    fixed_ra_offset: int | None = None
    sp_value_offset: int = 0
    cfa_adjustment: int = 0
    cfa_alignment: int = 1
    has_register_slots: bool = False
    sp_is_saved: bool = False
    signs_return_addresses: bool = False


# An RA or FP word of an ABI with register slots: a DWARF register number, and the bit that marks it as one
# (SFRAME_V2_S390X_OFFSET_ENCODE_REGNUM).
SLOT_REGISTER_SHIFT = 1
SLOT_REGISTER_MARK = 1

SFRAME_ABIS: dict[SFRAME_ABI, SframeAbi] = {
    abi.abi_arch: abi
    for abi in (
        SframeAbi(SFRAME_ABI.AARCH64_ENDIAN_BIG, "big", signs_return_addresses=True),
        SframeAbi(SFRAME_ABI.AARCH64_ENDIAN_LITTLE, "little", signs_return_addresses=True),
        SframeAbi(SFRAME_ABI.AMD64_ENDIAN_LITTLE, "little", fixed_ra_offset=-8),
        SframeAbi(
            SFRAME_ABI.S390X_ENDIAN_BIG, "big", sp_value_offset=-160, cfa_adjustment=160, cfa_alignment=8,
            has_register_slots=True, sp_is_saved=True,
        ),
    )
}  # fmt: skip
