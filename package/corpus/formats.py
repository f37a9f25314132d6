"""The formats of a corpus, and the case of any number in it.

Strategy: a case depends on the seed, its format and its number alone, so that a corpus can be made in any order, by any
number of processes, and one case without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ..converters.arch.table import ARCHITECTURES
from ..schemas.data_classes import dataclass
from ..schemas.line import VERSIONS
from ..schemas.section import BuildError
from . import breakpad, eh_frame_hdr, sframe, sframe_faults
from .case import Case
from .choices import Draw, Seeded
from .frames import cases as frames
from .frames import faults as frame_faults
from .frames.call_frames import FrameSection
from .lines import cases as lines
from .lines.meaning import LINE_STRP
from .machines import machines_without
from .sframe_faults import break_sframe

# Every how many-th case has a broken field.
BROKEN_EVERY = 4


@dataclass(frozen=True, slots=True)
class Format:
    """How cases of a format are made. `kinds` is how many variants there are: version, ABI, byte order; `make` draws a
    case of a variant; `break_case` breaks one field of a case, or returns None if it has no such field."""

    name: str
    features: tuple[str, ...]
    faults: tuple[str, ...]
    kinds: Callable[[frozenset[str]], int]
    make: Callable[[Draw, int, frozenset[str]], Case]
    break_case: Callable[[Draw, Case, Collection[str]], Case | None]


def _sframe(version: int) -> Format:
    def of_version(without: frozenset[str]) -> list[sframe.Setting]:
        return [one for one in sframe.settings(without) if one.version == version]

    return Format(
        name=f"sframe-v{version}",
        features=sframe.FEATURES,
        faults=tuple(sframe_faults.FAULTS),
        kinds=lambda without: len(of_version(without)),
        make=lambda draw, kind, without: sframe.draw_sframe(draw, of_version(without)[kind]),
        break_case=break_sframe,
    )


def _frames(section: FrameSection) -> Format:
    return Format(
        name=section.removeprefix(".").replace("_", "-"),
        features=tuple(frames.FEATURES),
        faults=tuple(frame_faults.FAULTS),
        kinds=lambda without: len(machines_without(without)),
        make=lambda draw, kind, without: frames.draw_frames(draw, kind, section, without),
        break_case=frame_faults.break_frames,
    )


def _debug_line(version: int) -> Format:
    return Format(
        name=f"debug-line-{version}",
        features=lines.features_of(version),
        faults=lines.faults_of(version),
        kinds=lambda without: len(machines_without(without)),
        make=lambda draw, kind, without: lines.draw_debug_line(draw, kind, version, without),
        break_case=lines.break_debug_line,
    )


_EH_FRAME_HDR = Format(
    name="eh-frame-hdr",
    features=eh_frame_hdr.FEATURES,
    faults=tuple(eh_frame_hdr.FAULTS),
    kinds=lambda without: len(machines_without(without)),
    make=eh_frame_hdr.draw_eh_frame_hdr,
    break_case=eh_frame_hdr.break_eh_frame_hdr,
)
_BREAKPAD = Format(
    name="breakpad",
    features=breakpad.FEATURES,
    faults=tuple(breakpad.FAULTS),
    kinds=lambda without: len(breakpad.machines_without(without)),
    make=breakpad.draw_breakpad,
    break_case=breakpad.break_breakpad,
)

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        *map(_sframe, (1, 2, 3)),
        _frames(".eh_frame"),
        _frames(".debug_frame"),
        _EH_FRAME_HDR,
        *map(_debug_line, VERSIONS),
        _BREAKPAD,
    )
}


@dataclass(frozen=True, slots=True)
class Options:
    """What a corpus has. `without`: features, faults and architectures to leave out. `valid_only`: no broken cases."""

    seed: int = 0
    without: frozenset[str] = frozenset()
    valid_only: bool = False

    def for_files(self, *, raw: bool) -> Options:
        """The same; without an ELF file, no case refers to another section."""
        return replace(self, without=self.without | {LINE_STRP}) if raw else self


def format_named(name: str) -> Format:
    """Raises BuildError for an unknown format."""
    if name not in FORMATS:
        raise BuildError("", None, "format", f"{name!r} is not one of {', '.join(FORMATS)}")
    return FORMATS[name]


def check_names(formats: Collection[str], without: Collection[str]) -> None:
    """Raises BuildError for a format, feature, fault or architecture that none of them has, and if none is left."""
    chosen = [format_named(name) for name in formats]
    known = sorted({name for form in chosen for name in (*form.features, *form.faults)} | ARCHITECTURES.keys())
    for name in without:
        if name not in known:
            raise BuildError("", None, "--without", f"{name!r} is not one of {', '.join(known)}")
    for form in chosen:
        if not form.kinds(frozenset(without)):
            raise BuildError("", None, "--without", f"leaves no architecture of {form.name}")


def make_case(form: Format, number: int, options: Options, draw: Draw | None = None) -> Case:
    """The case of a number; with `draw`, another one of the same variant."""
    kinds = form.kinds(options.without)
    draw = draw or Seeded(f"{options.seed}/{form.name}/{number}")
    case = form.make(draw, number % kinds, options.without)
    if options.valid_only or (number // kinds) % BROKEN_EVERY != BROKEN_EVERY - 1:
        return case
    faults = [one for one in form.faults if one not in options.without]
    return form.break_case(draw, case, faults) or case
