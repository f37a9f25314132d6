"""ELF files with call frame information."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from ..converters.arch.table import check_architecture
from ..corpus.frames.features import Feature
from ..corpus.frames.files import ElfWithFrames, draw_elf_with_frames
from ..schemas.arguments import check_byte_order, checked, collection_of, optional
from ..schemas.section import ByteOrder
from .from_choices import by_hypothesis


@checked(arch=check_architecture, byte_order=optional(check_byte_order), without=collection_of(Feature))
@st.composite
def elf_files(
    draw: DrawFn, arch: str = "x86_64", byte_order: ByteOrder | None = None, without: Collection[Feature] = ()
) -> ElfWithFrames:
    """Valid shared objects with `.text` and an `.eh_frame` (some with `.eh_frame_hdr`), a `.debug_frame`, or both."""
    return draw_elf_with_frames(by_hypothesis(draw), arch, byte_order, frozenset(without))
