"""Constructs for the kinds that construct lacks: length-prefixed bytes, lists without a count, tuples.

Strategy: each parses from and builds into the stream, and never reads past its end. `engine` instantiates them.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import construct

from .wire import Kind


class SizedBytes(construct.Construct):
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


class ValuesUntilZero(construct.Construct):
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


class ListOfEntries(construct.Construct):
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
