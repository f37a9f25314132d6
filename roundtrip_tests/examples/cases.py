"""Bytes and texts of the documents' examples, for test_documents.py; a comment for each field.

Strategy: documents give structures, tables, listings and figures; where a figure is a drawing, as in the introduction
to call frame information, its bytes are those of the same example in DWARF 4, appendix D.6, from which it is taken.
"""

from __future__ import annotations

# --- Call Frame Information (CFI), "Example Demonstration" --------------------------------------------------------

# The document's machine: big-endian, words of 4 bytes.
M88000 = "EM_88K-32-big"
M88000_FOO = 0x1000
M88000_DEBUG_FRAME = """
    00000020            # CIE: length
    ffffffff            # CIE_id
    04 00 04 00         # version, augmentation "", address_size, segment_size
    04 7c 08            # code_alignment_factor 4, data_alignment_factor -4, return_address_register 8
    0c 07 00            # DW_CFA_def_cfa (7, 0)
    08 00               # DW_CFA_same_value (0)
    07 01 07 02 07 03   # DW_CFA_undefined (1), (2), (3)
    08 04 08 05 08 06   # DW_CFA_same_value (4), (5), (6)
    09 08 01            # DW_CFA_register (8, 1)
    00                  # DW_CFA_nop

    00000028            # FDE: length
    00000000            # CIE_pointer
    00001000 00000054   # initial_location foo, address_range 84
    41 0e 0c            # DW_CFA_advance_loc (1), DW_CFA_def_cfa_offset (12)
    41 88 01            # DW_CFA_advance_loc (1), DW_CFA_offset (8, 1)
    41 86 02            # DW_CFA_advance_loc (1), DW_CFA_offset (6, 2)
    41 0d 06            # DW_CFA_advance_loc (1), DW_CFA_def_cfa_register (6)
    41 84 03            # DW_CFA_advance_loc (1), DW_CFA_offset (4, 3)
    4c c4               # DW_CFA_advance_loc (12), DW_CFA_restore (4)
    41 c6 0d 07         # DW_CFA_advance_loc (1), DW_CFA_restore (6), DW_CFA_def_cfa_register (7)
    41 c8               # DW_CFA_advance_loc (1), DW_CFA_restore (8)
    41 0e 00            # DW_CFA_advance_loc (1), DW_CFA_def_cfa_offset (0)
    00 00               # DW_CFA_nop
"""
# Offset, CFA and the rules of R0 to R8, in the document's notation; <fs> is 12. The prose has the first four rows.
M88000_ROWS = """
    0  R7+0   s u u u s    s s    a r1
    4  R7+12  s u u u s    s s    a r1
    8  R7+12  s u u u s    s s    a c-4
    12 R7+12  s u u u s    s c-8  a c-4
    16 R6+12  s u u u s    s c-8  a c-4
    20 R6+12  s u u u c-12 s c-8  a c-4
    68 R6+12  s u u u s    s c-8  a c-4
    72 R7+12  s u u u s    s s    a c-4
    76 R7+12  s u u u s    s s    a r1
    80 R7+0   s u u u s    s s    a r1
"""

# --- Stack Unwinding by CFI (RISC-V) ------------------------------------------------------------------------------

