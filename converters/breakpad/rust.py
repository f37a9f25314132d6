"""Names of Rust's legacy mangling scheme: C++'s nested names, with escapes for other characters, and a hash at the end.

Strategy: of a file that is written in Rust all names are such ones, so the usual form is taken apart here, with each
distinct component once. Others are left to the library.
"""

from __future__ import annotations

import re

_START, _HASH = "_ZN", re.compile(r"17h[0-9a-f]{16}E")
_HASH_SIZE = 20
_LENGTH = re.compile(r"[0-9]{1,9}(?![0-9])")
_ESCAPE = re.compile(r"\.\.|\$([^$]*)\$?")
_ESCAPED = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_SEPARATOR = "::"


class LegacyNames:
    """Demangles legacy names; remembers the components of their paths."""

    def __init__(self) -> None:
        self._components: dict[str, str] = {}

    def path(self, name: str) -> str | None:
        """The path of a legacy name, without its hash; None for a name of any other form."""
        end = len(name) - _HASH_SIZE
        if not (name.startswith(_START) and name.isascii() and _HASH.fullmatch(name, max(end, 0))):
            return None
        at, parts = len(_START), []
        while at < end:
            length = _LENGTH.match(name, at, end)
            if length is None:
                return None
            at = length.end() + int(length[0])
            component = name[length.end() : at]
            text = self._components.get(component)
            if text is None:
                text = _unescaped(component)
                if text is None:
                    return None
                self._components[component] = text
            parts.append(text)
        return _SEPARATOR.join(parts) if at == end and parts else None


def _unescaped(component: str) -> str | None:
    """A component without escapes; None if it has an unknown one. Two dots separate components of a path inside it, but
    not after the last escape unless they follow it."""
    component = component[1:] if component.startswith("_$") else component
    end = component.rfind("$") + 1
    rest = component[end:].lstrip(".")
    dots = len(component) - end - len(rest)
    try:
        return _ESCAPE.sub(_replacement, component[:end]) + _SEPARATOR * (dots // 2) + "." * (dots % 2) + rest
    except ValueError:
        return None


def _replacement(found: re.Match[str]) -> str:
    """The text of an escape. Raises ValueError for an unknown one."""
    code = found[1]
    if code is None:
        return _SEPARATOR
    if code in _ESCAPED:
        return _ESCAPED[code]
    if not re.fullmatch("u[0-9a-f]{1,6}", code):
        raise ValueError(code)
    text = chr(int(code[1:], 16))
    if not text.isprintable():
        raise ValueError(code)
    return text
