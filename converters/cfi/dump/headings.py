"""Headings of entries as GNU readelf 2.47 prints them, for few entries; those of most FDEs are written in bulk."""

from __future__ import annotations

from typing import Any

import numpy as np

from .entries import DecodedEntries


def heading_text(entries: DecodedEntries[Any], entry: int, interpreted: bool) -> bytes:
    """The heading of an entry that is not an FDE, or of an FDE with a segment."""
    offset = int(entries.offset[entry])
    if entries.cie[entry] < 0:
        # For several adjacent ones, which are one entry, readelf prints this once.
        return f"\n{offset:08x} ZERO terminator\n\n".encode()
    one = np.array([entry])
    digits, id_digits = 2 * int(entries.address_size(one)[0]), 2 * int(entries.id_size(one)[0])
    length = int(entries.length(one)[0]) % (1 << 4 * digits)
    place = f"\n{offset:08x} {length:0{digits}x} {int(entries.entry_id(one)[0]):0{id_digits}x} "
    cie = entries.cies[entries.cie[entry]]
    if entries.is_fde[entry]:
        start = int(entries.start[entry])
        end = (start + int(entries.size[entry])) % (1 << 4 * digits)
        cie_offset, segment = int(entries.cie_offset[entries.cie[entry]]), int(entries.segment[entry])
        return f"{place}FDE cie={cie_offset:08x} pc={segment:04x}:{start:0{digits}x}..{end:0{digits}x}\n".encode()
    code, data, column = (
        int(value) for value in (cie.code_alignment_factor, cie.data_alignment_factor, cie.return_address_register)
    )
    if interpreted:
        numbers = f'" cf={code} df={data} ra={column}\n'
        return b"".join((f'{place}CIE "'.encode(), cie.augmentation, numbers.encode()))
    sizes = f"  Pointer Size:          {cie.address_size}\n  Segment Size:          {cie.segment_selector_size}\n"
    return b"".join(
        (
            f"{place}CIE\n  Version:               {cie.version}\n".encode(),
            b'  Augmentation:          "' + cie.augmentation + b'"\n',
            (sizes if cie.address_size is not None else "").encode(),
            f"  Code alignment factor: {code}\n  Data alignment factor: {data}\n".encode(),
            f"  Return address column: {column}\n".encode(),
            # In place of augmentation data, if there are none.
            b"\n" if entries.data[entry] == entries.instructions[entry] else b"",
        )
    )
