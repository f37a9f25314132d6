"""What is derived from a declaration besides parsing: NumPy dtypes of fixed-size records, masks of bit fields.

Strategy: the bulk engine reads and writes columns of the declared fields, so that each layout exists once.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from .section import ByteOrder, order_code
from .wire import Bits, Given, Integer, Kind, Nested, Repeated, When, bit_widths, fields_of

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


@cache
def dtype_of(cls: type, order: ByteOrder) -> np.dtype[np.void]:
    """The packed NumPy dtype of a record of integers and bit fields; a `Bits` field is one u1 column."""
    columns: list[tuple[str, object]] = []
    prefix = order_code(order)
    for field in fields_of(cls):
        match field.kind:
            case Integer(size=size, signed=signed):
                columns.append((field.name, f"{prefix}{'i' if signed else 'u'}{size}"))
            case Bits():
                columns.append((field.name, "u1"))
            case Nested(record=inner):
                columns.append((field.name, dtype_of(inner, order)))
            case _:
                raise TypeError(f"{cls.__name__}.{field.name} has no fixed size")
    return np.dtype(columns)


def struct_codes(cls: type) -> str:
    """The type codes of all integers of a record in order, those of nested and repeated ones included, for `struct`."""
    return "".join(_codes(field.kind) for field in fields_of(cls))


def _codes(kind: Kind) -> str:
    match kind:
        case Integer(size=size, signed=signed):
            return _CODES[size].lower() if signed else _CODES[size]
        case Nested(record=inner):
            return struct_codes(inner)
        case Repeated(kind=inner_kind, length=length):
            return _codes(inner_kind) * length
    raise TypeError(f"{kind} has no type code")


@cache
def bit_position(cls: type, name: str) -> tuple[int, int]:
    """Shift and mask (after the shift) of one field of a `Bits` record."""
    shift = 8
    for field, width in bit_widths(cls).items():
        shift -= width
        if field == name:
            return shift, (1 << width) - 1
    raise KeyError(name)


class Place(NamedTuple):
    """The place of an integer field. `offset` is in bytes from its record's start."""

    offset: int
    size: int
    signed: bool


def leading_places(cls: type, known: dict[str, Any], **params: Any) -> tuple[dict[str, Place], int]:
    """The integer fields at a record's start, up to the first field of another kind, and their total size in bytes.

    `known` has the values of fields that others depend on; `params` is as for parsing.
    """
    this = SimpleNamespace(_params=SimpleNamespace(**params), **known)
    places: dict[str, Place] = {}
    offset = 0
    for field in fields_of(cls):
        kind = field.kind
        if isinstance(kind, Given):
            continue
        if isinstance(kind, When):
            if not kind.condition(this):
                continue
            kind = kind.kind
        if not isinstance(kind, Integer):
            break
        places[field.name] = Place(offset, kind.size, kind.signed)
        offset += kind.size
    return places, offset
