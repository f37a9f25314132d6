"""FREs of a section as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas import sframe
from ...schemas.derive import bit_position
from ...schemas.section import BuildError, ParseError, Section
from ...schemas.sframe_abi import SframeAbi
from ..arch.table import Architecture
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse
from ..limits import exceeded, raised
from ..table.runs import ROWS_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..kernels.sframe.fres import Fres as KernelFres


# Data words of an FRE: CFA, RA, FP; in a FLEX FDE, a pair of words for each.
MAX_WORDS = 3
MAX_FLEX_WORDS = 6
# The text allows this many; those of ordinary FREs after the third have no meaning yet.
ALLOWED_WORDS = bit_position(sframe.FreInfo, "fre_offset_count")[1]
# Hostile FDEs can refer to the same bytes many times, from different starts. Sections with at most this many FREs are
# read anyway; real sections that are larger repeat few bytes.
FREE_ROWS = 1 << 20


def abi_of(architecture: Architecture) -> SframeAbi:
    """The architecture's SFrame ABI. Raises BuildError if it has none."""
    if architecture.sframe is None:
        raise BuildError(".sframe", None, "abi_arch", f"SFrame has no ABI for {architecture.name}")
    return architecture.sframe


@columns
class FreBlocks(Columns):
    """Blocks of FREs."""

    offset: NDArray[np.int64] = column_of("bytes", "from the start of the FRE sub-section")
    count: NDArray[np.int64] = column_of("FREs")
    width: NDArray[np.uint8] = column_of("bytes", "of a start address")
    is_flex: NDArray[np.bool_] = column_of(meaning="whether words are pairs")
    fde: NDArray[np.int64] = column_of("index", "of an FDE that refers to it")


class Slots(NamedTuple):
    """Where one register is saved, one element per FRE: the offset or data word, and whether there is one."""

    word: NDArray[np.int64]
    is_there: NDArray[np.bool_]


class Pairs(NamedTuple):
    """A control and an offset word, one element per FRE, and whether the FRE has them."""

    control: NDArray[np.int64]
    offset: NDArray[np.int64]
    is_there: NDArray[np.bool_]


@columns
class Fres(Columns):
    """Frame row entries as stored."""

    start: NDArray[np.uint64] = column_of("bytes", "from the function's start")
    info: NDArray[np.uint8] = column_of("`FreInfo`", "the FRE info word")
    words: NDArray[np.int32] = column_of("data words", "0 for words that an FRE does not have", items=MAX_FLEX_WORDS)
    is_flex: NDArray[np.bool_] = column_of(meaning="whether words are pairs")

    @classmethod
    def zeros(cls, count: int, words: int) -> Fres:
        """FREs to be filled in, with up to `words` data words each."""
        return cls.defaults(count, words=np.zeros((count, words), np.int32))

    def for_kernels(self) -> KernelFres:
        """The columns as kernels fill them."""
        return engine.sframe.fres.Fres(*views(self.start, self.info, self.words))

    def bits(self, name: str) -> NDArray[np.uint8]:
        """One field of the info word."""
        shift, mask = bit_position(sframe.FreInfo, name)
        return self.info >> np.uint8(shift) & np.uint8(mask)

    def slots(self, fixed_ra: int, fixed_fp: int) -> tuple[Slots, Slots]:
        """Where RA and FP are saved, for FREs that are not FLEX (ABI/arch-specific Definition).

        `fixed_ra` and `fixed_fp` are the header's fixed offsets from the CFA, which FREs do not store.
        """
        count, wide = self.bits("fre_offset_count"), self.words.astype(np.int64)
        always = count > 0
        ra = Slots(wide[:, 1], (count > 1) & (wide[:, 1] != sframe.RA_OFFSET_INVALID))
        fp = Slots(wide[:, 2], count > 2)
        if fixed_ra != sframe.FIXED_OFFSET_INVALID:
            ra, fp = Slots(np.full(len(count), fixed_ra, np.int64), always), Slots(wide[:, 1], count > 1)
        if fixed_fp != sframe.FIXED_OFFSET_INVALID:
            fp = Slots(np.full(len(count), fixed_fp, np.int64), always)
        return ra, fp

    def pairs(self) -> tuple[Pairs, Pairs, Pairs]:
        """The words of CFA, RA and FP, for FLEX FREs (Flexible FDE Type Interpretation)."""
        count, wide = self.bits("fre_offset_count").astype(np.int64), self.words.astype(np.int64)
        # Control words are unsigned: undo the sign extension.
        bits = 8 << self.bits("fre_offset_size").astype(np.int64)
        unsigned = wide & ((1 << bits) - 1)[:, None]
        cfa = Pairs(unsigned[:, 0], wide[:, 1], count > 1)
        has_ra = (count > 3) & (unsigned[:, 2] != sframe.PADDING_WORD)
        ra = Pairs(unsigned[:, 2], wide[:, 3], has_ra)
        # An RA without a rule is a single padding word.
        at = np.where((count > 2) & (unsigned[:, 2] == sframe.PADDING_WORD), 3, 4)
        number = np.arange(len(count))
        control, offset = unsigned[number, at], wide[number, np.minimum(at + 1, MAX_FLEX_WORDS - 1)]
        return cfa, ra, Pairs(control, offset, (count > at + 1) & (control != sframe.PADDING_WORD))

    def cfa_offsets(self, abi: SframeAbi) -> NDArray[np.int64]:
        """The CFA's offset from its base register, in bytes."""
        word = np.where(self.is_flex, self.words[:, 1], self.words[:, 0]).astype(np.int64)
        return word * abi.cfa_alignment + abi.cfa_adjustment


