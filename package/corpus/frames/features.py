"""What a drawn section may contain that some readers do not know: each can be left out."""

from __future__ import annotations

from enum import Enum

from ...schemas.cfi import DW_CFA
from ...schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_SIZES, value_format


class Feature(Enum):
    """A construct of call frame information. `call_frame_sections(..., without={...})` leaves it out; a drawn section
    lists those that it contains. The value says what it is."""

    DWARF64 = "an entry in 64-bit DWARF"
    HIGH_REGISTER = "a register of 65 or more, other than the usual return address"
    OTHER_RETURN_COLUMN = "a return address column other than the usual one"
    VERSION_3 = "a CIE of version 3"
    VERSION_4 = "a CIE of version 4"
    ADDRESS_SIZE = "a CIE of version 4 with an address size other than that of the file"
    SEGMENT = "a CIE of version 4 with segment selectors"
    WIDE_SEGMENT = "segment selectors that take more than 8 bytes together with an address"
    CIE_AFTER_FDE = "a CIE of .debug_frame after an FDE that points to it"
    TERMINATOR = "terminators at the end of .eh_frame"
    NO_AUGMENTATION = "a CIE of .eh_frame whose augmentation is empty"
    OLD_AUGMENTATION = "the augmentations 'eh' and 'armcc+'"
    AUGMENTED_DEBUG_FRAME = "a CIE of .debug_frame whose augmentation starts with 'z'"
    EXTRA_AUGMENTATION_DATA = "bytes in the augmentation data of an FDE that no letter of the augmentation explains"
    NO_ADDRESS_ENCODING = "a CIE of .eh_frame without 'R' in its augmentation"
    PERSONALITY = "'P' in the augmentation"
    LSDA = "'L' in the augmentation"
    NO_LSDA = "an FDE whose pointer to the LSDA is null, or 'L' with DW_EH_PE_omit"
    SIGNAL_FRAME = "'S' in the augmentation"
    PAUTH_B_KEY = "'B' in the augmentation (AArch64)"
    MEMORY_TAGGING = "'G' in the augmentation (AArch64)"
    LEB128_ADDRESS = "'R' with DW_EH_PE_uleb128 or DW_EH_PE_sleb128"
    LEB128_POINTER = "'P' or 'L' with DW_EH_PE_uleb128 or DW_EH_PE_sleb128"
    WIDE_ADDRESS = "'R' with an 8-byte format where an address has 4"
    SIGNED_POINTER = "DW_EH_PE_signed: a signed value of the size of an address"
    ALIGNED_ADDRESS = "'R' with DW_EH_PE_aligned"
    ALIGNED_POINTER = "'P' or 'L' with DW_EH_PE_aligned"
    INDIRECT_POINTER = "'P' or 'L' with DW_EH_PE_indirect"
    BASED_ADDRESS = "'R' with DW_EH_PE_textrel or DW_EH_PE_datarel"
    BASED_POINTER = "'P' or 'L' with DW_EH_PE_textrel, DW_EH_PE_datarel or DW_EH_PE_funcrel"
    HIGH_ADDRESS = "functions in the upper half of the address space"
    EMPTY_FUNCTION = "an FDE that covers no bytes"
    PADDED_LEB128 = "LEB128 numbers that are longer than necessary"
    NO_CFA = "rows before any CFA rule"
    INITIAL_RULES = "a CIE whose initial instructions are not empty"
    INITIAL_EXPRESSION = "a CIE whose CFA is an expression"
    OTHER_CFA_REGISTER = "a CFA relative to a register other than SP and FP"
    CFA_EXPRESSION = "DW_CFA_def_cfa_expression"
    EXPRESSION = "DW_CFA_expression and DW_CFA_val_expression"
    VAL_OFFSET = "DW_CFA_val_offset and DW_CFA_val_offset_sf"
    SET_LOC = "DW_CFA_set_loc"
    ADVANCE_BY_0 = "an advance of the location by 0"
    ADVANCE_LOC8 = "DW_CFA_MIPS_advance_loc8"
    DEF_CFA_SF = "DW_CFA_def_cfa_sf"
    UNDEFINED = "DW_CFA_undefined"
    REGISTER = "DW_CFA_register"
    NESTED_STATES = "DW_CFA_remember_state where another state is remembered"
    RESTORE = "DW_CFA_restore and DW_CFA_restore_extended"
    NEGATIVE_OFFSET_EXTENDED = "DW_CFA_GNU_negative_offset_extended"
    ARGS_SIZE = "DW_CFA_GNU_args_size"
    WINDOW_SAVE = "DW_CFA_GNU_window_save (SPARC)"
    NEGATE_RA_STATE = "DW_CFA_AARCH64_negate_ra_state (AArch64)"
    NEGATE_RA_STATE_WITH_PC = "DW_CFA_AARCH64_negate_ra_state_with_pc (AArch64)"


# The feature that each instruction is; those not listed are in every reader.
INSTRUCTION_FEATURES = {
    DW_CFA.set_loc: Feature.SET_LOC,
    DW_CFA.MIPS_advance_loc8: Feature.ADVANCE_LOC8,
    DW_CFA.def_cfa_sf: Feature.DEF_CFA_SF,
    DW_CFA.undefined: Feature.UNDEFINED,
    DW_CFA.register: Feature.REGISTER,
    DW_CFA.restore: Feature.RESTORE,
    DW_CFA.restore_extended: Feature.RESTORE,
    DW_CFA.GNU_negative_offset_extended: Feature.NEGATIVE_OFFSET_EXTENDED,
    DW_CFA.GNU_args_size: Feature.ARGS_SIZE,
    DW_CFA.def_cfa_expression: Feature.CFA_EXPRESSION,
    DW_CFA.expression: Feature.EXPRESSION,
    DW_CFA.val_expression: Feature.EXPRESSION,
    DW_CFA.val_offset: Feature.VAL_OFFSET,
    DW_CFA.val_offset_sf: Feature.VAL_OFFSET,
    DW_CFA.AARCH64_negate_ra_state_with_pc: Feature.NEGATE_RA_STATE_WITH_PC,
}

# The letters of an augmentation that starts with 'z'.
LETTER_FEATURES = {
    "P": Feature.PERSONALITY,
    "L": Feature.LSDA,
    "S": Feature.SIGNAL_FRAME,
    "B": Feature.PAUTH_B_KEY,
    "G": Feature.MEMORY_TAGGING,
}


def encoding_features(encoding: int, address_size: int, *, of_address: bool) -> set[Feature]:
    """The features of a DW_EH_PE byte: `of_address` for 'R', otherwise for 'P' and 'L'."""
    if encoding == DW_EH_PE.omit:
        return {Feature.NO_LSDA}
    found = set()
    size = FORMAT_SIZES[value_format(encoding)]
    if size is None:
        found.add(Feature.LEB128_ADDRESS if of_address else Feature.LEB128_POINTER)
    elif size > address_size and of_address:
        found.add(Feature.WIDE_ADDRESS)
    if value_format(encoding) is DW_EH_PE.signed:
        found.add(Feature.SIGNED_POINTER)
    if encoding & DW_EH_PE.indirect:
        found.add(Feature.INDIRECT_POINTER)
    match encoding & APPLICATION_MASK:
        case DW_EH_PE.aligned:
            found.add(Feature.ALIGNED_ADDRESS if of_address else Feature.ALIGNED_POINTER)
        case DW_EH_PE.textrel | DW_EH_PE.datarel | DW_EH_PE.funcrel:
            found.add(Feature.BASED_ADDRESS if of_address else Feature.BASED_POINTER)
    return found
