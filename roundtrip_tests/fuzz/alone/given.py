"""What a kernel is given: arrays and numbers by name, and how they are stored as JSON.

Strategy: an argument has the name of its parameter; those that a kernel's object was made with follow the name of that
parameter and a dot: `reader.data`. Arrays are never changed in place, so that inputs share them.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Given = dict[str, Array | int]


class Ran(NamedTuple):
    """What a kernel did: the `fault` (0: none), how many items it read or wrote, and the arrays that it filled."""

    fault: int
    sizes: tuple[int, ...]
    arrays: tuple[Array, ...] = ()

    def signature(self) -> tuple[int, ...]:
        """The fault, and the first sizes as powers of two."""
        return self.fault, *(size.bit_length() for size in self.sizes[:2])

    def is_same(self, other: Ran) -> bool:
        """Whether all is equal."""
        return (
            self.fault == other.fault
            and self.sizes == other.sizes
            and all(np.array_equal(one, two) for one, two in zip(self.arrays, other.arrays, strict=True))
        )


def array(given: Given, name: str) -> Array:
    """An argument that is an array."""
    found = given[name]
    assert isinstance(found, np.ndarray), name
    return found


def number(given: Given, name: str) -> int:
    """An argument that is a number."""
    found = given[name]
    assert not isinstance(found, np.ndarray), name
    return found


def views_of(given: Given, *names: str) -> list[Any]:
    """Arrays as kernels take them (`converters.kernels.views`)."""
    return [array(given, name).data for name in names]


def encode(given: Given) -> bytes:
    """As JSON: numbers as they are, of arrays the dtype, the shape and the bytes in hexadecimal."""
    found = {
        name: [one.dtype.str, list(one.shape), one.tobytes().hex()] if isinstance(one, np.ndarray) else one
        for name, one in given.items()
    }
    return json.dumps(found).encode()


def decode(data: bytes) -> Given:
    """What `encode` stored."""
    found: Given = {}
    for name, one in json.loads(data).items():
        if isinstance(one, list):
            kind, shape, text = one
            found[name] = np.frombuffer(bytes.fromhex(text), kind).reshape(shape).copy()
        else:
            found[name] = int(one)
    return found
