"""The code of a file that no function of a table covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..elf.image import ElfImage
from ..sframe.merge_fdes import is_padding
from ..table.lookup import range_owners
from ..table.model import UnwindTable
from .read_elf import code_of

if TYPE_CHECKING:
    from .code_frames import Ranges


def uncovered_code(image: ElfImage, table: UnwindTable) -> Ranges:
    """The ranges of executable sections without a function, except for padding between functions, where the padding
    instructions of the architecture are known: starts and ends."""
    owner, begin = range_owners(table.functions.start, table.functions.size)
    end = table.functions.start[owner] + table.functions.size[owner]
    found = []
    for section in image.sections:
        if section.is_code and section.size:
            low, high = np.uint64(section.address), np.uint64(section.end_address)
            inside = (end > low) & (begin < high)
            starts = np.append(low, np.clip(end[inside], low, high))
            ends = np.append(np.clip(begin[inside], low, high), high)
            found.append(np.stack([starts, ends])[:, ends > starts])
    start, stop = np.concatenate([np.zeros((2, 0), np.uint64), *found], axis=1)
    if image.architecture.padding_code is not None:
        is_left = ~is_padding(start, stop, code_of(image), image.architecture.padding_code)
        start, stop = start[is_left], stop[is_left]
    return start, stop
