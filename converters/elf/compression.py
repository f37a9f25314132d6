"""Compressed sections: SHF_COMPRESSED with zlib or zstd (gABI), and GNU's older `.zdebug_*` sections.

Strategy: the size that the header states bounds what is decompressed, and those of all sections of a file are bounded
by its size, when it is opened. Not by pyelftools, which inflates whatever the stream holds before it compares sizes.
"""

from __future__ import annotations

import mmap
import sys
import zlib
from contextlib import suppress
from typing import Protocol

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD
from ...schemas.section import ByteOrder, ParseError

ZDEBUG, DEBUG = ".zdebug_", ".debug_"
# The header of a `.zdebug_*` section: this, and the size as 8 bytes, most significant first.
ZDEBUG_MAGIC = b"ZLIB"
ZDEBUG_HEADER_SIZE = 12

# The most bytes of content of all compressed sections for each byte of the file, beside a fixed allowance.
# zlib's maximum ratio is 1032 (MAX_ZLIB), zstd's 32,000, for one repeated byte. Of 272 debug files of Debian one has a
# ratio of 13.4, the others at most 3.2; recompressed with `zstd -19`, 33.8 (1.8 MB) and 4.8. Sections have up to 208
# (160 kB).
MAX_INFLATION, LEAST_INFLATED = 16, 1 << 23
# A zstd decoder allocates a frame's window before it reads the content. All decoders should accept 8 MiB (RFC 8878,
# 3.1.1.1.2); a larger window than the section itself has no use.
LEAST_WINDOW_LOG, LARGEST_WINDOW_LOG = 23, 31
# The most bytes of content for each compressed byte, and compressed bytes that are decompressed at once.
MAX_ZLIB, PIECE = 1032, 1 << 15
LEAST_MAPPED = 1 << 20


@dataclass(frozen=True, slots=True)
class CompressedBytes:
    """The bytes of a compressed section: a header of `header_size` bytes and compressed data; `size` is the
    decompressed size that the header states, `size_width` bytes at offset `size_at` in `byte_order`, and `method` is
    ELFCOMPRESS_..."""

    name: str
    raw: memoryview
    method: int
    size: int
    size_at: int
    size_width: int
    byte_order: ByteOrder
    header_size: int


def plain_name(name: str) -> str:
    """A section's name without GNU's mark for compression: `.debug_line` for `.zdebug_line`."""
    return DEBUG + name.removeprefix(ZDEBUG) if name.startswith(ZDEBUG) else name


def compressed_bytes(
    name: str, raw: memoryview, has_chdr: bool, address_size: int, byte_order: ByteOrder
) -> CompressedBytes | None:
    """Read the compression header of a section. `has_chdr`: it is SHF_COMPRESSED, not a `.zdebug_*` section; one of
    these without its magic number is not compressed, as in readelf, and the result is None. Raises ParseError."""
    if not has_chdr:
        if bytes(raw[: len(ZDEBUG_MAGIC)]) != ZDEBUG_MAGIC or len(raw) < ZDEBUG_HEADER_SIZE:
            return None
        size_at = len(ZDEBUG_MAGIC)
        size = int.from_bytes(raw[size_at:ZDEBUG_HEADER_SIZE], "big")
        return CompressedBytes(name, raw, ELFCOMPRESS_ZLIB, size, size_at, 8, "big", ZDEBUG_HEADER_SIZE)
    # ch_type has 4 bytes, followed by 4 reserved bytes in ELF64; ch_size and ch_addralign are words.
    header_size, size_at = (24, 8) if address_size == 8 else (12, 4)
    if len(raw) < header_size:
        reason = f"{len(raw)} bytes do not hold a compression header of {header_size}"
        raise ParseError(name, 0, "Chdr", reason)
    method = int.from_bytes(raw[:4], byte_order)
    if method not in (ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD):
        raise ParseError(name, 0, "ch_type", f"compression type {method} is unknown: 1 is zlib, 2 is zstd")
    size = int.from_bytes(raw[size_at : size_at + address_size], byte_order)
    return CompressedBytes(name, raw, method, size, size_at, address_size, byte_order, header_size)


