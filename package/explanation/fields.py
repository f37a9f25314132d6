"""Fields of declared records as text."""

from __future__ import annotations

import re

from ..schemas.section import Section
from ..schemas.wire import Bits, LebBlock
from .model import ExplainedField
from .spans import FieldSpan, bits_text

# A declaration's docstring names the section of the text that it is from, in brackets.
_TEXT = re.compile(r"\(([^()]*)\)")


def text_of(cls: type) -> str:
    """The section of the text that declares a record, "" if its declaration does not say."""
    found = _TEXT.search(cls.__doc__ or "")
    return found[1] if found else ""


def field_of(section: Section, start: int, end: int, name: str, value: str, meaning: str) -> ExplainedField:
    """The field of these bytes."""
    return ExplainedField(start, bytes(section.data[start:end]), name, value, meaning.replace("`", ""))


def value_text(span: FieldSpan) -> str:
    """A value as stored."""
    value = span.value
    if isinstance(span.kind, Bits):
        return bits_text(value)
    if isinstance(value, bytes):
        return repr(value.decode("latin-1"))
    if isinstance(value, LebBlock):
        return value.data.hex(" ")
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    number: int = value.__int__()  # of a Leb128, too
    return str(number) if abs(number) < 1 << 12 else f"{number:#x}"
