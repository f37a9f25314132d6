"""A linked x86-64 file made by hand with all that whole jobs read: code, call frames with their table, SFrame, lines,
a unit with macros, and a symbol.

Strategy: the code comes first, so that its address does not depend on the rest. Sections that are not loaded follow.
"""

from __future__ import annotations

import struct

import unwindkit

from .handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame, octets
from .small_elf import (
    ALLOC,
    BASE,
    ET_EXEC,
    EXEC,
    PROGBITS,
    PT_GNU_EH_FRAME,
    PT_LOAD,
    STRTAB,
    SYMTAB,
    Load,
    Part,
    small_elf,
)

CODE = bytes(0x80)
HEADERS = 64 + 2 * 56  # the file header and two program headers
START = BASE + HEADERS
LINES = f"FILE 0 a.c\nFUNC {START:x} 40 0 main\n{START:x} 40 5 0\n".encode()
# One abbreviation: DW_TAG_compile_unit without children, DW_AT_name (string), DW_AT_stmt_list and DW_AT_macros
# (sec_offset).
ABBREVIATIONS = octets("01 11 00  03 08  10 17  79 17  00 00  00")
# Length, version 5, DW_UT_compile, size of addresses, offset of the abbreviations; its number, the three values.
UNIT = octets("15000000 0500 01 08 00000000  01 612e6300 00000000 00000000")
# Version 5, no flags; DW_MACRO_define of line 1: X 1; the end.
MACROS = octets("0500 00  01 01 58203100  00")
READ, READ_EXECUTE = 4, 5
FUNC, GLOBAL = 2, 1


def linked_elf(start: int = START) -> bytes:
    """The file. Its unwind information is for functions of 0x40 bytes from `start` on, those of the code by default."""
    frames = eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(start, 0x40, "41 0e10"), Fde(start + 0x40, 0x40))
    frames_at = HEADERS + len(CODE)
    header_at = frames_at + len(frames)
    header = unwindkit.to_eh_frame_hdr(frames, BASE + frames_at, BASE + header_at, "x86_64")
    sframe_at = header_at + len(header)
    table = unwindkit.from_eh_frame(frames, BASE + frames_at, "x86_64")
    sframe = unwindkit.to_sframe(table, section_address=BASE + sframe_at)[0]
    # st_name, st_info, st_other, st_shndx, st_value, st_size
    symbol = struct.pack("<IBBHQQ", 1, GLOBAL << 4 | FUNC, 0, 1, START, 0x40)
    lines = unwindkit.to_debug_line(unwindkit.from_line_records(LINES), None)[0]
    return small_elf(
        Part(".text", PROGBITS, ALLOC | EXEC, CODE),
        Part(".eh_frame", PROGBITS, ALLOC, frames),
        Part(".eh_frame_hdr", PROGBITS, ALLOC, header),
        Part(".sframe", PROGBITS, ALLOC, sframe),
        Part(".debug_line", PROGBITS, 0, lines),
        Part(".debug_info", PROGBITS, 0, UNIT),
        Part(".debug_abbrev", PROGBITS, 0, ABBREVIATIONS),
        Part(".debug_macro", PROGBITS, 0, MACROS),
        Part(".symtab", SYMTAB, 0, bytes(24) + symbol, link=10, info=1, entry_size=24),
        Part(".strtab", STRTAB, 0, b"\0main\0"),
        elf_type=ET_EXEC,
        loads=(
            Load(PT_LOAD, READ_EXECUTE, 0, sframe_at + len(sframe)),
            Load(PT_GNU_EH_FRAME, READ, header_at, sframe_at, alignment=4),
        ),
    )
