"""One step of unwinding by the bytes of an `.sframe` section, version 2 (errata 1) or 3.

Strategy: no product code. Layouts and meanings are from the SFrame specification and binutils' `sframe.h`. The caller's
SP is the CFA, on s390x the CFA - 160 (SFRAME_S390X_SP_VAL_OFFSET).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from .frames import Caller, Frame, Kind, Place
from .machines import Machine


@dataclass(frozen=True, slots=True)
class _Abi:
    """`fp_at`: the index of FP's word. The CFA offset is word * `scale` + `adjustment`."""

    order: Literal["little", "big"]
    tracks_ra: bool = True
    scale: int = 1
    adjustment: int = 0
    sp_offset: int = 0


_ABIS = {
    1: _Abi("big"),
    2: _Abi("little"),
    3: _Abi("little", tracks_ra=False),
    4: _Abi("big", scale=8, adjustment=160, sp_offset=-160),
}


@dataclass(frozen=True, slots=True)
class _Fre:
    start: int
    info: int
    words: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of a word."""
        return 1 << (self.info >> 5 & 3)


@dataclass(frozen=True, slots=True)
class _Fde:
    start: int
    end: int
    block: int  # of a PCMASK FDE; 0: PCINC
    is_flex: bool
    fres: tuple[_Fre, ...]


class SframeSection:
    """The section `data` at `address`."""

    def __init__(self, machine: Machine, data: bytes, address: int) -> None:
        self.machine, self.data = machine, data
        self.abi = _ABIS[data[4]]
        self.is_v3 = data[2] == 3
        assert self._number(0, 2) == 0xDEE2
        assert data[2] in (2, 3)
        self.fixed_ra = int.from_bytes(data[6:7], "little", signed=True)
        header = 28 + data[7]
        fdes, self.fre_area = header + self._number(20, 4), header + self._number(24, 4)
        size = 16 if self.is_v3 else 20
        self.fdes = [self._fde(fdes + index * size, address) for index in range(self._number(8, 4))]
        self.fdes.sort(key=lambda one: one.start)
        self.starts = [fde.start for fde in self.fdes]

    def spots(self) -> list[tuple[int, int]]:
        """The address range of every row; of a repetitive function, those of its first blocks."""
        found = []
        for fde in self.fdes:
            rows = [fre.start for fre in fde.fres] or [0]
            stop = fde.block or fde.end - fde.start
            for base in range(0, min(fde.end - fde.start, 4 * stop), stop):
                ends = [*rows[1:], stop]
                places = (
                    (fde.start + base + begin, fde.start + base + end) for begin, end in zip(rows, ends, strict=True)
                )
                found += [(begin, min(end, fde.end)) for begin, end in places if begin < min(end, fde.end)]
        return found

    def step(self, frame: Frame) -> Caller | None:
        """The caller of a frame; None if no FRE covers its PC."""
        index = bisect_right(self.starts, frame.pc) - 1
        if index < 0 or frame.pc >= self.fdes[index].end:
            return None
        fde = self.fdes[index]
        if self.is_v3 and not fde.fres:
            return Caller(None, None)
        offset = frame.pc - fde.start
        if fde.block:
            # The text takes PC % block, libsframe (PC - start) % block.
            offset %= fde.block
            assert frame.pc % fde.block == offset or len(fde.fres) == 1
        fre = next((fre for fre in reversed(fde.fres) if fre.start <= offset), None)
        if fre is None:
            return None
        if not fre.words:
            return Caller(None, None)
        return self._flex(frame, fre) if fde.is_flex else self._plain(frame, fre)

    def _plain(self, frame: Frame, fre: _Fre) -> Caller:
        machine, words = self.machine, list(fre.words)
        base = machine.sp if fre.info & 1 else machine.fp
        cfa = frame.registers[base] + words.pop(0) * self.abi.scale + self.abi.adjustment & frame.mask
        ra: Place | None = Place(Kind.REGISTER, machine.ra)
        if not self.abi.tracks_ra:
            ra = Place(Kind.MEMORY, cfa + self.fixed_ra)
        elif words and (word := words.pop(0)):
            ra = self._slot(cfa, word)
        places: dict[int, Place | None] = {machine.fp: self._slot(cfa, words.pop(0))} if words else {}
        assert not words
        return self._caller(frame, fre, cfa, ra, places)

    def _slot(self, cfa: int, word: int) -> Place:
        # SFRAME_V2_S390X_OFFSET_IS_REGNUM
        if self.abi.sp_offset and not self.is_v3 and word & 1:
            return Place(Kind.REGISTER, word >> 1)
        return Place(Kind.MEMORY, cfa + word)

    def _flex(self, frame: Frame, fre: _Fre) -> Caller:
        """Pairs of a control and an offset word: register << 3 | dereference << 1 | register-based."""
        machine, words, unsigned = self.machine, list(fre.words), (1 << 8 * fre.size) - 1
        control, offset = words.pop(0) & unsigned, words.pop(0)
        cfa = frame.registers[control >> 3] + offset * self.abi.scale + self.abi.adjustment
        assert control & 1
        cfa = (frame.word(cfa) if control & 2 else cfa) & frame.mask
        ra: Place | None = Place(Kind.REGISTER, machine.ra)
        if not self.abi.tracks_ra:
            ra = Place(Kind.MEMORY, cfa + self.fixed_ra)
        places: dict[int, Place | None] = {}
        if words and (control := words.pop(0) & unsigned):
            ra = self._place(frame, cfa, control, words.pop(0))
        if words:
            places[machine.fp] = self._place(frame, cfa, words.pop(0) & unsigned, words.pop(0))
        assert not words
        return self._caller(frame, fre, cfa, ra, places)

    def _place(self, frame: Frame, cfa: int, control: int, offset: int) -> Place:
        if control & 3 == 1 and not offset:
            return Place(Kind.REGISTER, control >> 3)
        at = (frame.registers[control >> 3] if control & 1 else cfa) + offset & frame.mask
        return Place(Kind.MEMORY if control & 2 else Kind.VALUE, at)

    def _caller(self, frame: Frame, fre: _Fre, cfa: int, ra: Place | None, places: dict[int, Place | None]) -> Caller:
        places[self.machine.sp] = Place(Kind.VALUE, cfa + self.abi.sp_offset & frame.mask)
        return Caller(cfa, ra, places, None, fre.info >> 7)

    # --- records --------------------------------------------------------------------------------------------

    def _number(self, at: int, size: int, *, is_signed: bool = False) -> int:
        return int.from_bytes(self.data[at : at + size], self.abi.order, signed=is_signed)

    def _fde(self, at: int, address: int) -> _Fde:
        width = 8 if self.is_v3 else 4
        start = self._number(at, width, is_signed=True) + address + (at if self.data[3] & 4 else 0)
        start &= (1 << 64) - 1
        size, place = self._number(at + width, 4), self.fre_area + self._number(at + width + 4, 4)
        info2 = 0
        if self.is_v3:
            count, info, info2, block = self._number(place, 2), *self.data[place + 2 : place + 5]
            place += 5
        else:
            count, info, block = self._number(at + 12, 4), self.data[at + 16], self.data[at + 17]
        fres = []
        for _ in range(count):
            fre, place = self._fre(place, 1 << (info & 15))
            fres.append(fre)
        return _Fde(start, start + size, block if info & 16 else 0, info2 & 31 == 1, tuple(fres))

    def _fre(self, at: int, width: int) -> tuple[_Fre, int]:
        start, info = self._number(at, width), self.data[at + width]
        size, at = 1 << (info >> 5 & 3), at + width + 1
        count = info >> 1 & 15
        words = tuple(self._number(at + index * size, size, is_signed=True) for index in range(count))
        return _Fre(start, info, words), at + count * size
