"""A case: a section, how to call it, and what a right reader answers.

Strategy: answers come from what was drawn, never from reading the bytes. The JSON of a case is described in the manual
(docs/commands/corpus.md); `JSON_SCHEMA` is its version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple

from ..converters.arch.table import Architecture
from ..schemas.arguments import check_text, checked
from ..schemas.data_classes import dataclass
from ..schemas.section import ByteOrder

JSON_SCHEMA = 1
# The answer where nothing covers a PC, where the bytes that decide it are broken, and where readers that read no more
# than they need may not see that.
NO_ROW = "-"
ERROR = "error"
ANY = "any"
Answer = tuple[str, ...]
NONE: Answer = (NO_ROW,)
FAULTY: Answer = (ERROR,)
UNDECIDED: Answer = (ANY,)


class WireField(NamedTuple):
    """A field of a section: its path in the words of the specification, its place, and the stored value."""

    name: str
    offset: int
    size: int
    value: int


@dataclass(frozen=True, slots=True)
class Fault:
    """The one field that makes a section malformed: `stored` is its value, at `offset` in the section."""

    name: str
    field: str
    offset: int
    size: int
    stored: int
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """A section and its answers.

    `fields` names the parts of an answer. `answers` has, by PC, a value of each, NONE where no row is in force,
    FAULTY where the fault decides, or UNDECIDED. `encodings` are choices that do not change the meaning of the section.
    """

    format: str
    version: int
    architecture: Architecture
    byte_order: ByteOrder
    section: str
    address: int
    data: bytes
    fields: tuple[str, ...]
    answers: dict[int, Answer]
    header: dict[str, int | str] = field(default_factory=dict)
    functions: tuple[dict[str, Any], ...] = ()
    features: frozenset[str] = frozenset()
    layout: tuple[WireField, ...] = ()
    fault: Fault | None = None
    other_sections: tuple[tuple[str, bytes, int | None], ...] = ()

    @property
    def is_text(self) -> bool:
        """Whether it is a symbol file, which no ELF file contains."""
        return not self.section.startswith(".")

    @checked(title=check_text, file_name=check_text)
    def to_json(self, title: str, file_name: str) -> dict[str, Any]:
        """The JSON object; addresses are hexadecimal strings."""
        fault = self.fault
        return {
            "schema": JSON_SCHEMA,
            "case": title,
            "file": file_name,
            "format": self.format,
            "version": self.version,
            "arch": self.architecture.name,
            "byte_order": self.byte_order,
            "section": self.section,
            "address": hex(self.address),
            "size": len(self.data),
            "features": sorted(self.features),
            "header": self.header,
            "functions": [
                {key: hex(value) if key in _ADDRESSES else value for key, value in one.items()}
                for one in self.functions
            ],
            "fields": list(self.fields),
            "answers": {hex(pc): _json_answer(answer) for pc, answer in self.answers.items()},
            "fault": None
            if fault is None
            else {name: getattr(fault, name) for name in ("name", "field", "offset", "size", "stored", "reason")},
        }


_ADDRESSES = ("start", "end", "lsda", "personality", "fde_address")


def _json_answer(answer: Answer) -> str | list[str]:
    return answer[0] if answer in (NONE, FAULTY, UNDECIDED) else list(answer)


def telling_pcs(ranges: Sequence[tuple[int, int, Sequence[int]]], limit: int) -> list[int]:
    """The PCs where a reader could err by one, and one inside each row, below `limit`.

    `ranges` are start, size and the starts of rows, absolute, of each function.
    """
    found: set[int] = set()
    for start, size, rows in ranges:
        end = start + size
        inside = sorted({start, *rows})
        found |= {one + beside for one in (*inside, end) for beside in (-1, 0)}
        found |= {(low + high) // 2 for low, high in zip(inside, [*inside[1:], end], strict=True) if low < high}
    return sorted(pc for pc in found if 0 <= pc < limit)
