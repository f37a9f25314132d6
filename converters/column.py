"""The declaration of a column."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

import numpy as np


class Column(NamedTuple):
    """The declaration of a column. `items` is the number of values per record; 0 for a one-dimensional column. `kind`
    is the enumeration that the values are members of, if any."""

    name: str
    dtype: np.dtype[Any]
    unit: str
    meaning: str
    items: int = 0
    fill: int = 0
    kind: type[IntEnum | IntFlag] | None = None

    def shape(self, count: int) -> tuple[int, ...]:
        """The shape of the column of `count` records."""
        return (count, self.items) if self.items else (count,)
