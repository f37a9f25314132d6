"""Debugging information entries that describe functions, and those whose names qualify theirs (DWARF5 3.2, 3.3, 5.7).

Strategy: only tags and attributes that matter for the question which function and which inlined function an address is
in. How values are stored is the table of forms in `roots.py`.
"""

from __future__ import annotations

from enum import IntEnum


class DW_TAG(IntEnum):
    """Tags of functions and of what encloses them (DWARF5 table 7.3)."""

    class_type = 0x02
    enumeration_type = 0x04
    structure_type = 0x13
    union_type = 0x17
    inlined_subroutine = 0x1D
    module = 0x1E
    subprogram = 0x2E
    interface_type = 0x38
    namespace = 0x39


class DW_AT(IntEnum):
    """Attributes of these entries and of units (DWARF5 table 7.5), with GNU's of split DWARF 4, and the linkage name of
    compilers before DWARF 4."""

    name_ = 0x03
    low_pc = 0x11
    high_pc = 0x12
    language = 0x13
    abstract_origin = 0x31
    decl_file = 0x3A
    decl_line = 0x3B
    specification = 0x47
    ranges = 0x55
    call_file = 0x58
    call_line = 0x59
    signature = 0x69
    linkage_name = 0x6E
    addr_base = 0x73
    rnglists_base = 0x74
    MIPS_linkage_name = 0x2007
    GNU_dwo_id = 0x2131
    GNU_ranges_base = 0x2132
    GNU_addr_base = 0x2133


# Tags of entries whose names qualify those of the entries that they contain.
SCOPES = (
    DW_TAG.class_type,
    DW_TAG.enumeration_type,
    DW_TAG.structure_type,
    DW_TAG.union_type,
    DW_TAG.module,
    DW_TAG.interface_type,
    DW_TAG.namespace,
)
# Compilers nest entries a few dozen deep.
MAX_DEPTH = 4096
