# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The innermost call of a thread, and whether the rows in force hold in it.

Strategy: what the rows at a PC claim together is a `Summary` of comparisons; memory is read when another one comes into
force, or after a transfer. Whatever else a row claims is left to the caller.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import Outcome

if not cython.compiled:
    from collections.abc import Callable

    from ..array_types import U64, ConstI64, ConstI64_2D

FINE = cython.declare(cython.int, int(Outcome.FINE))
LEFT = cython.declare(cython.int, int(Outcome.LEFT))
WRONG = cython.declare(cython.int, int(Outcome.WRONG))
WRONG_AT_ENTRY = cython.declare(cython.int, int(Outcome.WRONG_AT_ENTRY))


@cython.final
@cython.cclass
class Summary:
    """What all claims at a PC need to be true, if comparisons of registers and one read of memory tell that.

    A row of `tests`: the column of the register that the CFA is computed from, -1 for what is left to the caller at
    each stop; its offset; and the first and the end of the elements of `kept` that are the columns of registers with
    the caller's value. A row of `saved`: a column, and where its caller's value is in the `saved_size` bytes of memory
    from `saved_offset` on, relative to the CFA. `is_complete`: whether there is nothing else to hold.
    """

    def __init__(
        self,
        tests: ConstI64_2D,
        kept: ConstI64,
        saved_offset: cython.longlong,
        saved_size: cython.longlong,
        saved: ConstI64_2D,
        is_complete: cython.int,
    ) -> None:
        self.tests = tests
        self.kept = kept
        self.saved_offset = saved_offset
        self.saved_size = saved_size
        self.saved = saved
        self.is_complete = is_complete


@cython.final
@cython.cclass
class SpotState:
    """One PC: the summary of the rows there, whether its instruction `is_transfer`, and how often it was reached in a
    frame whose caller is known (`checked`) and in another. `spot` is the caller's object for it."""

    def __init__(self, spot: object, summary: Summary, is_transfer: cython.int) -> None:
        self.spot = spot
        self.summary = summary
        self.is_transfer = is_transfer
        self.checked = 0
        self.unchecked = 0


@cython.final
@cython.cclass
class InnermostCall:
    """The call of a thread that has not returned. `spots` are the states of known spots by PC; `read` gives bytes of
    memory at an address; `pc` and `sp` are columns of the registers; words in memory have `word_size` bytes.

    `last` is the state of the spot before the next stop, `nowhere` if that is not known; where it is a transfer,
    `before` has the first registers there. `is_watched`: whether the caller wants to see the next stop.
    """

    def __init__(
        self,
        nowhere: SpotState,
        spots: dict[int, SpotState],
        read: Callable[[int, int], bytes],
        before: U64,
        pc: cython.longlong,
        sp: cython.longlong,
        word_size: cython.longlong,
        address_mask: cython.ulonglong,
        is_big: cython.int,
    ) -> None:
        self.spots = spots
        self.read = read
        self.before = before
        self.pc = pc
        self.sp = sp
        self.word_size = word_size
        self.address_mask = address_mask
        self.is_big = is_big
        self.is_watched = 0
        self.is_known = 0
        self.nowhere = nowhere
        self.last = nowhere
        self.held = nowhere.summary
        self.cfa = self.limit = 0

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def enter(self, cfa: cython.ulonglong, limit: cython.ulonglong, entry: U64) -> cython.int:
        """The call in which the next stop is: its CFA, the registers at its first instruction, and the highest stack
        pointer in it."""
        self.cfa = cfa
        self.limit = limit
        self.entry = entry
        self.held = self.nowhere.summary
        self.is_known = 1
        return 0

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def leave(self) -> cython.int:
        """The call in which the next stop is is not known."""
        self.is_known = 0
        return 0

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def stop(self, state: SpotState, registers: U64) -> cython.int:
        """The outcome of a stop at a spot, which is counted."""
        summary: Summary = state.summary
        if not self.is_known:
            state.unchecked += 1
            return FINE
        if registers[self.sp] > self.limit:
            state.unchecked += 1
            return LEFT
        state.checked += 1
        if self.held is summary:
            return FINE if self.holds(summary, registers) else WRONG
        self.held = summary
        if summary.is_complete and self.holds(summary, registers) and self.is_saved(summary):
            return FINE
        return WRONG_AT_ENTRY

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def go_on(self, state: SpotState, registers: U64) -> cython.int:
        """The thread leaves a spot, with these registers there."""
        index: cython.longlong
        self.last = state
        if state.is_transfer:
            for index in range(self.before.shape[0]):
                self.before[index] = registers[index]
        return 0

    def holds(self, summary: Summary, registers: U64) -> cython.int:
        """Whether the registers give the CFA and have the values that the summary claims."""
        test: cython.longlong
        index: cython.longlong
        column: cython.longlong
        cfa: cython.ulonglong
        for test in range(summary.tests.shape[0]):
            column = summary.tests[test, 0]
            if column < 0:
                return 0
            cfa = registers[column] + cython.cast(cython.ulonglong, summary.tests[test, 1]) & self.address_mask
            if cfa != self.cfa:
                return 0
            for index in range(summary.tests[test, 2], summary.tests[test, 3]):
                column = summary.kept[index]
                if registers[column] != self.entry[column]:
                    return 0
        return 1

    def is_saved(self, summary: Summary) -> cython.int:
        """Whether memory has the caller's values of the registers that the summary claims to be saved. -1 is an
        exception of `read`."""
        index: cython.longlong
        address: cython.ulonglong
        data: bytes
        if not summary.saved.shape[0]:
            return 1
        address = self.cfa + cython.cast(cython.ulonglong, summary.saved_offset) & self.address_mask
        data = self.read(address, summary.saved_size)
        if len(data) != summary.saved_size:
            return 0
        for index in range(summary.saved.shape[0]):
            if self.word(data, summary.saved[index, 1]) != self.entry[summary.saved[index, 0]]:
                return 0
        return 1

    def word(self, data: bytes, at: cython.longlong) -> cython.ulonglong:
        """The word of memory at a place in the bytes that were read."""
        value: cython.ulonglong = 0
        index: cython.longlong
        byte: cython.ulonglong
        for index in range(self.word_size):
            byte = data[at + index]
            value |= byte << 8 * (self.word_size - 1 - index if self.is_big else index)
        return value
