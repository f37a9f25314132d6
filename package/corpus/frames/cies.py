"""CIEs: what they mean, drawn first, and their bytes (DWARF5 6.4.1; LSB Core 10.6.1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

from ...converters.arch.table import Architecture
from ...converters.rules import CfaKind
from ...converters.table.model import CfaRule, FunctionFlag, Row
from ...schemas.cfi import EH_FRAME, Dialect
from ...schemas.data_classes import dataclass
from ...schemas.pointers import DW_EH_PE
from ...schemas.section import ByteOrder
from ...schemas.wire import DwarfFormat
from ..byte_stream import ByteStream
from ..choices import Choice, Draw, integers, sampled_from
from .features import LETTER_FEATURES, Feature, encoding_features
from .instructions import InstructionWriter, write_changes
from .regions import MAX_LSDAS, Region, address_encodings, pointer_encodings
from .row_meaning import HIGH_REGISTERS, NO_ROW, RowContext, draw_initial_row, row_choices

T = TypeVar("T")

_EH_AUGMENTATIONS = ["zR", "zR", "zR", "zPLR", "zPLR", "zLR", "zRS", "zRB", "zRG", "zPR", "zPLRSBG", "zRLP", "zSRL"]
_EH_AUGMENTATIONS += ["", "z", "zP", "zL", "zS", "zB", "zPL", "eh", "armcc+"]
_DEBUG_AUGMENTATIONS = ["", "", "", "", "armcc+", "z", "zR", "zRS", "zPLR", "zLR"]
_LETTER_FLAGS = {
    "S": FunctionFlag.SIGNAL_FRAME,
    "B": FunctionFlag.PAUTH_B_KEY,
    "G": FunctionFlag.MEMORY_TAGGING,
}
_INDICES = integers(0, 255)
_PADDING = sampled_from([0, 0, 0, 0, 0, 1, 3])
_OFFSETS = integers(1, MAX_LSDAS)


@dataclass(frozen=True, slots=True)
class Setting:
    """What all entries of a section share. `without` has also the features that the machine or the section lacks."""

    architecture: Architecture
    dialect: Dialect
    byte_order: ByteOrder
    region: Region
    without: frozenset[Feature]


@dataclass(frozen=True, slots=True)
class CieMeaning:
    """The fields of a CIE, and the row that its initial instructions make. Encodings are DW_EH_PE bytes,
    DW_EH_PE_omit where the augmentation has no such letter; `padding` is that of its LEB128 numbers."""

    dwarf_format: DwarfFormat
    version: int
    augmentation: str
    address_size: int
    segment_size: int
    code_factor: int
    data_factor: int
    return_column: int
    address_encoding: int
    lsda_encoding: int
    personality_encoding: int
    personality: int
    padding: int
    row: Row = NO_ROW

    @property
    def is_augmented(self) -> bool:
        """Whether it and its FDEs have augmentation data."""
        return self.augmentation[:1] == "z"

    @property
    def flags(self) -> FunctionFlag:
        """The flags of its functions."""
        found = FunctionFlag(0)
        for letter in self.augmentation[1:] if self.is_augmented else "":
            found |= _LETTER_FLAGS.get(letter, FunctionFlag(0))
        return found


@cache
def _augmentations(is_eh: bool, without: frozenset[Feature]) -> Choice[str]:
    known = _EH_AUGMENTATIONS if is_eh else _DEBUG_AUGMENTATIONS
    return sampled_from([one for one in known if not without & _augmentation_features(one, is_eh)])


def _augmentation_features(augmentation: str, is_eh: bool) -> set[Feature]:
    if augmentation in ("eh", "armcc+"):
        found = {Feature.OLD_AUGMENTATION}
    elif is_eh and not augmentation:
        found = {Feature.NO_AUGMENTATION}
    else:
        found = {LETTER_FEATURES[letter] for letter in augmentation if letter in LETTER_FEATURES}
    if is_eh and "R" not in augmentation:
        found.add(Feature.NO_ADDRESS_ENCODING)
    return found | ({Feature.AUGMENTED_DEBUG_FRAME} if not is_eh and augmentation[:1] == "z" else set())


@dataclass(frozen=True, slots=True)
class _Header:
    dwarf_format: DwarfFormat
    version: int
    has_other_addresses: bool
    segment_size: int


@cache
def _headers(without: frozenset[Feature]) -> Choice[_Header]:
    """Formats and versions, the usual ones more often."""
    found = [_Header(DwarfFormat.DWARF32, 1, False, 0)] * 6
    for dwarf_format in DwarfFormat if Feature.DWARF64 not in without else [DwarfFormat.DWARF32]:
        found += [_Header(dwarf_format, 1, False, 0)]
        if Feature.VERSION_3 not in without:
            found += [_Header(dwarf_format, 3, False, 0)]
        if Feature.VERSION_4 not in without:
            found += [_Header(dwarf_format, 4, False, 0)] * 2
            others = [False, True] if Feature.ADDRESS_SIZE not in without else [False]
            sizes = [0, 1, 2, 4, 8] if Feature.SEGMENT not in without else [0]
            found += [_Header(dwarf_format, 4, is_other, size) for is_other in others for size in sizes]
    return sampled_from(found)


@cache
def _factors(architecture: Architecture) -> Choice[tuple[int, int]]:
    """Code and data alignment factors: those of the assembler more often."""
    usual = architecture.assembler
    pairs = [] if usual is None else [(usual.code_alignment_factor, usual.data_alignment_factor)] * 6
    return sampled_from([*pairs, (1, -8), (1, -4), (1, 1), (1, -1), (2, -2), (4, 4), (8, 8), (3, -16)])


@cache
def _return_columns(usual: int, without: frozenset[Feature]) -> Choice[int]:
    others = [0, 3, *HIGH_REGISTERS * (Feature.HIGH_REGISTER not in without)]
    return sampled_from([usual] * 6 + others * (Feature.OTHER_RETURN_COLUMN not in without))


def _pick(draw: Draw, found: Sequence[T]) -> T:
    """One of many, the first ones more simple."""
    return found[draw(_INDICES) % len(found)]


def draw_cie(draw: Draw, setting: Setting) -> CieMeaning:
    """A CIE that can describe functions in the region."""
    architecture, without, region = setting.architecture, setting.without, setting.region
    is_eh = setting.dialect is EH_FRAME
    augmentation = draw(_augmentations(is_eh, without))
    header, padding = draw(_headers(without)), draw(_PADDING)
    address_size = architecture.address_size
    segment_size = header.segment_size
    if header.has_other_addresses and region.code + region.code_size < 1 << 31 > region.others + MAX_LSDAS:
        address_size = 12 - address_size
    if segment_size + address_size > 8 and Feature.WIDE_SEGMENT in without:
        segment_size = 0
    where = (region, address_size, without)
    letters = augmentation if augmentation[:1] == "z" else ""
    address_encoding: int = DW_EH_PE.absptr
    personality_encoding = lsda_encoding = int(DW_EH_PE.omit)
    personality = 0
    if "R" in letters:
        address_encoding = _pick(draw, address_encodings(*where))
    if "P" in letters:
        personality_encoding = _pick(draw, pointer_encodings(*where, of_lsda=False))
        personality = region.others + draw(_OFFSETS)
    if "L" in letters:
        lsda_encoding = _pick(draw, pointer_encodings(*where, of_lsda=True))
    code_factor, data_factor = draw(_factors(architecture))
    cie = CieMeaning(
        header.dwarf_format,
        header.version,
        augmentation,
        address_size,
        segment_size,
        code_factor,
        data_factor,
        draw(_return_columns(architecture.return_address or 0, without)),
        address_encoding,
        lsda_encoding,
        personality_encoding,
        personality,
        padding if Feature.PADDED_LEB128 not in without else 0,
    )
    if Feature.INITIAL_RULES in without:
        return cie
    row = draw_initial_row(draw, row_context(setting, cie))
    if row.cfa.kind is CfaKind.EXPRESSION and Feature.INITIAL_EXPRESSION in without:
        row = replace(row, cfa=CfaRule(CfaKind.REGISTER))
    return replace(cie, row=row)


def row_context(setting: Setting, cie: CieMeaning) -> RowContext:
    """What rows of the CIE's functions depend on."""
    choices = row_choices(setting.architecture, setting.without)
    return RowContext(choices, setting.byte_order, cie.address_size, cie.data_factor, cie.return_column)


