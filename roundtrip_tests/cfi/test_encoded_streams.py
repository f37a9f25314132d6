"""Encoded instruction streams, some of which are replaced."""

from __future__ import annotations

import numpy as np
from unwindkit.converters.cfi.write_instructions import EncodedStreams


def streams(*texts: bytes) -> EncodedStreams:
    size = np.array([len(text) for text in texts], np.int64)
    return EncodedStreams(np.frombuffer(b"".join(texts), np.uint8), np.cumsum(size) - size, size)


def texts(found: EncodedStreams) -> list[bytes]:
    pairs = zip(found.start.tolist(), found.size.tolist(), strict=True)
    return [found.data[start : start + size].tobytes() for start, size in pairs]


def test_replaced_streams() -> None:
    found = streams(b"ab", b"c", b"def").replaced(np.array([1, 2]), streams(b"XYZ", b""))
    assert texts(found) == [b"ab", b"XYZ", b""]
    assert texts(found.select(np.array([1, 0]))) == [b"XYZ", b"ab"]


def test_nothing_replaced() -> None:
    assert texts(streams(b"ab", b"c").replaced(np.zeros(0, np.int64), streams())) == [b"ab", b"c"]
