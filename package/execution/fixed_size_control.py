"""Control transfers of AArch64 (Arm ARM, C4.1) and of s390x (z/Architecture Principles of Operation, 7).

Strategy: the encodings as masks and values. On s390x a return is a branch to a register; that it leaves the function is
known by its target.
"""

from __future__ import annotations

from .control import OTHER, Control, Instruction

# AArch64: mask, value of the little-endian word.
_AARCH64 = (
    (0xFC000000, 0x94000000, Control.CALL),  # BL
    (0xFFFFFC1F, 0xD63F0000, Control.CALL),  # BLR
    (0xFEFFF800, 0xD63F0800, Control.CALL),  # BLRAA, BLRAB, BLRAAZ, BLRABZ
    (0xFFFFFC1F, 0xD65F0000, Control.RETURN),  # RET
    (0xFFFFFBFF, 0xD65F0BFF, Control.RETURN),  # RETAA, RETAB
    (0xFFFFFC1F, 0xD61F0000, Control.JUMP),  # BR
    (0xFEFFF800, 0xD61F0800, Control.JUMP),  # BRAA, BRAB, BRAAZ, BRABZ
    (0xFFE0001F, 0xD4000001, Control.SYSTEM_CALL),  # SVC
    (0xFFFFFC1F, 0x9100001F, Control.NEW_STACK),  # MOV SP, Xn
)


def decode_aarch64(code: bytes) -> Instruction:
    """The instruction at the beginning of `code`; instructions are little-endian whatever the order of data."""
    word = int.from_bytes(code[:4], "little")
    control = next((control for mask, value, control in _AARCH64 if word & mask == value), Control.OTHER)
    return OTHER if control is Control.OTHER else Instruction(control, 4)


_LINK = 14
_STACK = 15


def decode_s390x(code: bytes) -> Instruction:
    """The instruction at the beginning of `code`. A call is one that links in r14."""
    first, second = code[0], code[1] if len(code) > 1 else 0
    high, low = second >> 4, second & 15
    if first == 0x0D and low:  # BASR R1,R2; with R2 = 0 it does not branch
        return Instruction(Control.CALL, 2) if high == _LINK else OTHER
    if (first, low) == (0xA7, 5) or first == 0x4D:  # BRAS, BAS
        return Instruction(Control.CALL, 4) if high == _LINK else OTHER
    if (first, low) == (0xC0, 5):  # BRASL
        return Instruction(Control.CALL, 6) if high == _LINK else OTHER
    if first == 0x07 and high and low:  # BCR M1,R2
        return Instruction(Control.RETURN, 0)
    if first == 0x0A:  # SVC
        return Instruction(Control.SYSTEM_CALL, 2)
    if first == 0xB9 and second == 0x04 and len(code) > 3 and code[3] >> 4 == _STACK:  # LGR r15,R2
        return Instruction(Control.NEW_STACK, 0)
    return OTHER
