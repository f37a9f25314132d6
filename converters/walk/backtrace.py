"""Backtraces: the callers of a frame, one after another, up to the outermost one or to where a walk cannot go on.

Strategy: each frame's caller comes from a function that the caller of this one gives: it chooses the table. A frame
whose PC and CFA are those of an earlier one is the end, so that a stack that loops is not walked forever.
"""

from __future__ import annotations

from collections.abc import Callable

from ...schemas.arguments import check_callable, check_integer, checked
from ...schemas.data_classes import dataclass
from .caller import Caller, Frame, WalkEnd

MAX_FRAMES = 10_000
# The `source` of the youngest frame.
REGISTERS = "registers"


@dataclass(frozen=True, slots=True)
class WalkedFrame:
    """A frame of a backtrace; `cfa` is None if it is not known. `source` names what the frame was found by: what had
    the rules of the frame that it called, or `registers` for the youngest one."""

    frame: Frame
    cfa: int | None
    source: str
    is_signal_frame: bool = False


@dataclass(frozen=True, slots=True)
class Backtrace:
    """The frames, youngest first, and why there are no more, with the register or address at fault in `detail`."""

    frames: tuple[WalkedFrame, ...]
    end: WalkEnd
    detail: str = ""

    @property
    def sentence(self) -> str:
        """Why it ends, in words."""
        return f"{self.end.sentence}: {self.detail}" if self.detail else self.end.sentence


def check_limit(limit: int, name: str) -> None:
    """Raise TypeError for what is not an integer, and ValueError for one below 1."""
    check_integer(limit, name)
    if limit < 1:
        raise ValueError(f"{name} is {limit}, expected at least 1")


@checked(frame=Frame, caller_of=check_callable, limit=check_limit)
def walk_frames(frame: Frame, caller_of: Callable[[Frame], Caller], limit: int = MAX_FRAMES) -> Backtrace:
    """The backtrace of a frame, of at most `limit` frames. `caller_of` finds the caller of each, as `caller_frame`."""
    frames: list[WalkedFrame] = []
    seen: set[tuple[int, int | None]] = set()
    source = REGISTERS
    while True:
        caller = caller_of(frame)
        if (frame.pc, caller.cfa) in seen:
            return Backtrace(tuple(frames), WalkEnd.LOOP, f"PC {frame.pc:#x}")
        seen.add((frame.pc, caller.cfa))
        frames.append(WalkedFrame(frame, caller.cfa, source, caller.is_signal_frame))
        if caller.frame is None:
            assert caller.end is not None
            return Backtrace(tuple(frames), caller.end, caller.detail)
        if len(frames) >= limit:
            return Backtrace(tuple(frames), WalkEnd.LIMIT, f"{limit} frames")
        frame, source = caller.frame, caller.source
