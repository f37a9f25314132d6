"""Control transfers of x86-64: which instruction calls, returns, jumps or replaces the stack pointer (Intel SDM, 2).

Strategy: prefixes, then one or two opcode bytes and ModRM decide; only the length of a call is computed, because only
its return address is needed.
"""

from __future__ import annotations

from .control import MAX_INSTRUCTION, OTHER, Control, Instruction

_LEGACY_PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
_STACK_POINTER = 4  # in ModRM and opcodes
_HAS_SIB = 4
_DIRECT_CALL, _GROUP_5 = 0xE8, 0xFF
_RETURNS = (0xC2, 0xC3)
_MOV_TO_RM, _MOV_TO_REGISTER, _LEA, _XCHG = 0x89, 0x8B, 0x8D, 0x87
_POP_SP, _XCHG_SP = 0x5C, 0x94
_TWO_BYTES, _SYSCALL = 0x0F, 0x05
_REX_B, _REX_R = 1, 4


def decode(code: bytes) -> Instruction:
    """The instruction at the beginning of `code`, whose bytes may end early."""
    at, rex = 0, 0
    while at < len(code) and code[at] in _LEGACY_PREFIXES:
        at += 1
    if at < len(code) and code[at] & 0xF0 == 0x40:
        rex, at = code[at], at + 1
    padded = code[at:] + bytes(MAX_INSTRUCTION)
    opcode, modrm = padded[0], padded[1]
    if opcode == _DIRECT_CALL:
        return Instruction(Control.CALL, at + 5)
    if opcode in _RETURNS:
        return Instruction(Control.RETURN, 0)
    if opcode == _GROUP_5:
        return _group_5(modrm >> 3 & 7, at + 1 + _operand_size(padded[1:]))
    if opcode == _TWO_BYTES and modrm == _SYSCALL:
        return Instruction(Control.SYSTEM_CALL, at + 2)
    return Instruction(Control.NEW_STACK, 0) if _replaces_stack_pointer(opcode, modrm, rex) else OTHER


def _group_5(operation: int, size: int) -> Instruction:
    if operation == 2:
        return Instruction(Control.CALL, size)
    return Instruction(Control.JUMP, 0) if operation == 4 else OTHER


def _operand_size(code: bytes) -> int:
    """The size in bytes of a ModRM operand: ModRM itself, SIB, displacement."""
    mode, register = code[0] >> 6, code[0] & 7
    if mode == 3:
        return 1
    sib = register == _HAS_SIB
    no_base = register == 5 if not sib else code[1] & 7 == 5
    displacement = (4 if no_base else 0, 1, 4)[mode]
    return 1 + sib + displacement


def _replaces_stack_pointer(opcode: int, modrm: int, rex: int) -> bool:
    """Whether SP gets a value that does not depend on the old one; LEA counts, as its base may be another register."""
    to_rm = modrm >> 6 == 3 and modrm & 7 == _STACK_POINTER and not rex & _REX_B
    to_register = modrm >> 3 & 7 == _STACK_POINTER and not rex & _REX_R
    if opcode in (_MOV_TO_RM, _XCHG) and to_rm:
        return True
    if opcode in (_MOV_TO_REGISTER, _LEA, _XCHG) and to_register:
        return True
    return opcode in (_POP_SP, _XCHG_SP) and not rex & _REX_B
