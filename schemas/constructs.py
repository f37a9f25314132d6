"""The construct of each declared record and of each kind, and those for the kinds that construct lacks.

Strategy: `struct_of` turns a declaration into a construct Struct, once per byte order. A construct of ours parses from
and builds into the stream, and never reads past its end.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import fields
from functools import cache, singledispatch
from typing import Any

import construct

from .pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_SIZES, is_known, is_signed, value_format
from .section import ByteOrder
from .wire import (
    LEB_BITS,
    LEB_GROUPS,
    Bits,
    Block,
    Either,
    Entries,
    Given,
    Integer,
    Kind,
    Leb,
    Leb128,
    LebBlock,
    Many,
    Nested,
    NulTerminated,
    Pointer,
    Repeated,
    Rest,
    Sized,
    SizedBlock,
    UntilZero,
    Variable,
    When,
    bit_widths,
    fields_of,
    leb_size,
)

# A string is read in chunks of doubling size, so that many short strings in a large section take linear time.
FIRST_READ = 64


class _Leb(construct.Construct):
    """LEB128 that keeps its width."""

    def __init__(self, signed: bool) -> None:
        super().__init__()
        self.signed = signed

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Leb128:
        value = size = 0
        padding = set()
        while True:
            byte = construct.stream_read(stream, 1, path)[0]
            # Ten groups hold 64 bits; further ones may only repeat the sign and are not shifted in, so
            # that padding takes linear time.
            if size < LEB_GROUPS:
                value |= (byte & 0x7F) << 7 * size
            else:
                padding.add(byte & 0x7F)
            size += 1
            if byte < 0x80:
                break
        negative = self.signed and bool(byte & 0x40)
        if negative:
            value -= 1 << 7 * min(size, LEB_GROUPS)
        limit = 1 << LEB_BITS - self.signed
        if not (-limit if self.signed else 0) <= value < limit or padding - {0x7F if negative else 0}:
            raise construct.RangeError(f"a LEB128 of {size} bytes does not fit {LEB_BITS} bits", path=path)
        return Leb128(value, size)

    def _build(self, number: Leb128, stream: io.BytesIO, context: Any, path: str) -> Leb128:
        if (number.value < 0 and not self.signed) or leb_size(number.value, signed=self.signed) > number.size:
            raise construct.RangeError(f"{number.value} does not fit a LEB128 of {number.size} bytes", path=path)
        rest = number.value
        groups = bytearray()
        for _ in range(number.size):
            groups.append(rest & 0x7F | 0x80)
            rest >>= 7
        groups[-1] &= 0x7F
        construct.stream_write(stream, bytes(groups), number.size, path)
        return number


class _Block(construct.Construct):
    """A LEB128 length and its bytes."""

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> LebBlock:
        length = _Leb(signed=False)._parse(stream, context, path)
        # Checked first: construct would request any number of bytes from the stream.
        left = len(stream.getbuffer()) - stream.tell()
        if length.value > left:
            raise construct.StreamError(f"a block of {length.value} bytes, but only {left} are left", path=path)
        return LebBlock(construct.stream_read(stream, length.value, path), length.size)

    def _build(self, block: LebBlock, stream: io.BytesIO, context: Any, path: str) -> LebBlock:
        _Leb(signed=False)._build(Leb128(len(block.data), block.length_size), stream, context, path)
        construct.stream_write(stream, block.data, len(block.data), path)
        return block


class _NulTerminated(construct.Construct):
    """Bytes up to a zero byte; construct's own takes quadratic time."""

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> bytes:
        start, parts, size = stream.tell(), [], FIRST_READ
        while chunk := stream.read(size):
            text, end, _ = chunk.partition(b"\0")
            parts.append(text)
            if end:
                text = b"".join(parts)
                stream.seek(start + len(text) + 1)
                return text
            size *= 2
        left = sum(map(len, parts))
        raise construct.StreamError(f"no zero byte in the remaining {left} bytes", path=path)

    def _build(self, text: bytes, stream: io.BytesIO, context: Any, path: str) -> bytes:
        if b"\0" in text:
            raise construct.StreamError(f"{text!r} contains a zero byte, which would end it", path=path)
        construct.stream_write(stream, text + b"\0", len(text) + 1, path)
        return text