# Section 4: foos.o's .eh_frame, at the address 0 as the listing shows it, with four functions of 0x14 bytes.
_RISCV_INSTRUCTIONS = """
    42 0e 10            # DW_CFA_advance_loc: 2, DW_CFA_def_cfa_offset: 16
    42 81 02            # DW_CFA_advance_loc: 2, DW_CFA_offset: r1 (ra) at cfa-8, as 2 * -4
    4c c1               # DW_CFA_advance_loc: 12, DW_CFA_restore: r1 (ra)
    42 0e 00            # DW_CFA_advance_loc: 2, DW_CFA_def_cfa_offset: 0
"""
RISCV_EH_FRAME = f"""
    10000000 00000000   # CIE: length, CIE_id
    03 7a5200           # version, augmentation "zR"
    01 7c 01            # code_alignment_factor 1, data_alignment_factor -4, return address column 1
    01 1b               # augmentation data: DW_EH_PE_pcrel | DW_EH_PE_sdata4
    0d 02 00            # DW_CFA_def_cfa_register: r2 (sp), DW_CFA_nop

    18000000 18000000   # FDE of foo_3: length, CIE_pointer
    e4ffffff 14000000   # initial_location 0 - 0x1c, address_range
    00                  # augmentation data: none
    {_RISCV_INSTRUCTIONS}
    18000000 34000000   # of foo_2
    dcffffff 14000000 00  # 0x14 - 0x38
    {_RISCV_INSTRUCTIONS}
    18000000 50000000   # of foo_1
    d4ffffff 14000000 00  # 0x28 - 0x54
    {_RISCV_INSTRUCTIONS}
    1c000000 6c000000   # of foo_0
    ccffffff 14000000 00  # 0x3c - 0x70
    {_RISCV_INSTRUCTIONS}
    00 00 00 00         # DW_CFA_nop
"""
# Section 3, table 1: the rules of the CFA and of ra at each instruction of foo_3. Where ra is not saved, or was just
# restored, it is "u", as in the listing of section 4.
RISCV_TABLE_1 = {
    0x00: ("sp+0", "u"),
    0x02: ("sp+16", "u"),
    0x04: ("sp+16", "c-8"),
    0x08: ("sp+16", "c-8"),
    0x0C: ("sp+16", "c-8"),
    0x0E: ("sp+16", "c-8"),
    0x10: ("sp+16", "u"),
    0x12: ("sp+0", "u"),
}
# Section 4: the listing of `readelf -wf` for the CIE and the first FDE, and that of `readelf -wF` for the latter. The
# document's readelf (2.38) is older than the one whose text we print (2.47); only spaces at the ends of lines differ.
RISCV_READELF_WF = """
00000000 0000000000000010 00000000 CIE
  Version:               3
  Augmentation:          "zR"
  Code alignment factor: 1
  Data alignment factor: -4
  Return address column: 1
  Augmentation data:     1b
  DW_CFA_def_cfa_register: r2 (sp)
  DW_CFA_nop

00000014 0000000000000018 00000018 FDE cie=00000000 pc=0000000000000000..0000000000000014
  DW_CFA_advance_loc: 2 to 0000000000000002
  DW_CFA_def_cfa_offset: 16
  DW_CFA_advance_loc: 2 to 0000000000000004
  DW_CFA_offset: r1 (ra) at cfa-8
  DW_CFA_advance_loc: 12 to 0000000000000010
  DW_CFA_restore: r1 (ra)
  DW_CFA_advance_loc: 2 to 0000000000000012
  DW_CFA_def_cfa_offset: 0
"""
RISCV_READELF_ROWS = """
00000014 0000000000000018 00000018 FDE cie=00000000 pc=0000000000000000..0000000000000014
   LOC           CFA      ra
0000000000000000 sp+0     u
0000000000000002 sp+16    u
0000000000000004 sp+16    c-8
0000000000000010 sp+16    u
0000000000000012 sp+0     u
"""
# Section 5: foo_3 in foos.s. `call` is two instructions of 4 bytes, each other one has 2 bytes (section 3).
RISCV_DIRECTIVES = """
        .text
        .align  1
        .globl  foo_3
        .type   foo_3, @function
foo_3:
.LFB0:
        .cfi_startproc
        addi    sp,sp,-16
        .cfi_def_cfa_offset 16
        sd      ra,8(sp)
        .cfi_offset 1, -8
        call    unwind_by_backtrace
        nop
        ld      ra,8(sp)
        .cfi_restore 1
        addi    sp,sp,16
        .cfi_def_cfa_offset 0
        jr      ra
        .cfi_endproc
.LFE0:
        .size   foo_3, .-foo_3
"""
# Section 6: return addresses of the backtrace from foo_3 on, all in the function at 8 bytes before; and main's.
RISCV_BACKTRACE = {"foo_3": 0x109CA, "foo_2": 0x109DA, "foo_1": 0x109EA, "foo_0": 0x109FA, "main": 0x109B8}

# --- Breakpad, Symbol Files ---------------------------------------------------------------------------------------

# "STACK CFI records", at the end: the whole CFI of `func`, at 0x1000.
BREAKPAD_FUNC = """STACK CFI INIT 1000 .cfa: $sp .ra: .cfa ^
STACK CFI      1001 .cfa: $sp 16 +
STACK CFI      1002 $r0: .cfa 4 - ^
STACK CFI      100b .cfa: $sp 20 +
STACK CFI      1015 $r0: $r0
STACK CFI      1016 .cfa: $sp
"""
# Its table: the CFA, relative to sp, and whether r0 is saved at cfa[-4], from each offset on.
BREAKPAD_TABLE = {0: (0, False), 1: (16, False), 2: (16, True), 11: (20, True), 21: (20, False), 22: (0, False)}

# --- DWARF, Other Debugging Information ---------------------------------------------------------------------------

# "Special Opcodes": the header of the example, in 32-bit DWARF 4; two fields are filled in. The program follows.
LINE_HEADER = """
    0400                # version
    1b000000            # header_length
    01 {maximum} {default_is_stmt}  # minimum_instruction_length, maximum_operations_per_instruction, default_is_stmt
    fd 0c 0d            # line_base -3, line_range 12, opcode_base 13
    00 01 01 01 01 00 00 00 01 00 00 01  # standard_opcode_lengths
    00                  # include_directories: none
    612e6300 00 00 00   # file_names: "a.c", directory 0, no time, no length
    00                  # their end
"""
