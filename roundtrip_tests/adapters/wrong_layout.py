"""A reader of SFrame V2 that is wrong on purpose: both info bytes are read in a layout that no specification has.

The FDE's: bit 0 PCMASK, bits 1 and 2 the width of starts. The FRE's: bit 0 clear for SP, bits 1 and 2 the width of
offsets, bit 3 an RA offset, bit 4 an FP offset. A decoder with this mistake was released.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .protocol import Request, serve

SP_FP = {"x86_64": (7, 6), "aarch64": (31, 29), "aarch64_be": (31, 29), "s390x": (15, 11)}


def row_at(request: Request, data: bytes, pc: int) -> Sequence[str]:
    order = "<" if request.byte_order == "little" else ">"
    flags, ra_offset, auxiliary = data[3], struct.unpack_from("b", data, 6)[0], data[7]
    count, _, _, fdes, fres = struct.unpack_from(order + "5I", data, 8)
    for index in range(count):
        place = 28 + auxiliary + fdes + 20 * index
        start, size, first, rows, info, block = struct.unpack_from(order + "iIIIBB", data, place)
        start += request.address + (place if flags & 4 else 0)
        if not start <= pc < start + size:
            continue
        offset = (pc - start) % block if info & 1 and block else pc - start
        place, width, found = 28 + auxiliary + fres + first, 1 << (info >> 1 & 3), ["-"]
        for _ in range(rows):
            begin = int.from_bytes(data[place : place + width], request.byte_order)
            byte = data[place + width]
            bits, words = 1 << (byte >> 1 & 3), 1 + (byte >> 3 & 1) + (byte >> 4 & 1)
            place += width + 1
            values = [
                int.from_bytes(data[place + bits * one :][:bits], request.byte_order, signed=True)
                for one in range(words)
            ]
            place += bits * words
            if begin > offset:
                break
            ra = f"c{ra_offset:+d}" if ra_offset else f"c{values[1]:+d}" if byte & 8 else "u"
            fp = f"c{values[-1]:+d}" if byte & 16 else "u"
            found = [f"r{SP_FP[request.architecture][byte & 1]}{values[0]:+d}", ra, fp]
        return found
    return ["-"]


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case; anything unexpected is no row."""
    with open(request.path, "rb") as file:
        data = file.read()
    found = []
    for pc in request.pcs:
        try:
            found.append(row_at(request, data, pc))
        except (struct.error, IndexError, OverflowError):
            found.append(["-"])
    return found


if __name__ == "__main__":
    serve(answer)
