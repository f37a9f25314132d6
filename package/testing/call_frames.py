"""Valid `.eh_frame` and `.debug_frame` sections, drawn together with the functions that they describe."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from ..converters.arch.table import check_architecture
from ..corpus.frames.call_frames import CallFrames, FrameSection, draw_call_frames
from ..corpus.frames.features import Feature
from ..schemas.arguments import check_byte_order, checked, collection_of, optional
from ..schemas.cfi import DEBUG_FRAME, EH_FRAME
from ..schemas.section import BuildError, ByteOrder
from .from_choices import by_hypothesis


def _check_section(section: str, name: str) -> None:
    if section not in (EH_FRAME.name, DEBUG_FRAME.name):
        raise BuildError("", None, name, f"{section!r} is not .eh_frame or .debug_frame")


@checked(
    arch=check_architecture,
    section=_check_section,
    byte_order=optional(check_byte_order),
    without=collection_of(Feature),
)
@st.composite
def call_frames(
    draw: DrawFn,
    arch: str = "x86_64",
    section: FrameSection = ".eh_frame",
    byte_order: ByteOrder | None = None,
    without: Collection[Feature] = (),
) -> CallFrames:
    """Valid sections of up to five functions, with what they mean.

    `byte_order` None is the default of the architecture. No feature in `without` occurs.
    """
    return draw_call_frames(by_hypothesis(draw), arch, section, byte_order, frozenset(without))
