"""Records of call frame information, and operands of expressions, read from their declarations without construct, which
takes longer to import than a short command takes to run. CIEs are also written that way.

Strategy: a cursor reads one value after another; the functions in a declaration get what construct would give them. No
record is refused here: a malformed one, and one with a kind that is not read here, is left to the reference engine,
which names the field.
"""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, TypeVar

from . import engine
from .pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_SIZES, is_known, is_signed, value_format
from .section import ByteOrder, Section
from .wire import (
    LEB_BITS,
    LEB_GROUPS,
    Block,
    Either,
    Given,
    Integer,
    Kind,
    Leb,
    Leb128,
    LebBlock,
    NulTerminated,
    Pointer,
    Rest,
    Variable,
    When,
    fields_of,
    leb_size,
)

R = TypeVar("R")


class _LeftError(Exception):
    """The record is left to the reference engine."""


def parse(cls: type[R], section: Section, offset: int, end: int, record: str = "", **params: Any) -> tuple[R, int]:
    """As `engine.parse`."""
    known = {"address": section.address + offset, "address_size": section.address_size} | params
    cursor = _Cursor(section.data[offset:end], 0, section.byte_order, SimpleNamespace(**known))
    values: dict[str, Any] = {}
    try:
        for field in fields_of(cls):
            values[field.name] = value = cursor.value(field.kind)
            setattr(cursor.this, field.name, value)
    except _LeftError:
        return engine.parse(cls, section, offset, end, record, **params)
    return cls(**values), offset + cursor.at


def parse_value(
    kind: Kind, section: Section, stream: io.BytesIO, offset: int, record: str, **params: Any
) -> tuple[Any, int]:
    """As `engine.parse_value`."""
    known = {"address": section.address + offset, "address_size": section.address_size} | params
    cursor = _Cursor(stream.getbuffer(), stream.tell(), section.byte_order, SimpleNamespace(**known))
    try:
        value = cursor.value(kind)
    except _LeftError:
        return engine.parse_value(kind, section, stream, offset, record, **params)
    return value, offset + stream.seek(cursor.at)


def build(record: Any, byte_order: ByteOrder, **params: Any) -> bytes:
    """As `engine.build`."""
    this = SimpleNamespace(_params=SimpleNamespace(**engine.DEFAULTS | params))
    data = bytearray()
    try:
        for field in fields_of(type(record)):
            value = field.kind.value(this) if isinstance(field.kind, Given) else getattr(record, field.name)
            data += _bytes_of(field.kind, value, byte_order, this)
            setattr(this, field.name, value)
    except _LeftError:
        return engine.build(record, byte_order, **params)
    return bytes(data)


def _bytes_of(kind: Kind, value: Any, order: ByteOrder, this: SimpleNamespace) -> bytes:
    """One value of a kind; `this` has the values before it."""
    match kind, value:
        case Given(), _:
            return b""
        case Integer(), int() if not kind.allowed or value in kind.allowed:
            low = -(1 << 8 * kind.size - 1) if kind.signed else 0
            if low <= value < low + (1 << 8 * kind.size):
                return value.to_bytes(kind.size, order, signed=kind.signed)
        case Leb(), Leb128():
            if value.size == leb_size(value.value, signed=kind.signed) and (kind.signed or value.value >= 0):
                return _leb_bytes(value)
        case NulTerminated(), bytes() if 0 not in value:
            return value + b"\0"
        case Block(), LebBlock() if value.length_size == leb_size(len(value.data), signed=False):
            return _leb_bytes(Leb128(len(value.data), value.length_size)) + value.data
        case Rest(), bytes():
            return value
        case When(), _ if (value is not None) == bool(kind.condition(this)):
            return b"" if value is None else _bytes_of(kind.kind, value, order, this)
        case Either(), _:
            return _bytes_of(kind.yes if kind.condition(this) else kind.no, value, order, this)
    raise _LeftError


def _leb_bytes(leb: Leb128) -> bytes:
    """A LEB128 of the shortest width."""
    groups = [leb.value >> 7 * index & 0x7F for index in range(leb.size)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


class _Cursor:
    """Bytes up to the end of a record, the offset of its next value, and the values before that (`this`)."""

    def __init__(self, data: memoryview, at: int, order: ByteOrder, params: SimpleNamespace) -> None:
        self.data = data
        self.order = order
        self.at = at
        self.this = SimpleNamespace(_params=params)

    def value(self, kind: Kind) -> Any:
        """The next value, of this kind."""
        match kind:
            case Given():
                return kind.value(self.this)
            case Integer():
                return self._allowed(self._integer(kind.size, kind.signed), kind.allowed)
            case Variable():
                return self._integer(kind.size(self.this), kind.signed)
            case Leb():
                return self._leb(kind.signed)
            case NulTerminated():
                text = self._take(bytes(self.data[self.at :]).find(b"\0"))
                self.at += 1
                return text
            case Block():
                length = self._leb(signed=False)
                return LebBlock(self._take(length.value), length.size)
            case Rest():
                return self._take(len(self.data) - self.at)
            case When():
                return self.value(kind.kind) if kind.condition(self.this) else None
            case Either():
                return self.value(kind.yes if kind.condition(self.this) else kind.no)
            case Pointer():
                return self._pointer(kind, kind.encoding(self.this))
        raise _LeftError

    def _take(self, size: int) -> bytes:
        """The next `size` bytes."""
        start = self.at
        if not 0 <= size <= len(self.data) - start:
            raise _LeftError
        self.at = start + size
        return bytes(self.data[start : self.at])

    def _integer(self, size: int, signed: bool) -> int:
        if size < 1:
            raise _LeftError
        return int.from_bytes(self._take(size), self.order, signed=signed)

    def _allowed(self, value: int, allowed: tuple[int, ...]) -> int:
        if allowed and value not in allowed:
            raise _LeftError
        return value

    def _leb(self, signed: bool) -> Leb128:
        value = size = 0
        byte = 0x80
        while byte >= 0x80:
            # More groups are padding, of any length.
            if size == LEB_GROUPS:
                raise _LeftError
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << 7 * size
            size += 1
        if signed and byte & 0x40:
            value -= 1 << 7 * size
        limit = 1 << LEB_BITS - signed
        if not (-limit if signed else 0) <= value < limit:
            raise _LeftError
        return Leb128(value, size)

    def _pointer(self, kind: Pointer, encoding: int) -> int | Leb128 | None:
        if encoding == DW_EH_PE.omit:
            return None
        # An aligned value follows padding.
        if not is_known(encoding) or encoding & APPLICATION_MASK == DW_EH_PE.aligned:
            raise _LeftError
        size = FORMAT_SIZES[value_format(encoding)]
        signed = is_signed(encoding) and not kind.always_unsigned
        if size is None:
            return self._leb(signed)
        return self._integer(size or self.this._params.address_size, signed)
