"""Strategies for any declared record, and for the kinds of fields that records are made of.

Strategy: `records` draws a record field by field from its declaration, so that a field may depend on the
ones before it, exactly as construct reads it. Only counts and encodings need overrides, because a
declaration allows values that no memory holds. Strategies are cached: making one takes longer than drawing from it.
"""

from __future__ import annotations

from functools import cache, singledispatch
from types import SimpleNamespace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ..pointers import APPLICATION_MASK, APPLICATIONS, DW_EH_PE, FORMAT_SIZES, is_signed, value_format
from ..wire import (
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

R = TypeVar("R")

MAX_PADDING = 3
MAX_BYTES = 40


@cache
def lebs(*, signed: bool) -> SearchStrategy[Leb128]:
    """64-bit LEB128 numbers, some of them padded."""
    limit = 1 << 64 - signed
    values = st.one_of(st.integers(-(1 << 12) * signed, 1 << 12), st.integers(-limit * signed, limit - 1))

    def padded(value: int, more: int) -> Leb128:
        return Leb128(value, leb_size(value, signed=signed) + more)

    return st.builds(padded, values, st.integers(0, MAX_PADDING))


def _padded_block(data: bytes, more: int) -> LebBlock:
    return LebBlock(data, leb_size(len(data), signed=False) + more)


@cache
def blocks() -> SearchStrategy[LebBlock]:
    """Length-prefixed blocks, some with a padded length."""
    return st.builds(_padded_block, st.binary(max_size=MAX_BYTES), st.integers(0, MAX_PADDING))


ENCODINGS = tuple(
    form | application | indirect
    for form in FORMAT_SIZES
    for application in APPLICATIONS
    for indirect in (0, DW_EH_PE.indirect)
)


@cache
def pointer_encodings(*, omit: bool = True, direct: bool = False) -> SearchStrategy[int]:
    """Defined DW_EH_PE bytes; with DW_EH_PE_omit if `omit`, without applications if `direct`."""
    found = [int(encoding) for encoding in ENCODINGS if not direct or encoding & APPLICATION_MASK == 0]
    return st.sampled_from([*found, int(DW_EH_PE.omit)] if omit else found)


def records(cls: type[R], overrides: dict[str, SearchStrategy[Any]] | None = None, **params: Any) -> SearchStrategy[R]:
    """Records of a declaration. `params` as for parsing it; `overrides` replace the strategies of some fields."""
    chosen = overrides or {}
    context_params = SimpleNamespace(**{"address": 0, "address_size": 8} | params)

    @st.composite
    def build(draw: DrawFn) -> R:
        this = SimpleNamespace(_params=context_params)
        for field in fields_of(cls):
            strategy = chosen[field.name] if field.name in chosen else _strategy_of(field.kind, this)
            setattr(this, field.name, draw(strategy))
        return cls(**{field.name: getattr(this, field.name) for field in fields_of(cls)})

    return build()


def values_of(kind: Kind, **params: Any) -> SearchStrategy[Any]:
    """Values of a kind that depends on no other field. `params` as for `records`."""
    return _strategy_of(kind, SimpleNamespace(_params=SimpleNamespace(**{"address": 0, "address_size": 8} | params)))


@singledispatch
def _strategy_of(kind: Kind, this: Any) -> SearchStrategy[Any]:
    raise TypeError(f"no strategy is known for {kind}")


@cache
def _integers(size: int, signed: bool) -> SearchStrategy[int]:
    low, high = Integer(size, signed).limits
    return st.integers(low, high)


@cache
def _one_of_allowed(kind: Integer) -> SearchStrategy[int]:
    return st.sampled_from(kind.allowed)


@_strategy_of.register
def _(kind: Integer, this: Any) -> SearchStrategy[int]:
    return _one_of_allowed(kind) if kind.allowed else _integers(kind.size, kind.signed)


@cache
def _bit_fields(record: type) -> SearchStrategy[Any]:
    widths = bit_widths(record)
    return st.builds(record, **{name: st.integers(0, (1 << width) - 1) for name, width in widths.items()})


@_strategy_of.register
def _(kind: Bits, this: Any) -> SearchStrategy[Any]:
    return _bit_fields(kind.record)


@cache
def _bytes(least: int, most: int) -> SearchStrategy[bytes]:
    return st.binary(min_size=least, max_size=most)


@_strategy_of.register
def _(kind: Variable, this: Any) -> SearchStrategy[int]:
    return _integers(kind.size(this), kind.signed)


@_strategy_of.register
def _(kind: Leb, this: Any) -> SearchStrategy[Leb128]:
    return lebs(signed=kind.signed)


_AUGMENTATIONS = st.lists(st.integers(1, 255), max_size=6).map(bytes)


@_strategy_of.register
def _(kind: NulTerminated, this: Any) -> SearchStrategy[bytes]:
    return _AUGMENTATIONS


@_strategy_of.register
def _(kind: Sized, this: Any) -> SearchStrategy[bytes]:
    size = kind.size(this)
    return _bytes(size, size)


@_strategy_of.register
def _(kind: Block, this: Any) -> SearchStrategy[LebBlock]:
    return blocks()


@_strategy_of.register
def _(kind: Rest, this: Any) -> SearchStrategy[bytes]:
    return _bytes(0, MAX_BYTES)


@_strategy_of.register
def _(kind: Nested, this: Any) -> SearchStrategy[Any]:
    return records(kind.record, **vars(this._params))


@_strategy_of.register
def _(kind: Many, this: Any) -> SearchStrategy[tuple[Any, ...]]:
    count = kind.count(this)
    return st.lists(_strategy_of(kind.kind, this), min_size=count, max_size=count).map(tuple)


@_strategy_of.register
def _(kind: Repeated, this: Any) -> SearchStrategy[tuple[Any, ...]]:
    return st.lists(_strategy_of(kind.kind, this), min_size=kind.length, max_size=kind.length).map(tuple)


@_strategy_of.register
def _(kind: SizedBlock, this: Any) -> SearchStrategy[bytes]:
    return st.binary(max_size=MAX_BYTES)


@_strategy_of.register
def _(kind: UntilZero, this: Any) -> SearchStrategy[tuple[Any, ...]]:
    # A value that starts with a string starts with a zero byte only if the string is empty.
    values = _strategy_of(kind.kind, this).filter(lambda value: value != b"" and getattr(value, "path", b"x") != b"")
    return st.lists(values, max_size=4).map(tuple)


@_strategy_of.register
def _(kind: Entries, this: Any) -> SearchStrategy[tuple[Any, ...]]:
    count = kind.count(this)
    values = st.tuples(*(_strategy_of(one, this) for one in kind.kinds(this)))
    return st.lists(values, min_size=count, max_size=count).map(tuple)


@_strategy_of.register
def _(kind: When, this: Any) -> SearchStrategy[Any]:
    return _strategy_of(kind.kind, this) if kind.condition(this) else st.none()


@_strategy_of.register
def _(kind: Either, this: Any) -> SearchStrategy[Any]:
    return _strategy_of(kind.yes if kind.condition(this) else kind.no, this)


@_strategy_of.register
def _(kind: Given, this: Any) -> SearchStrategy[Any]:
    return st.just(kind.value(this))


@_strategy_of.register
def _(kind: Pointer, this: Any) -> SearchStrategy[Any]:
    encoding = kind.encoding(this)
    if encoding == DW_EH_PE.omit:
        return st.none()
    signed = is_signed(encoding) and not kind.always_unsigned
    size = FORMAT_SIZES[value_format(encoding)]
    if size is None:
        return lebs(signed=signed)
    return _integers(size or this._params.address_size, signed)
