"""The findings of a section as text: one line per code, with the first places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...schemas.data_classes import dataclass
from .code_names import CodeNames
from .lint import CODES, Code, LintedSection, LintFindings

SHOWN_PLACES = 3


@dataclass(frozen=True, slots=True)
class CodeText:
    """The findings of one code: `text` has their number, size and meaning, `places` are the first of them, `more` the
    number of others."""

    code: Code
    text: str
    places: tuple[str, ...]
    more: int


def finding_texts(names: CodeNames, section: LintedSection) -> Iterator[CodeText]:
    """The findings of a section, code by code."""
    for code in CODES.values():
        found = section.findings.select(section.findings.code == code)
        if len(found):
            size = f", {int(found.size.sum()):,} bytes" if found.size.any() else ""
            places, count = _places(names, code, found)
            text = f"{code.text}: {len(found):,}{size}: {code.meaning}"
            yield CodeText(code, text, places, count - len(places))


def _places(names: CodeNames, code: Code, found: LintFindings) -> tuple[tuple[str, ...], int]:
    """The first places of one code, and their number; uncovered code by symbol or section, the largest first."""
    if code is not Code.UNCOVERED:
        return tuple(_place(names, found.record(index)) for index in range(min(len(found), SHOWN_PLACES))), len(found)
    sizes: Counter[str] = Counter()
    for address, size in zip(found.address.tolist(), found.size.tolist(), strict=True):
        sizes[names.at(address)[0]] += size
    largest = sizes.most_common(SHOWN_PLACES)
    return tuple(f"{name or 'no section'}: {size:,} bytes" for name, size in largest), len(sizes)


def _place(names: CodeNames, one: dict[str, Any]) -> str:
    """Address, name and size of a finding; the section offset of its record."""
    if not one["address"] and one["offset"] < 0:
        return "the whole section"
    name = names.text(one["address"]) if one["address"] else ""
    words = [f"{one['address']:#x}" if one["address"] else "", f"<{name}>" if name else ""]
    words += [f"{one['size']:,} bytes" if one["size"] else ""]
    words += [f"at section offset {one['offset']:#x}" if one["offset"] >= 0 else ""]
    return " ".join(word for word in words if word)