def fres_of_blocks(
    section: Section, fres: memoryview, fres_offset: int, blocks: FreBlocks, *, least: int, ascending: bool = True
) -> Fres:
    """The FREs of the given blocks, in order; each must have `least` or more data words.

    `ascending`: check also the order of start addresses, and the words of FLEX FREs; else, for a dump, keep also the
    words without a meaning. Raises ParseError.
    """
    total = int(blocks.count.sum())
    if total > raised(max(FREE_ROWS, ROWS_PER_BYTE * len(fres))):
        reason = f"FDEs refer to {total} FREs in a sub-section of {len(fres)} bytes"
        raise ParseError(section, None, "header.num_fdes", exceeded(reason))
    found = _decode(section, fres, fres_offset, blocks, Fres.zeros(total, words_of(blocks.is_flex)), least, ascending)
    if ascending:
        check_words(section, found, lambda fre: _place_of(blocks, fre))
    elif (found.bits("fre_offset_count") > found.words.shape[1]).any():
        return _decode(section, fres, fres_offset, blocks, Fres.zeros(total, ALLOWED_WORDS), least, ascending)
    return found


def words_of(is_flex: NDArray[np.bool_]) -> int:
    """The number of data words with a meaning that an FRE can have, in blocks that are FLEX or not."""
    return MAX_FLEX_WORDS if is_flex.any() else MAX_WORDS


def most_words(is_flex: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The most data words that an FRE of each block may have."""
    return np.where(is_flex, MAX_FLEX_WORDS, ALLOWED_WORDS).astype(np.uint8)


def _decode(
    section: Section, fres: memoryview, fres_offset: int, blocks: FreBlocks, found: Fres, least: int, ascending: bool
) -> Fres:
    """Fill in the FREs of the blocks. Raises ParseError."""
    reader = reader_of(section, fres)
    stored = engine.sframe.fres.Blocks(*views(blocks.offset, blocks.count, blocks.width, most_words(blocks.is_flex)))
    done = engine.sframe.fres.decode(reader, least, ascending, stored, found.for_kernels())
    if reader.fault:
        refuse(section, f"FDE[{blocks.fde[done]}].FRE", reader, fres_offset)
    found.is_flex[:] = np.repeat(blocks.is_flex, blocks.count)
    return found


def _place_of(blocks: FreBlocks, fre: int) -> str:
    """The name of an FRE in errors, given its index over all blocks."""
    block = int(np.searchsorted(np.cumsum(blocks.count), fre, side="right"))
    return f"FDE[{blocks.fde[block]}].FRE[{fre - int(blocks.count[:block].sum())}]"


def check_words(section: Section, fres: Fres, place_of: Callable[[int], str]) -> None:
    """Raise ParseError for a FLEX FRE with an incomplete pair, or with a CFA without a base register. `place_of` gives
    the name of an FRE by its index.
    """
    if not fres.is_flex.any():
        return
    count = fres.bits("fre_offset_count")
    has_base = fres.words[:, 0] & sframe.CONTROL_REG > 0
    # An RA without a rule is a single word: the count is odd with it and even without.
    is_padded = fres.words[:, 2] == sframe.PADDING_WORD
    flex = fres.is_flex & (count > 0)
    for is_wrong, reason in (
        (flex & (count == 1), "the FLEX FRE has no offset word for the CFA"),
        (flex & ~has_base, "the CFA has no base register"),
        (flex & (count > 2) & (is_padded != (count % 2 == 1)), "a control word has no offset word"),
    ):
        wrong = np.flatnonzero(is_wrong)
        if len(wrong):
            raise ParseError(section, None, place_of(int(wrong[0])), reason)
