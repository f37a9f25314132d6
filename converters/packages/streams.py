"""Compressed bytes as a stream: gzip, xz, lzma, bzip2, zstd, or as they are.

Strategy: the decompressors of the standard library, each asked for a limited number of bytes, so that memory does not
depend on the input. Several streams one after the other are one, as the programs of these formats have it.
"""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import NoReturn, Protocol

from ...schemas.section import ParseError
from ..limits import exceeded, raised
from .members import LEAST_UNPACKED, MAX_UNPACKED

FEED = 1 << 16
# An xz stream names the size of its dictionary, which is allocated; `xz -9` has 64 MiB.
LZMA_MEMORY = 1 << 27


class _Engine(Protocol):
    """A decompressor, as in the modules bz2 and lzma."""

    @property
    def eof(self) -> bool:
        """Whether the stream is at its end."""

    @property
    def needs_input(self) -> bool:
        """Whether it has no more output without more input."""

    @property
    def unused_data(self) -> bytes:
        """What follows the end of the stream."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Up to `max_length` bytes."""


class _Gzip:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._engine = zlib.decompressobj(31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._engine.eof

    @property
    def unused_data(self) -> bytes:
        return self._engine.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        out = self._engine.decompress(self._engine.unconsumed_tail + data, max_length)
        # If the output is full, more may follow although all input has been consumed.
        self.needs_input = not self._engine.unconsumed_tail and len(out) < max_length
        return out


def _zstd_module() -> ModuleType:
    # By packages that are compressed so only.
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _zstd() -> _Engine:
    engine: _Engine = _zstd_module().ZstdDecompressor()
    return engine


def _xz() -> _Engine:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, LZMA_MEMORY)


def _lzma() -> _Engine:
    return lzma.LZMADecompressor(lzma.FORMAT_ALONE, LZMA_MEMORY)


# The first bytes, and the decompressor. An lzma stream has no magic number: these are the usual properties.
ENGINES: tuple[tuple[bytes, Callable[[], _Engine]], ...] = (
    (b"\x1f\x8b\x08", _Gzip),
    (b"\xfd7zXZ\0", _xz),
    (b"\x28\xb5\x2f\xfd", _zstd),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\x5d\0\0", _lzma),
)
# bz2 raises OSError.
ERRORS: tuple[type[Exception], ...] = (lzma.LZMAError, zlib.error, OSError, EOFError, ValueError)


def is_compressed(start: bytes | memoryview) -> bool:
    """Whether bytes are compressed, by the first of them."""
    return any(bytes(start[: len(magic)]) == magic for magic, _ in ENGINES)


class Unpacked:
    """The bytes of `data`, decompressed if they are compressed; read once, in order.

    `name` is for errors: ParseError for malformed and truncated data, and for data that inflates too much.
    """

    def __init__(self, name: str, data: memoryview) -> None:
        self.position = 0
        self._name, self._data, self._at = name, data, 0
        self._limit = raised(LEAST_UNPACKED + MAX_UNPACKED * len(data))
        self._engine: _Engine | None = None
        self._make = next((make for magic, make in ENGINES if bytes(data[: len(magic)]) == magic), None)
        self._magic = next((magic for magic, _ in ENGINES if bytes(data[: len(magic)]) == magic), b"")
        self._errors = ERRORS
        if self._make is not None:
            self._engine = self._make()
        if self._make is _zstd:
            self._errors = (*ERRORS, _zstd_module().ZstdError)

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end. Raises ParseError."""
        pieces = []
        while size > 0:
            piece = self._stored(size) if self._make is None else self._decompressed(size)
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
            self.position += len(piece)
        if self.position > self._limit:
            self._refuse(exceeded(f"unpacks to more than {self._limit:,} bytes"))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _stored(self, size: int) -> bytes:
        piece = bytes(self._data[self._at : self._at + size])
        self._at += len(piece)
        return piece

    def _decompressed(self, size: int) -> bytes:
        while self._engine is not None:
            feed = b""
            if self._engine.needs_input:
                feed = bytes(self._data[self._at : self._at + FEED])
                self._at += len(feed)
                if not feed:
                    self._refuse("the compressed data is truncated")
            try:
                out = self._engine.decompress(feed, size)
            except self._errors as error:
                self._refuse(f"the compressed data is malformed: {error}")
            if self._engine.eof:
                self._at -= len(self._engine.unused_data)
                self._engine = self._following()
            if out:
                return out
        return b""

    def _following(self) -> _Engine | None:
        """The decompressor of the next stream, if there is one; xz pads streams with zeros."""
        while self._at < len(self._data) and not any(self._data[self._at : self._at + 4]):
            self._at += 4
        follows = bytes(self._data[self._at : self._at + len(self._magic)]) == self._magic
        return self._make() if follows and self._make is not None else None

    def _refuse(self, reason: str) -> NoReturn:
        raise ParseError(self._name, None, "", reason)
