"""Which bytes of a record are which field, from its declaration.

Strategy: the reference engine parses the record; a field's width follows from its kind and its value. The widths add up
to the record, which is checked: a kind that is measured wrongly cannot go unnoticed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TypeVar

from ..schemas import engine
from ..schemas.data_classes import dataclass
from ..schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_SIZES, value_format
from ..schemas.section import ParseError, Section
from ..schemas.wire import (
    Bits,
    Block,
    Either,
    Given,
    Integer,
    Kind,
    Leb,
    Many,
    NulTerminated,
    Pointer,
    Rest,
    Sized,
    Variable,
    When,
    bit_widths,
    fields_of,
)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FieldSpan:
    """A field: its declared name and meaning (`doc`), its value, and the section offsets of its bytes."""

    name: str
    doc: str
    value: Any
    start: int
    end: int
    kind: Kind


def spans_of(
    cls: type[R], section: Section, offset: int, end: int, record: str = "", **params: Any
) -> tuple[R, tuple[FieldSpan, ...]]:
    """Parse the `cls` that starts at section offset `offset` and ends at `end` or before; the record and its fields in
    order. A field without bytes is left out. `params` as for `engine.parse`. Raises ParseError."""
    value, stop = engine.parse(cls, section, offset, end, record, **params)
    known = {"address": section.address + offset, "address_size": section.address_size} | params
    this = SimpleNamespace(_params=SimpleNamespace(**known))
    found, at = [], offset
    for field in fields_of(cls):
        held = getattr(value, field.name)
        size = width_of(field.kind, held, this, section.address + at)
        setattr(this, field.name, held)
        if size:
            found.append(FieldSpan(field.name, field.doc, held, at, at + size, field.kind))
        at += size
    if at != stop:
        raise ParseError(section, at, record or cls.__name__, f"its fields end at {at:#x}, the record at {stop:#x}")
    return value, tuple(found)


def width_of(kind: Kind, value: Any, this: Any, address: int = 0) -> int:
    """The bytes that a value takes; `this` has the fields before it, `address` is that of its first byte."""
    match kind:
        case Given():
            return 0
        case Integer(size=size):
            return size
        case Bits():
            return 1
        case Variable(size=size_of) | Sized(size=size_of):
            return int(size_of(this))
        case Leb():
            return int(value.size)
        case NulTerminated():
            return len(value) + 1
        case Block():
            return int(value.length_size) + len(value.data)
        case Rest():
            return len(value)
        case When():
            return width_of(kind.kind, value, this, address) if kind.condition(this) else 0
        case Either():
            return width_of(kind.yes if kind.condition(this) else kind.no, value, this, address)
        case Many():
            return sum(width_of(kind.kind, one, this, address) for one in value)
        case Pointer():
            return _pointer_width(kind, kind.encoding(this), value, this._params.address_size, address)
    raise TypeError(f"{type(kind).__name__} has no width here")


def _pointer_width(kind: Pointer, encoding: int, value: Any, address_size: int, address: int) -> int:
    if encoding == DW_EH_PE.omit:
        return 0
    size = FORMAT_SIZES[value_format(encoding)]
    width = int(value.size) if size is None else size or address_size
    is_aligned = encoding & APPLICATION_MASK == DW_EH_PE.aligned and not kind.always_unsigned
    return width + (-address % address_size if is_aligned else 0)


def bits_text(record: Any) -> str:
    """The fields of a `Bits` record from bit 7 down, those that are not 0."""
    values = {name: getattr(record, name) for name in bit_widths(type(record))}
    return " ".join(f"{name}={value}" for name, value in values.items() if value) or "0"
