"""How a record is declared: as a frozen dataclass whose fields name their kind on the wire.

Strategy: a declaration is data. `engine` makes a construct parser and builder of it, `derive` a NumPy
dtype, `strategies` a hypothesis strategy, and the manual its field tables. Nothing here reads a byte.
Functions given to a kind (`size`, `condition`) get construct's context: earlier fields as attributes, and
the caller's parameters as `this._params`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from .data_classes import dataclass, parts_of

R = TypeVar("R")
Depends = Callable[[Any], Any]


class Integer(NamedTuple):
    """A fixed-width integer in the section's byte order. `size` in bytes; An empty `allowed` allows any value."""

    size: int
    signed: bool = False
    allowed: tuple[int, ...] = ()

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value."""
        bits = 8 * self.size
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if self.signed else (0, (1 << bits) - 1)


class Bits(NamedTuple):
    """One byte of bit fields; the fields of `record` are declared from bit 7 down to bit 0."""

    record: type


class BitField(NamedTuple):
    """`width` bits of a `Bits` record."""

    width: int


class Variable(NamedTuple):
    """An integer whose width depends on the context: `size(this)` is 1, 2, 4 or 8 bytes."""

    size: Depends
    signed: bool = False


class Leb(NamedTuple):
    """A LEB128 integer (DWARF5 7.6), held as a `Leb128` with its width."""

    signed: bool


class NulTerminated(NamedTuple):
    """Bytes up to a zero byte, which is not part of the value."""


class Sized(NamedTuple):
    """`size(this)` bytes."""

    size: Depends


class Block(NamedTuple):
    """An unsigned LEB128 length, then that many bytes: held as a `LebBlock`."""


class SizedBlock(NamedTuple):
    """A length of `size` bytes, then that many bytes: held as bytes."""

    size: int


class Rest(NamedTuple):
    """All bytes up to the record's end."""


class Nested(NamedTuple):
    """A declared record as a field."""

    record: type


class Many(NamedTuple):
    """`count(this)` values of one kind, held as a tuple."""

    kind: Kind
    count: Depends


class Repeated(NamedTuple):
    """`length` values of one kind, held as a tuple, in records of fixed size."""

    kind: Kind
    length: int


class UntilZero(NamedTuple):
    """Values of one kind up to a zero byte, held as a tuple. No value starts with a zero byte."""

    kind: Kind


class Entries(NamedTuple):
    """`count(this)` tuples of one value of each of `kinds(this)`, held as a tuple.

    If there are entries, there is at least one kind; `kinds` raises ValueError if a kind is unknown.
    """

    kinds: Depends
    count: Depends


class When(NamedTuple):
    """Present only where `condition(this)` holds; None elsewhere."""

    kind: Kind
    condition: Depends


class Either(NamedTuple):
    """One kind where `condition(this)` holds, the other elsewhere."""

    condition: Depends
    yes: Kind
    no: Kind


class Given(NamedTuple):
    """No bytes: a value the reader knew before, `value(this)`, kept because the record has no meaning without it."""

    value: Depends


class Pointer(NamedTuple):
    """A DW_EH_PE-encoded value as stored (nothing is added): an int, or a `Leb128` in the LEB formats.

    `encoding(this)` is the DW_EH_PE byte; DW_EH_PE_omit takes no bytes and is None. `always_unsigned` drops
    its sign and its application, as for an FDE's address_range (LSB Core, .eh_frame).
    """

    encoding: Depends
    always_unsigned: bool = False


Kind = (
    Integer
    | Bits
    | BitField
    | Variable
    | Leb
    | NulTerminated
    | Sized
    | Block
    | SizedBlock
    | Rest
    | Nested
    | Many
    | Repeated
    | UntilZero
    | Entries
    | When
    | Either
    | Given
    | Pointer
)

# A LEB128 may be padded, but its value must fit an address or an offset.
LEB_BITS = 64
# These hold as many bits.
LEB_GROUPS = 10

