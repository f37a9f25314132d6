"""Numbers that archives store as text: octal in tar, hexadecimal in cpio."""

from __future__ import annotations

from ..section import ParseError

OCTAL, HEXADECIMAL = frozenset(b"01234567"), frozenset(b"0123456789abcdefABCDEF")


def text_number(field: bytes, base: int, archive: str, offset: int, record: str) -> int:
    """The number that all bytes of `field` spell in base 8 or 16; 0 if there are none. Raises ParseError."""
    if not field:
        return 0
    if not set(field) <= (OCTAL if base == 8 else HEXADECIMAL):
        raise ParseError(archive, offset, record, f"{field!r} is not a number in base {base}")
    return int(field, base)
