"""Control transfers of AArch64 (Arm ARM, C4.1) and of s390x (z/Architecture Principles of Operation, 7).

Strategy: the encodings as masks and values. On s390x a return is a branch to a register; that it leaves the function is
known by its target. AArch64's exclusive loads are known, too: a stop after one makes the store that follows fail.
"""

from __future__ import annotations

from collections.abc import Iterator

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


# AArch64 (Arm ARM, C4.1.88 and C4.1.86): masks and values.
_LOADS_EXCLUSIVE = ((0x3FE00000, 0x08400000), (0xBFE00000, 0x88600000))  # LDXR, LDAXR; LDXP, LDAXP
_STORES_EXCLUSIVE = ((0x3FE00000, 0x08000000), (0xBFE00000, 0x88200000))  # STXR, STLXR; STXP, STLXP
_BRANCHES = (  # with the number of bits of their offset, from bit 5 on
    (0xFF000010, 0x54000000, 19),  # B.cond
    (0x7E000000, 0x34000000, 19),  # CBZ, CBNZ
    (0x7E000000, 0x36000000, 14),  # TBZ, TBNZ
)
MAX_EXCLUSIVE = 16  # instructions of a sequence


def exclusive_exits(code: bytes, address: int) -> tuple[int, ...]:
    """Where execution may go on after the sequence of a load exclusive and its store that begins at `address`; none if
    `code`, the bytes there, does not begin with one."""
    words = [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code) & ~3, 4)]
    if not words or not _is_one_of(words[0], _LOADS_EXCLUSIVE):
        return ()
    last = next((index for index, word in enumerate(words) if _is_one_of(word, _STORES_EXCLUSIVE)), None)
    if last is None:
        return ()
    end = address + 4 * last + 4
    targets = {address + 4 * index + offset for index in range(last) for offset in _branch_offsets(words[index])}
    return (end, *sorted(one for one in targets if not address <= one <= end))


def _is_one_of(word: int, encodings: tuple[tuple[int, int], ...]) -> bool:
    return any(word & mask == value for mask, value in encodings)


def _branch_offsets(word: int) -> Iterator[int]:
    """The offset in bytes of the target of a conditional branch."""
    for mask, value, bits in _BRANCHES:
        if word & mask == value:
            field, sign = word >> 5 & (1 << bits) - 1, 1 << (bits - 1)
            yield 4 * ((field ^ sign) - sign)


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
