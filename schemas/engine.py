"""The reference engine: construct parses and builds any declared record (slow, exact).

Strategy: `constructs` turns a declaration into a construct Struct; here that parses and builds, and every error becomes
a ParseError or BuildError that names the field. construct is imported by the first record: that takes longer than most
commands, which need it for malformed input only (`direct`).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from .section import BuildError, ByteOrder, ParseError, Section
from .wire import Kind

if TYPE_CHECKING:
    import construct

R = TypeVar("R")


def _path_and_reason(error: construct.ConstructError, record: str) -> tuple[str, str]:
    """Record path and reason from construct's message ("Error in path (parsing) -> version\\n...")."""
    path = (error.path or "").partition(" -> ")[2].replace(" -> ", ".")
    reason = str(error.args[0] if error.args else error).splitlines()[-1]
    return f"{record}.{path}" if path else record, reason


def parse(cls: type[R], section: Section, offset: int, end: int, record: str = "", **params: Any) -> tuple[R, int]:
    """Parse the `cls` that starts `offset` bytes into `section` and ends at `end` or before.

    Returns it and the offset after it. `params` are the parameters that the declaration reads from `this._params`.
    Raises ParseError.
    """
    return parse_stream(cls, section, io.BytesIO(section.data[offset:end]), offset, record, **params)


def parse_stream(
    cls: type[R], section: Section, stream: io.BytesIO, offset: int, record: str = "", **params: Any
) -> tuple[R, int]:
    """As `parse`, from the current position of `stream`, which has the section's bytes from `offset` on.

    Parsing many records from one stream copies the bytes once.
    """
    from . import constructs

    subcon = constructs.struct_of(cls, section.byte_order)
    return _parse(subcon, section, stream, offset, record or cls.__name__, params)


def parse_value(
    kind: Kind, section: Section, stream: io.BytesIO, offset: int, record: str, **params: Any
) -> tuple[Any, int]:
    """As `parse_stream`, for one value of a kind, such as an operand. Errors call it `record`.value."""
    from . import constructs

    subcon = constructs.construct_of(type(kind).__name__, kind, section.byte_order)
    return _parse(subcon, section, stream, offset, f"{record}.value", params)


def _parse(
    subcon: construct.Construct,
    section: Section,
    stream: io.BytesIO,
    offset: int,
    record: str,
    params: dict[str, Any],
) -> tuple[Any, int]:
    import construct

    params = {"address": section.address + offset, "address_size": section.address_size} | params
    try:
        value = subcon.parse_stream(stream, **params)
    except construct.ConstructError as error:
        raise ParseError(section, offset + stream.tell(), *_path_and_reason(error, record)) from error
    return value, offset + stream.tell()


# Parameters of records that are built without them.
DEFAULTS = {"address": 0, "address_size": 8}


def build(value: Any, byte_order: ByteOrder = "little", record: str = "", **params: Any) -> bytes:
    """The bytes of a record. `params` as for `parse`; raises BuildError."""
    from . import constructs

    subcon = constructs.struct_of(type(value), byte_order)
    return _build(subcon, value, record or type(value).__name__, params)


def build_value(kind: Kind, value: Any, byte_order: ByteOrder, record: str, **params: Any) -> bytes:
    """As `build`, for one value of a kind. Errors call it `record`.value."""
    from . import constructs

    subcon = constructs.construct_of(type(kind).__name__, kind, byte_order)
    return _build(subcon, value, f"{record}.value", params)


def _build(subcon: construct.Construct, value: Any, record: str, params: dict[str, Any]) -> bytes:
    import construct

    params = DEFAULTS | params
    try:
        data: bytes = subcon.build(value, **params)
    except (construct.ConstructError, TypeError) as error:
        place = _path_and_reason(error, record) if isinstance(error, construct.ConstructError) else (record, str(error))
        raise BuildError("", None, *place) from error
    return data


def parse_records(
    section: Section, parse_one: Callable[[Section, int, int], tuple[R, int]], offset: int = 0
) -> Iterator[tuple[int, R]]:
    """Parse consecutive records up to the section's end; yield each with its offset.

    `parse_one(section, offset, index)` returns the record and the offset after it, which must be larger.
    """
    index = 0
    while offset < len(section):
        value, end = parse_one(section, offset, index)
        if end <= offset:
            raise ParseError(section, offset, f"[{index}]", "an empty record")
        yield offset, value
        offset = end
        index += 1
