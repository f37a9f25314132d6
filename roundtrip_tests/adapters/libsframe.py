"""libsframe of binutils 2.47, through ctypes: `sframe_decode` and `sframe_find_fre` on raw sections.

Argument: the path of the library. The words of an FRE are taken as they are stored, and read by the ABI here: the
accessors of libsframe hide paddings and FLEX control words.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .protocol import Refused, Request, serve

SP_FP = {"x86_64": (7, 6), "aarch64": (31, 29), "aarch64_be": (31, 29), "s390x": (15, 11)}
DEREF, REGISTER = 2, 1


class Entry(ctypes.Structure):
    """struct sframe_frame_row_entry (sframe-api.h)."""

    _fields_ = (("start", ctypes.c_uint32), ("words", ctypes.c_uint8 * 24), ("info", ctypes.c_uint8))


def loaded(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    pointer, code = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
    library.sframe_decode.restype = pointer
    library.sframe_decode.argtypes = [ctypes.c_char_p, ctypes.c_size_t, code]
    library.sframe_decoder_free.argtypes = [ctypes.POINTER(pointer)]
    library.sframe_find_fre.argtypes = [pointer, ctypes.c_int64, pointer]
    library.sframe_decoder_get_num_fidx.argtypes = [pointer]
    library.sframe_decoder_get_offsetof_fde_start_addr.argtypes = [pointer, ctypes.c_uint32, code]
    library.sframe_decoder_get_funcdesc_v3.argtypes = [pointer, ctypes.c_uint32, *[pointer] * 6]
    return library


LIBRARY = loaded(sys.argv[1]) if len(sys.argv) > 1 else None


@contextmanager
def decoder_of(data: bytes) -> Iterator[ctypes.c_void_p]:
    assert LIBRARY is not None
    error = ctypes.c_int()
    decoder = ctypes.c_void_p(LIBRARY.sframe_decode(data, len(data), ctypes.byref(error)))
    if not decoder:
        raise Refused(f"sframe_decode: error {error.value}")
    try:
        yield decoder
    finally:
        LIBRARY.sframe_decoder_free(ctypes.byref(decoder))


def ranges_of(decoder: ctypes.c_void_p) -> list[tuple[int, int, bool, bool]]:
    """Start, relative to the section, and end of each FDE of version 3, whether it is FLEX, and without FREs."""
    assert LIBRARY is not None
    found = []
    start, count, size = ctypes.c_int64(), ctypes.c_uint32(), ctypes.c_uint32()
    info, info2, block, error = ctypes.c_uint8(), ctypes.c_uint8(), ctypes.c_uint8(), ctypes.c_int()
    told = [ctypes.byref(one) for one in (count, size, start, info, info2, block)]
    for fde in range(LIBRARY.sframe_decoder_get_num_fidx(decoder)):
        if LIBRARY.sframe_decoder_get_funcdesc_v3(decoder, fde, *told):
            raise Refused("sframe_decoder_get_funcdesc_v3")
        place = LIBRARY.sframe_decoder_get_offsetof_fde_start_addr(decoder, fde, ctypes.byref(error))
        found.append((start.value + place, start.value + place + size.value, bool(info2.value & 1), not count.value))
    return found


def fields_of(entry: Entry, request: Request, data: bytes, *, flex: bool) -> Sequence[str]:
    """CFA, RA and FP of an FRE (the SFrame specification)."""
    sp, fp = SP_FP[request.architecture]
    size, count = 1 << (entry.info >> 5 & 3), entry.info >> 1 & 15
    order = sys.byteorder
    words = [int.from_bytes(bytes(entry.words)[size * one :][:size], order, signed=True) for one in range(count)]
    fixed = data[6] - 256 if data[6] > 127 else data[6]
    mark = "[s]" * (entry.info >> 7)
    if not words:
        return ["u", "undefined", "u"]
    is_s390x = request.architecture == "s390x"

    def cfa_offset(word: int) -> int:
        return word * 8 + 160 if is_s390x else word

    if flex:
        return flex_fields(words, size, f"c{fixed:+d}" if fixed else "u", cfa_offset, mark)
    cfa = f"r{sp if entry.info & 1 else fp}{cfa_offset(words[0]):+d}"
    rest = words[1:]
    ra = f"c{fixed:+d}" if fixed else slot(rest.pop(0), is_s390x=is_s390x) if rest else "u"
    return [cfa, ra + mark, slot(rest[0], is_s390x=is_s390x) if rest else "u"]


def slot(word: int, *, is_s390x: bool) -> str:
    """A word for RA or FP: an offset, 0 for none, or on s390x a register."""
    if is_s390x and word & 1:
        return f"r{word >> 1}+0"
    return f"c{word:+d}" if word else "u"


def flex_fields(words: list[int], size: int, fixed: str, cfa_offset: object, mark: str) -> Sequence[str]:
    """CFA, RA and FP of a FLEX FRE: pairs of a control word and an offset."""
    found, mask = [], (1 << 8 * size) - 1
    while words:
        control = words.pop(0) & mask
        if not control:
            found.append("")
            continue
        offset = words.pop(0)
        if not found:
            offset = cfa_offset(offset)
        base = f"r{control >> 3}{offset:+d}"
        if not control & REGISTER:
            found.append(f"c{offset:+d}" if control & DEREF else f"v{offset:+d}")
        else:
            found.append(f"m({base})" if control & DEREF else base)
    cfa, ra, fp = (*found, "", "")[:3]
    return [cfa, (ra or fixed) + mark, fp or "u"]


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    assert LIBRARY is not None
    with open(request.path, "rb") as file:
        data = file.read()
    found: list[Sequence[str]] = []
    with decoder_of(data) as decoder:
        ranges = ranges_of(decoder) if data[2] == 3 else []
        for pc in request.pcs:
            entry, offset = Entry(), pc - request.address
            flex, is_empty = next((kind for low, high, *kind in ranges if low <= offset < high), (False, False))
            if is_empty:
                # The caller of libsframe has to know what such an FDE means: an outermost frame.
                found.append(["u", "undefined", "u"])
                continue
            if LIBRARY.sframe_find_fre(decoder, offset, ctypes.byref(entry)):
                found.append(["-"])
                continue
            found.append(fields_of(entry, request, data, flex=flex))
    return found


if __name__ == "__main__":
    serve(answer)