U8, U16, U32, U64 = (Integer(size) for size in (1, 2, 4, 8))
I8, I16, I32, I64 = (Integer(size, signed=True) for size in (1, 2, 4, 8))
ULEB, SLEB = Leb(signed=False), Leb(signed=True)


@dataclass(frozen=True, slots=True, order=True)
class Leb128:
    """A LEB128 number and its width on the wire in bytes, which padding (`80 80 00`) may increase."""

    value: int
    size: int

    def __int__(self) -> int:
        return self.value


@dataclass(frozen=True, slots=True)
class LebBlock:
    """A length-prefixed block. `length_size` is the width of the length in bytes."""

    data: bytes
    length_size: int


def leb_size(value: int, *, signed: bool) -> int:
    """Size in bytes of the shortest LEB128 of `value`."""
    bits = (value if value >= 0 else ~value).bit_length() + signed
    return max(1, -(-bits // 7))


def uleb(value: int) -> Leb128:
    """The shortest unsigned LEB128 of `value`."""
    return Leb128(value, leb_size(value, signed=False))


def sleb(value: int) -> Leb128:
    """The shortest signed LEB128 of `value`."""
    return Leb128(value, leb_size(value, signed=True))


def leb_block(data: bytes) -> LebBlock:
    """A block with the shortest length."""
    return LebBlock(data, leb_size(len(data), signed=False))


class DwarfFormat(IntEnum):
    """The two forms of an initial length (DWARF5 7.4); the value is the size of a section offset."""

    DWARF32 = 4
    DWARF64 = 8


# Initial lengths from LENGTH_RESERVED on are reserved; LENGTH_DWARF64 announces 64-bit DWARF (DWARF5 7.4).
LENGTH_RESERVED = 0xFFFFFFF0
LENGTH_DWARF64 = 0xFFFFFFFF
# The size of an initial length in bytes.
INITIAL_LENGTH_SIZES = {DwarfFormat.DWARF32: 4, DwarfFormat.DWARF64: 12}


def wire(kind: Kind, doc: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declare a field: its kind on the wire and its description in the manual."""
    return dataclasses.field(default=default, metadata={"kind": kind, "doc": doc})


@dataclass_transform(frozen_default=True, field_specifiers=(wire,))
def record(cls: type[R]) -> type[R]:
    """Make a declaration a frozen, slotted dataclass."""
    return dataclass(frozen=True, slots=True)(cls)


class DeclaredField(NamedTuple):
    """One field of a record as declared."""

    name: str
    kind: Kind
    doc: str


def fields_of(cls: type) -> tuple[DeclaredField, ...]:
    """The declared fields of a record, in wire order."""
    declared = ((part.name, part.given.metadata) for part in parts_of(cls))
    return tuple(DeclaredField(name, metadata["kind"], metadata["doc"]) for name, metadata in declared)


def bit_widths(cls: type) -> dict[str, int]:
    """The bits of each field of a `Bits` record, from bit 7 down."""
    return {field.name: field.kind.width for field in fields_of(cls) if isinstance(field.kind, BitField)}


def fixed_size(cls: type) -> int:
    """Size in bytes of a record that consists of integers, bit fields, other such records and arrays of these."""
    return sum(_fixed_size(cls, field, field.kind) for field in fields_of(cls))


def _fixed_size(cls: type, field: DeclaredField, kind: Kind) -> int:
    match kind:
        case Integer(size=width):
            return width
        case Bits():
            return 1
        case Nested(record=inner):
            return fixed_size(inner)
        case Repeated(kind=inner_kind, length=length):
            return length * _fixed_size(cls, field, inner_kind)
    raise TypeError(f"{cls.__name__}.{field.name} has no fixed size")


def offset_of(cls: type, name: str) -> int:
    """The offset of a field in bytes from the start of its record; the fields before it have a fixed size."""
    size = 0
    for field in fields_of(cls):
        if field.name == name:
            return size
        size += _fixed_size(cls, field, field.kind)
    raise KeyError(name)
