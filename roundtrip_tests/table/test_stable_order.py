"""The order of equal numbers, by radix."""

from __future__ import annotations

import numpy as np
from unwindkit.converters.arrays import stable_order


def test_equal_numbers_stay_in_order() -> None:
    assert stable_order(np.array([5, 3, 5, 0, 3])).tolist() == [3, 1, 4, 0, 2]


def test_numbers_above_16_bits() -> None:
    assert stable_order(np.array([70_000, 3, 70_000, 65_539, 3, 1 << 31])).tolist() == [1, 4, 3, 0, 2, 5]


def test_no_numbers() -> None:
    assert stable_order(np.zeros(0, np.int64)).tolist() == []