def cie_features(setting: Setting, cie: CieMeaning) -> set[Feature]:
    """The features of a CIE, those of its instructions excepted."""
    size, is_other = cie.address_size, cie.address_size != setting.architecture.address_size
    found = _augmentation_features(cie.augmentation, setting.dialect is EH_FRAME)
    if "R" in cie.augmentation:
        found |= encoding_features(cie.address_encoding, size, of_address=True)
    for letter, encoding in (("P", cie.personality_encoding), ("L", cie.lsda_encoding)):
        if letter in cie.augmentation:
            found |= encoding_features(encoding, size, of_address=False)
    has = {
        Feature.DWARF64: cie.dwarf_format is DwarfFormat.DWARF64,
        Feature.INITIAL_EXPRESSION: cie.row.cfa.kind is CfaKind.EXPRESSION,
        Feature.OTHER_RETURN_COLUMN: cie.return_column != setting.architecture.return_address,
        Feature.VERSION_3: cie.version == 3,
        Feature.VERSION_4: cie.version == 4,
        Feature.ADDRESS_SIZE: is_other,
        Feature.SEGMENT: cie.segment_size > 0,
        Feature.WIDE_SEGMENT: cie.segment_size > 0 and cie.segment_size + size > 8,
        Feature.PADDED_LEB128: cie.padding > 0,
        Feature.INITIAL_RULES: cie.row != NO_ROW,
    }
    return found | {feature for feature, is_there in has.items() if is_there}


