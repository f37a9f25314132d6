"""Records of fixed size, read one at a time without the reference engine, which takes longer to import than to use.

Strategy: the layout comes from the declaration, once per byte order, as a `struct.Struct` of all integers in order.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any, TypeVar, cast

from ..derive import struct_codes
from ..section import ByteOrder, ParseError, Section, order_code
from ..wire import Integer, Kind, Nested, Repeated, fields_of, fixed_size

R = TypeVar("R")


@cache
def _layout(cls: Any, order: ByteOrder) -> struct.Struct:
    return struct.Struct(order_code(order) + struct_codes(cls))


def _value(kind: Kind, values: Iterator[int]) -> Any:
    match kind:
        case Nested(record=inner):
            return _record(inner, values)
        case Repeated(kind=inner_kind, length=length):
            return tuple([_value(inner_kind, values) for _ in range(length)])
        case Integer(allowed=allowed):
            value = next(values)
            if allowed and value not in allowed:
                raise ValueError(f"is {value:#x}, expected {' or '.join(f'{one:#x}' for one in allowed)}")
            return value
    raise TypeError(f"{kind} is read by the engine alone")


def _record(cls: type, values: Iterator[int]) -> Any:
    found = []
    for field in fields_of(cls):
        try:
            found.append(_value(field.kind, values))
        except ValueError as error:
            raise ValueError(f"{field.name} {error}") from None
    return cls(*found)


def read_fixed(cls: type[R], section: Section, offset: int, record: str = "") -> R:
    """The record at an offset. Raises ParseError if it reaches past the end, or has a value that is not allowed."""
    record = record or cls.__name__
    layout = _layout(cast("Hashable", cls), section.byte_order)
    if not 0 <= offset <= len(section) - layout.size:
        left = max(len(section) - offset, 0)
        raise ParseError(section, offset, record, f"{layout.size} bytes needed, {left} left")
    try:
        found: R = _record(cls, iter(layout.unpack_from(section.data, offset)))
    except ValueError as error:
        raise ParseError(section, offset, record, str(error)) from None
    return found


def read_array(cls: type[R], section: Section, offset: int, count: int, record: str = "") -> list[R]:
    """`count` records that follow each other. Raises ParseError, before any is read, if they reach past the end."""
    size, record = fixed_size(cls), record or cls.__name__
    if count * size > len(section) - offset:
        reason = f"{count} records of {size} bytes do not fit the {max(len(section) - offset, 0)} bytes left"
        raise ParseError(section, offset, record, reason)
    return [read_fixed(cls, section, offset + size * index, f"{record}[{index}]") for index in range(count)]
