"""What the SFrame text prescribes for each ABI (ABI/arch-specific Definition).

Strategy: one row per ABI; readers and writers depend on these values, never on an architecture's name.
"""

from __future__ import annotations

from enum import IntEnum

from .data_classes import dataclass
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

    A stored CFA offset is (offset - `cfa_adjustment`) / `cfa_alignment`. `has_register_slots`: an RA or FP word may
    name a register. `sp_is_saved`: functions save the SP with other registers, with the value that the CFA gives.
    `signs_return_addresses`: an FRE can mark RA as signed.
    """

    abi_arch: SFRAME_ABI
    byte_order: ByteOrder
    fixed_ra_offset: int | None = None
    cfa_adjustment: int = 0
    cfa_alignment: int = 1
    has_register_slots: bool = False
    sp_is_saved: bool = False
    signs_return_addresses: bool = False


# The caller's SP, in bytes from the CFA. No CFA offset is below its negative, so that is subtracted from stored ones.
SFRAME_S390X_SP_VAL_OFFSET = -160

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
            SFRAME_ABI.S390X_ENDIAN_BIG, "big", cfa_adjustment=-SFRAME_S390X_SP_VAL_OFFSET, cfa_alignment=8,
            has_register_slots=True, sp_is_saved=True,
        ),
    )
}  # fmt: skip