Places = dict[str, tuple[int, int]]


def write_cie(draw: Draw, setting: Setting, cie: CieMeaning, stream: ByteStream, used: set[Feature]) -> Places:
    """Append what follows the id of a CIE. Returns offsets in the stream and sizes of some fields, by name."""
    start = len(stream.data)
    places = {"version": (start, 1), "augmentation": (start + 1, len(cie.augmentation))}
    stream.data += bytes([cie.version, *cie.augmentation.encode(), 0])
    if cie.augmentation == "eh":
        stream.put_integer(setting.region.others, setting.architecture.address_size)
    if cie.version == 4:
        places["address_size"] = len(stream.data), 1
        stream.data += bytes([cie.address_size, cie.segment_size])
    stream.put_leb(cie.code_factor, signed=False)
    stream.put_leb(cie.data_factor, signed=True)
    if cie.version == 1:
        stream.put_integer(cie.return_column, 1)
    else:
        stream.put_leb(cie.return_column, signed=False)
    if cie.is_augmented:
        data = stream.begin_block()
        encoding = _write_letters(setting, cie, data)
        stream.put_block(bytes(data.data))
        if encoding is not None:
            places["address_encoding"] = len(stream.data) - len(data.data) + encoding, 1
    writer = instruction_writer(setting, cie, stream, used)
    write_changes(draw, writer, cie.row)
    return places | {f"instruction[{index}].opcode": (at, 1) for index, (at, _) in enumerate(writer.places)}


def instruction_writer(
    setting: Setting, cie: CieMeaning, stream: ByteStream, used: set[Feature], initial: Row | None = None
) -> InstructionWriter:
    """A writer for instructions of the CIE, or of its FDEs, which start from its row `initial`."""
    return InstructionWriter(
        stream=stream,
        code_factor=cie.code_factor,
        data_factor=cie.data_factor,
        address_encoding=cie.address_encoding,
        bases=setting.region.bases,
        without=setting.without,
        used=used,
        row=NO_ROW if initial is None else initial,
        initial=initial,
    )


def _write_letters(setting: Setting, cie: CieMeaning, data: ByteStream) -> int | None:
    """Append the data of the augmentation. Returns the offset of the encoding of addresses in it."""
    encoding = None
    for letter in cie.augmentation[1:]:
        match letter:
            case "R":
                encoding = len(data.data)
                data.put_integer(cie.address_encoding, 1)
            case "L":
                data.put_integer(cie.lsda_encoding, 1)
            case "P":
                data.put_integer(cie.personality_encoding, 1)
                data.put_pointer(cie.personality, cie.personality_encoding, setting.region.bases)
    return encoding
