"""elfutils' libdw, through ctypes: the rows of `.eh_frame` and `.debug_frame`. Argument: libdw's path.

libdw starts with the rules of the ABI, so that "no rule" is not told from DW_CFA_same_value and DW_CFA_undefined: such
fields, and expressions, are answered as unknown. It does not tell whether a return address is signed. Of an empty
section it says that the file is invalid: that is answered as no rows.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from ctypes import POINTER, byref, c_bool, c_int, c_size_t, c_uint8, c_uint64, c_void_p

from .protocol import FP, Refused, Request, serve

ELF_C_READ, DWARF_C_READ, EV_CURRENT = 1, 0, 1
BREGX, CALL_FRAME_CFA, PLUS_UCONST, REGX, STACK_VALUE = 0x92, 0x9C, 0x23, 0x90, 0x9F
UNKNOWN, NO_ROW = "?", "-"
EMPTY = ("invalid ELF file", "no DWARF information")


class Op(ctypes.Structure):
    """Dwarf_Op of libdw.h."""

    _fields_ = (("atom", c_uint8), ("number", c_uint64), ("number2", c_uint64), ("offset", c_uint64))


def signed(number: int) -> int:
    """A Dwarf_Word as a signed number."""
    return number - (number >> 63 << 64)


class Library:
    """libdw with the types of what is called."""

    def __init__(self, path: str) -> None:
        self.dw = dw = ctypes.CDLL(path)
        self.elf = ctypes.CDLL("libelf.so.1")
        self.elf.elf_version(EV_CURRENT)
        for function in (self.elf.elf_begin, dw.dwarf_begin_elf, dw.dwarf_getcfi, dw.dwarf_getcfi_elf):
            function.restype = c_void_p
        self.elf.elf_begin.argtypes = [c_int, c_int, c_void_p]
        self.elf.elf_end.argtypes = dw.dwarf_getcfi.argtypes = dw.dwarf_getcfi_elf.argtypes = [c_void_p]
        dw.dwarf_begin_elf.argtypes = [c_void_p, c_int, c_void_p]
        dw.dwarf_cfi_addrframe.argtypes = [c_void_p, c_uint64, POINTER(c_void_p)]
        dw.dwarf_frame_info.argtypes = [c_void_p, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_bool)]
        dw.dwarf_frame_cfa.argtypes = [c_void_p, POINTER(POINTER(Op)), POINTER(c_size_t)]
        dw.dwarf_frame_register.argtypes = [c_void_p, c_int, Op * 3, POINTER(POINTER(Op)), POINTER(c_size_t)]
        dw.dwarf_errmsg.restype = ctypes.c_char_p

    def cfi(self, elf: int, section: str) -> int | None:
        """A Dwarf_CFI of one section; None for an empty one."""
        dwarf = elf if section == ".eh_frame" else self.dw.dwarf_begin_elf(elf, DWARF_C_READ, None)
        get = self.dw.dwarf_getcfi_elf if section == ".eh_frame" else self.dw.dwarf_getcfi
        found: int | None = get(dwarf) if dwarf else None
        if not found and (message := self.dw.dwarf_errmsg(-1).decode()) not in EMPTY:
            raise Refused(message)
        return found

    def row(self, cfi: int, pc: int, fp: int) -> list[str]:
        """CFA, RA and FP at a PC."""
        frame, ops, count = c_void_p(), POINTER(Op)(), c_size_t()
        if self.dw.dwarf_cfi_addrframe(cfi, pc, byref(frame)):
            message = self.dw.dwarf_errmsg(-1).decode()
            return [NO_ROW] if "no matching address range" in message else ["error", message]
        ra = self.dw.dwarf_frame_info(frame, byref(c_uint64()), byref(c_uint64()), byref(c_bool()))
        if self.dw.dwarf_frame_cfa(frame, byref(ops), byref(count)):
            return ["error", self.dw.dwarf_errmsg(-1).decode()]
        is_register = count.value == 1 and ops[0].atom == BREGX
        cfa = f"r{ops[0].number}{signed(ops[0].number2):+d}" if is_register else UNKNOWN
        return [cfa, self.rule(frame, ra), self.rule(frame, fp)]

    def rule(self, frame: c_void_p, register: int) -> str:
        """The rule of a register."""
        memory, ops, count = (Op * 3)(), POINTER(Op)(), c_size_t()
        if self.dw.dwarf_frame_register(frame, register, memory, byref(ops), byref(count)):
            return UNKNOWN
        found = [(ops[index].atom, ops[index].number) for index in range(count.value)]
        is_value = bool(found) and found[-1][0] == STACK_VALUE
        match found[: len(found) - is_value]:
            case [(atom, number)] if atom == REGX:
                return f"r{number}+0"
            case [(atom, _)] if atom == CALL_FRAME_CFA:
                return "v+0" if is_value else "c+0"
            case [(first, _), (second, number)] if (first, second) == (CALL_FRAME_CFA, PLUS_UCONST):
                return f"{'v' if is_value else 'c'}{signed(number):+d}"
        return UNKNOWN


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    file = os.open(request.path, os.O_RDONLY)
    try:
        elf = LIBRARY.elf.elf_begin(file, ELF_C_READ, None)
        cfi = LIBRARY.cfi(elf, request.section)
        fp = FP[request.architecture]
        return [LIBRARY.row(cfi, pc, fp) if cfi else [NO_ROW] for pc in request.pcs]
    finally:
        os.close(file)


if __name__ == "__main__":
    LIBRARY = Library(sys.argv[1])
    serve(answer)
