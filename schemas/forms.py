"""Attribute forms used outside `.debug_info`: how a value of each is stored (DWARF5 7.5.6, table 7.6).

Strategy: `FORM_KINDS` is the only table. The reference engine parses and builds by it; the kernels' storage codes and
the strategies are derived from it. Forms whose values need a unit of `.debug_info` are absent.
"""

from __future__ import annotations

from enum import IntEnum

from .wire import SLEB, U8, U16, U32, U64, ULEB, Block, Integer, Kind, NulTerminated, Sized, SizedBlock, Variable


class DW_FORM(IntEnum):
    """Forms of values in the tables of a line number program header, and of macro operands."""

    block2 = 0x03
    block4 = 0x04
    data2 = 0x05
    data4 = 0x06
    data8 = 0x07
    string = 0x08
    block = 0x09
    block1 = 0x0A
    data1 = 0x0B
    flag = 0x0C
    sdata = 0x0D
    strp = 0x0E
    udata = 0x0F
    sec_offset = 0x17
    strx = 0x1A
    strp_sup = 0x1D
    data16 = 0x1E
    line_strp = 0x1F
    strx1 = 0x25
    strx2 = 0x26
    strx3 = 0x27
    strx4 = 0x28


# An offset into another section; the DWARF format decides its size.
SECTION_OFFSET = Variable(lambda this: int(this._params.dwarf_format))

FORM_KINDS: dict[DW_FORM, Kind] = {
    DW_FORM.block2: SizedBlock(2),
    DW_FORM.block4: SizedBlock(4),
    DW_FORM.data2: U16,
    DW_FORM.data4: U32,
    DW_FORM.data8: U64,
    DW_FORM.string: NulTerminated(),
    DW_FORM.block: Block(),
    DW_FORM.block1: SizedBlock(1),
    DW_FORM.data1: U8,
    DW_FORM.flag: U8,
    DW_FORM.sdata: SLEB,
    DW_FORM.strp: SECTION_OFFSET,
    DW_FORM.udata: ULEB,
    DW_FORM.sec_offset: SECTION_OFFSET,
    DW_FORM.strx: ULEB,
    DW_FORM.strp_sup: SECTION_OFFSET,
    DW_FORM.data16: Sized(lambda _: 16),
    DW_FORM.line_strp: SECTION_OFFSET,
    DW_FORM.strx1: U8,
    DW_FORM.strx2: U16,
    DW_FORM.strx3: Integer(3),
    DW_FORM.strx4: U32,
}