class _Pointer(construct.Construct):
    """A DW_EH_PE value as stored."""

    def __init__(self, kind: Pointer, order: ByteOrder) -> None:
        super().__init__()
        self.kind = kind
        self.order = order

    def _subcon(self, context: Any, path: str) -> construct.Construct:
        encoding = self.kind.encoding(context)
        if encoding == DW_EH_PE.omit:
            return construct.Pass
        if not is_known(encoding):
            raise construct.RangeError(f"the pointer encoding {encoding:#04x} is not defined", path=path)
        size = FORMAT_SIZES[value_format(encoding)]
        signed = is_signed(encoding) and not self.kind.always_unsigned
        if size is None:
            return _Leb(signed)
        return construct.BytesInteger(size or context._params.address_size, signed, swapped=self.order == "little")

    def _padding(self, stream: io.BytesIO, context: Any) -> int:
        """Padding up to the next aligned address, where a DW_EH_PE_aligned value is stored."""
        if self.kind.always_unsigned or self.kind.encoding(context) & APPLICATION_MASK != DW_EH_PE.aligned:
            return 0
        return int(-(context._params.address + stream.tell()) % context._params.address_size)

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Any:
        subcon = self._subcon(context, path)
        padding = construct.stream_read(stream, self._padding(stream, context), path)
        if any(padding):
            raise construct.ConstError("the padding of an aligned pointer is not zero", path=path)
        return subcon._parsereport(stream, context, path)

    def _build(self, value: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        padding = self._padding(stream, context)
        construct.stream_write(stream, bytes(padding), padding, path)
        return self._subcon(context, path)._build(value, stream, context, path)


class _SizedBytes(construct.Construct):
    """A length of fixed width and its bytes."""

    def __init__(self, length: construct.Construct) -> None:
        super().__init__()
        self.length = length

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> bytes:
        length = self.length._parsereport(stream, context, path)
        left = len(stream.getbuffer()) - stream.tell()
        if length > left:
            raise construct.StreamError(f"a block of {length} bytes, but only {left} are left", path=path)
        data: bytes = construct.stream_read(stream, length, path)
        return data

    def _build(self, data: bytes, stream: io.BytesIO, context: Any, path: str) -> bytes:
        self.length._build(len(data), stream, context, path)
        construct.stream_write(stream, data, len(data), path)
        return data


class _ValuesUntilZero(construct.Construct):
    """Values up to a zero byte."""

    def __init__(self, value: construct.Construct) -> None:
        super().__init__()
        self.value = value

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> tuple[Any, ...]:
        found: list[Any] = []
        while construct.stream_read(stream, 1, path) != b"\0":
            stream.seek(-1, io.SEEK_CUR)
            found.append(self.value._parsereport(stream, context, path))
        return tuple(found)

    def _build(self, values: tuple[Any, ...], stream: io.BytesIO, context: Any, path: str) -> tuple[Any, ...]:
        for value in values:
            start = stream.tell()
            self.value._build(value, stream, context, path)
            if stream.getbuffer()[start] == 0:
                raise construct.RangeError(f"{value!r} starts with the zero byte that ends the list", path=path)
        construct.stream_write(stream, b"\0", 1, path)
        return values


class _ListOfEntries(construct.Construct):
    """Tuples of one value of each kind. The kinds and the count depend on the context and are computed once."""

    def __init__(
        self,
        kinds: Callable[[Any], tuple[Kind, ...]],
        count: Callable[[Any], int],
        construct_of: Callable[[Kind], construct.Construct],
    ) -> None:
        super().__init__()
        self.kinds = kinds
        self.count = count
        self.construct_of = construct_of

    def _layout(self, context: Any, path: str) -> tuple[list[construct.Construct], int]:
        try:
            count = self.count(context)
            kinds = self.kinds(context) if count else ()
        except ValueError as error:
            raise construct.RangeError(str(error), path=path) from error
        if count and not kinds:
            # Any number of entries would take no bytes.
            raise construct.RangeError("entries without a format", path=path)
        return [self.construct_of(kind) for kind in kinds], count

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> tuple[Any, ...]:
        constructs, count = self._layout(context, path)
        found: list[tuple[Any, ...]] = []
        while len(found) < count:
            found.append(tuple([one._parsereport(stream, context, path) for one in constructs]))
        return tuple(found)

    def _build(self, entries: tuple[Any, ...], stream: io.BytesIO, context: Any, path: str) -> tuple[Any, ...]:
        constructs, count = self._layout(context, path)
        if len(entries) != count:
            raise construct.RangeError(f"found {len(entries)} entries, expected {count}", path=path)
        for values in entries:
            if len(constructs) != len(values):
                raise construct.RangeError(f"found {len(values)} values, expected {len(constructs)}", path=path)
            for one, value in zip(constructs, values, strict=True):
                one._build(value, stream, context, path)
        return entries


class _Record(construct.Adapter):
    """Container to record and back."""

    def __init__(self, cls: type, subcon: construct.Construct) -> None:
        super().__init__(subcon)
        self.cls = cls

    def _decode(self, container: Any, context: Any, path: str) -> Any:
        return self.cls(**{field.name: container[field.name] for field in fields(self.cls)})

    def _encode(self, record: Any, context: Any, path: str) -> Any:
        return {field.name: getattr(record, field.name) for field in fields(self.cls)}


@singledispatch
def _construct_of(kind: Kind, order: ByteOrder) -> construct.Construct:
    raise TypeError(f"no construct is declared for {kind}")


@_construct_of.register
def _(kind: Integer, order: ByteOrder) -> construct.Construct:
    plain = construct.BytesInteger(kind.size, kind.signed, swapped=order == "little")
    return construct.OneOf(plain, kind.allowed) if kind.allowed else plain


@_construct_of.register
def _(kind: Bits, order: ByteOrder) -> construct.Construct:
    bits = [name / construct.BitsInteger(width) for name, width in bit_widths(kind.record).items()]
    return _Record(kind.record, construct.BitStruct(*bits))


@_construct_of.register
def _(kind: Variable, order: ByteOrder) -> construct.Construct:
    return construct.BytesInteger(kind.size, kind.signed, swapped=order == "little")


@_construct_of.register
def _(kind: Leb, order: ByteOrder) -> construct.Construct:
    return _Leb(kind.signed)


@_construct_of.register
def _(kind: NulTerminated, order: ByteOrder) -> construct.Construct:
    return _NulTerminated()


@_construct_of.register
def _(kind: Sized, order: ByteOrder) -> construct.Construct:
    return construct.Bytes(kind.size)


@_construct_of.register
def _(kind: Block, order: ByteOrder) -> construct.Construct:
    return _Block()


@_construct_of.register
def _(kind: Rest, order: ByteOrder) -> construct.Construct:
    return construct.GreedyBytes


@_construct_of.register
def _(kind: Nested, order: ByteOrder) -> construct.Construct:
    return struct_of(kind.record, order)


@_construct_of.register
def _(kind: Many, order: ByteOrder) -> construct.Construct:
    values = construct.Array(kind.count, _construct_of(kind.kind, order))
    return construct.ExprAdapter(values, lambda items, _: tuple(items), lambda items, _: list(items))


@_construct_of.register
def _(kind: Repeated, order: ByteOrder) -> construct.Construct:
    return _construct_of(Many(kind.kind, lambda _: kind.length), order)


@_construct_of.register
def _(kind: SizedBlock, order: ByteOrder) -> construct.Construct:
    return _SizedBytes(construct.BytesInteger(kind.size, swapped=order == "little"))


@_construct_of.register
def _(kind: UntilZero, order: ByteOrder) -> construct.Construct:
    return _ValuesUntilZero(_construct_of(kind.kind, order))


@_construct_of.register
def _(kind: Entries, order: ByteOrder) -> construct.Construct:
    return _ListOfEntries(kind.kinds, kind.count, lambda one: construct_of(type(one).__name__, one, order))


@_construct_of.register
def _(kind: When, order: ByteOrder) -> construct.Construct:
    return construct.If(kind.condition, _construct_of(kind.kind, order))


@_construct_of.register
def _(kind: Either, order: ByteOrder) -> construct.Construct:
    return construct.IfThenElse(kind.condition, _construct_of(kind.yes, order), _construct_of(kind.no, order))


@_construct_of.register
def _(kind: Given, order: ByteOrder) -> construct.Construct:
    return construct.Computed(kind.value)


@_construct_of.register
def _(kind: Pointer, order: ByteOrder) -> construct.Construct:
    return _Pointer(kind, order)


@cache
def construct_of(_: str, kind: Kind, order: ByteOrder) -> construct.Construct:
    """A kind's construct, made once. Kinds are tuples, and those of two types may be equal: the type's name is
    a key too.
    """
    return _construct_of(kind, order)


_STRUCTS: dict[tuple[type, ByteOrder], construct.Construct] = {}


def struct_of(cls: type, order: ByteOrder) -> construct.Construct:
    """The construct of a declared record, made once per byte order."""
    found = _STRUCTS.get((cls, order))
    if found is None:
        fields_in_order = (field.name / _construct_of(field.kind, order) for field in fields_of(cls))
        found = _STRUCTS[cls, order] = _Record(cls, construct.Struct(*fields_in_order))
    return found
