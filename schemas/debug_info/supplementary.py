"""`.debug_sup`: the link to a supplementary file, and what identifies that file (DWARF5 7.3.6).

Strategy: the section is one record, in both files.
"""

from __future__ import annotations

from ..wire import Block, Integer, LebBlock, NulTerminated, record, wire

DEBUG_SUP = ".debug_sup"


@record
class DebugSup:
    """The contents of `.debug_sup`. The file name is empty in the supplementary file itself."""

    version: int = wire(Integer(2, allowed=(5,)), "5")
    is_supplementary: int = wire(Integer(1, allowed=(0, 1)), "1 in the supplementary file, 0 in files that refer to it")
    sup_filename: bytes = wire(NulTerminated(), "path of the supplementary file")
    sup_checksum: LebBlock = wire(Block(), "sup_checksum_len, and the checksum of the supplementary file")