def decompress(found: CompressedBytes) -> memoryview:
    """The decompressed bytes, exactly as many as the header states, which was bounded before. Raises ParseError."""
    # One byte more than the stated size reveals a wrong size without decompressing everything.
    limit = found.size + 1
    engine = _zstd if found.method == ELFCOMPRESS_ZSTD else _zlib
    data = engine(found, limit)
    if len(data) != found.size:
        size = f"more than {limit - 1:#x}" if len(data) >= limit else f"{len(data):#x}"
        reason = f"is {found.size:#x}, but the data inflates to {size} bytes"
        raise ParseError(found.name, found.size_at, "ch_size", reason)
    return memoryview(data)


def compress_like(found: CompressedBytes, content: bytes) -> bytes:
    """Other content, compressed by the same method, with the same header except for the size."""
    header = bytearray(found.raw[: found.header_size])
    header[found.size_at : found.size_at + found.size_width] = len(content).to_bytes(found.size_width, found.byte_order)
    if found.method == ELFCOMPRESS_ZLIB:
        return bytes(header) + zlib.compress(content)
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(header) + bytes(zstd.compress(content))


def _zlib(found: CompressedBytes, limit: int) -> memoryview:
    """At most `limit` bytes of a zlib stream. Raises ParseError."""
    try:
        from isal import isal_zlib
    except ImportError:  # it has no wheel for this machine
        pass
    else:
        # What it refuses is read again by zlib, whose messages are known.
        refused: type[Exception] = vars(isal_zlib)["error"]  # its stub declares an instance
        with suppress(refused):
            return _inflated(found, limit, isal_zlib.decompressobj())
    try:
        return _inflated(found, limit, zlib.decompressobj())
    except zlib.error as error:
        raise ParseError(found.name, found.header_size, "compressed data", str(error)) from error


class _Stream(Protocol):
    """A stream of zlib that is being decompressed, by whichever library."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, data: memoryview, max_length: int, /) -> bytes: ...


def _inflated(found: CompressedBytes, limit: int, stream: _Stream) -> memoryview:
    # Piece by piece into their place: zlib's own buffer would be copied whole, and take as much memory again.
    data, size = _memory(min(limit, MAX_ZLIB * len(found.raw))), 0
    for at in range(found.header_size, len(found.raw), PIECE):
        piece = stream.decompress(found.raw[at : at + PIECE], len(data) - size)
        data[size : size + len(piece)] = piece
        size += len(piece)
        if stream.eof or size == len(data):
            break
    return data[:size].toreadonly()


def _memory(size: int) -> memoryview:
    """Some bytes of memory. Many are those of a mapping, which takes a page of memory when it is written, and gives all
    of them back when it is freed."""
    if size < LEAST_MAPPED or not hasattr(mmap, "MAP_PRIVATE"):
        return memoryview(bytearray(size))
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _zstd(found: CompressedBytes, limit: int) -> bytes:
    """At most `limit` bytes of Zstandard frames, of which a linker may write several. Raises ParseError."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    window = min(max(limit.bit_length(), LEAST_WINDOW_LOG), LARGEST_WINDOW_LOG)
    options = {int(zstd.DecompressionParameter.window_log_max): window}
    pieces: list[bytes] = []
    at, left = found.header_size, limit
    while at < len(found.raw) and left:
        try:
            # The frame alone: the bytes after it would be copied once per frame.
            size = zstd.get_frame_size(found.raw[at:])
            pieces.append(zstd.ZstdDecompressor(options=options).decompress(found.raw[at : at + size], left))
        except zstd.ZstdError as error:
            reason = f"is not a valid Zstandard frame: {str(error).rpartition(': ')[2]}"
            raise ParseError(found.name, at, "compressed data", reason) from error
        at, left = at + size, left - len(pieces[-1])
    return b"".join(pieces)
