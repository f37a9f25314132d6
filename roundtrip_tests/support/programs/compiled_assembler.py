"""The x86-64 assembler of the programs of compiled.py: frames that no compiler makes, with hand-written CFI."""

from __future__ import annotations

# Every function takes a number in edi and returns one in eax.
ASSEMBLER_SOURCE = r"""
.macro FUNCTION name
 .globl \name
 .type \name, @function
 \name: .cfi_startproc
.endm
.macro END name
 .cfi_endproc
 .size \name, . - \name
.endm
 .text
# Two levels of remembered state; gas has one for SFrame.
FUNCTION nested_states
 .cfi_remember_state
 test %edi, %edi
 jz 1f
 push %rbp
 .cfi_def_cfa_offset 16
 .cfi_offset rbp, -16
 mov %rsp, %rbp
 .cfi_def_cfa_register rbp
 .cfi_remember_state
 cmp $1, %edi
 je 2f
 mov $30, %eax
 pop %rbp
 .cfi_def_cfa rsp, 8
 .cfi_restore rbp
 ret
2: .cfi_restore_state
 mov $20, %eax
 leave
 .cfi_def_cfa rsp, 8
 .cfi_restore rbp
 ret
1: .cfi_restore_state
 mov $10, %eax
 ret
END nested_states
FUNCTION by_expression
 push %rbx
 .cfi_escape 0x0f, 0x02, 0x77, 0x10             # DW_CFA_def_cfa_expression: DW_OP_breg7 16
 .cfi_escape 0x10, 0x03, 0x02, 0x77, 0x00       # DW_CFA_expression rbx: DW_OP_breg7 0
 lea 1(%rdi), %eax
 pop %rbx
 .cfi_def_cfa rsp, 8
 .cfi_restore rbx
 nop
 ret
END by_expression
FUNCTION fp_in_register
 mov %rbp, %r11
 .cfi_register rbp, r11
 lea 2(%rdi), %eax
 mov %r11, %rbp
 .cfi_restore rbp
 ret
END fp_in_register
FUNCTION cfa_in_r10
 mov %rsp, %r10
 .cfi_def_cfa r10, 8
 sub $40, %rsp
 lea 3(%rdi), %eax
 add $40, %rsp
 .cfi_def_cfa rsp, 8
 ret
END cfa_in_r10
FUNCTION signal_frame
 .cfi_signal_frame
 push %rdi
 .cfi_adjust_cfa_offset 8
 lea 4(%rdi), %eax
 pop %rdi
 .cfi_adjust_cfa_offset -8
 ret
END signal_frame
FUNCTION sp_by_value
 .cfi_val_offset rsp, 0
 push %rdi
 .cfi_def_cfa_offset 16
 lea 5(%rdi), %eax
 .cfi_val_offset r11, -24
 .cfi_same_value rbp
 pop %rdi
 .cfi_def_cfa_offset 8
 .cfi_escape 0x2e, 0x00                          # DW_CFA_GNU_args_size 0
 ret
END sp_by_value
# The width of SFrame's start addresses changes from 255 to 256 and from 65535 to 65536 bytes.
.macro SIZED size, result
FUNCTION bytes_\size
 push %rbp
 .cfi_def_cfa_offset 16
 .cfi_offset rbp, -16
 .byte 0xe9                                     # jmp with a 4-byte displacement
 .long 1f - . - 4
 .skip \size - (. - bytes_\size) - 5, 0x90
1: pop %rbp
 .cfi_def_cfa_offset 8
 .cfi_restore rbp
 lea \result(%rdi), %eax
 ret
END bytes_\size
.endm
SIZED 255, 1
SIZED 256, 2
SIZED 65535, 3
SIZED 65536, 4

# Never called: the CFI says what no execution could confirm.
FUNCTION outermost
 nop
 .cfi_undefined rip
 nop
 ret
END outermost
FUNCTION fp_undefined
 nop
 .cfi_undefined rbp
 nop
 .cfi_restore rbp
 ret
END fp_undefined
FUNCTION fp_by_value
 nop
 .cfi_val_offset rbp, -24
 nop
 .cfi_restore rbp
 ret
END fp_by_value
FUNCTION fp_by_expression
 nop
 .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00       # DW_CFA_expression rbp: DW_OP_breg6 0
 nop
 .cfi_escape 0x16, 0x06, 0x02, 0x76, 0x00       # DW_CFA_val_expression rbp: DW_OP_breg6 0
 nop
 .cfi_same_value rbp
 ret
END fp_by_expression
FUNCTION ra_elsewhere
 nop
 .cfi_offset rip, -24
 nop
 .cfi_register rip, rdx
 nop
 .cfi_offset rip, -8
 ret
END ra_elsewhere
 .globl no_cfa
 .type no_cfa, @function
no_cfa: .cfi_startproc simple
 nop
 ret
END no_cfa
 .section .note.GNU-stack, "", @progbits
"""
