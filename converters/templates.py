"""Templates of text for many records at once: `"to {address:#x} and Line by {line_advance:d}"`.

Strategy: a template is words and numbers; a kernel puts the numbers of each record between the words. Fields are named
as the columns of the records; their formats are Python's, as far as C's printf has them: none (unsigned decimal), `d`
(signed), `#x` (with 0x, but for 0), `x` (digits), each behind a width, and `w`, the word of that number.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from .kernels import engine, views
from .kernels.text.protocol import Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KINDS = {"": Step.UNSIGNED, "d": Step.SIGNED, "#x": Step.HEXADECIMAL, "x": Step.DIGITS, "w": Step.WORD_OF}
_FORMAT = re.compile(r"(#?)0?(\d*)([dxw]?)")


class Templates:
    """Templates and the words that they are filled with. `columns` names the values of a record, lower case."""

    def __init__(self, columns: type[IntEnum], templates: Sequence[str]) -> None:
        self._numbers = {member.name.lower(): int(member) for member in columns}
        self._words: list[bytes] = []
        self._steps: list[tuple[int, int, int]] = []
        self._first = [0]
        for template in templates:
            self._add(template)

    def _add(self, template: str) -> None:
        for text, name, form, _ in string.Formatter().parse(template):
            if text:
                self._steps.append((Step.WORD, len(self._words), 0))
                self._words.append(text.encode())
            if name is not None:
                found = _FORMAT.fullmatch(form or "")
                assert found is not None, template
                kind = _KINDS[found[1] + found[3]]
                self._steps.append((kind, self._numbers[name], int(found[2] or 0)))
        self._first.append(len(self._steps))

    @property
    def first_word(self) -> int:
        """The number of the first word that `fill` is given."""
        return len(self._words)

    def fill(self, template: NDArray[np.int64], values: NDArray[np.uint64], words: Iterable[bytes] = ()) -> bytes:
        """The text of records: their templates, their values, and the words that values name, from `first_word` on."""
        all_words = [*self._words, *words]
        sizes = np.array([len(word) for word in all_words], np.int64)
        steps = np.array(self._steps, np.int64).reshape(-1, 3).T.copy()
        fixed = (
            *(np.frombuffer(b"".join(all_words) or b"\0", np.uint8), np.cumsum(sizes) - sizes, sizes),
            *(np.array(self._first, np.int64), *steps, template, np.ascontiguousarray(values)),
        )
        size = engine.text.printf.fill(*views(*fixed, np.zeros(0, np.uint8)))
        out = np.empty(size, np.uint8)
        engine.text.printf.fill(*views(*fixed, out))
        return out.tobytes()
