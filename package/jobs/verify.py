"""Rows held against execution: the job of `unwindkit verify`."""

from __future__ import annotations

import errno
import math
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ..converters.breakpad.records import module_record
from ..converters.elf.image import open_elf
from ..converters.files.code_names import CodeNames
from ..converters.files.find import row_rules
from ..converters.files.inputs import naming_file
from ..execution.loaded_files import Library, LoadedFile, Spot
from ..execution.machines import MACHINES, X86_64, Machine
from ..execution.stepping import Limits, Stepper
from ..schemas.arguments import check_callable, check_integer, check_path, checked, each, optional
from ..schemas.data_classes import dataclass
from ..schemas.elf.headers import MAGIC
from ..schemas.section import ParseError
from . import StrPath
from .file_kinds import first_bytes

if TYPE_CHECKING:
    from ..execution.checker import Tally
    from ..execution.claims import ClaimSource
    from ..execution.shadow import Wrong


COUNT_LIMIT = 1 << 63


def _check_count(value: int, name: str) -> None:
    check_integer(value, name)
    if not 0 <= value < COUNT_LIMIT:
        raise ValueError(f"{name} is {value}, which is not a number of 63 bits")


def _check_seconds(value: object, name: str) -> None:
    if not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value}, which is not a time")


@dataclass(frozen=True, slots=True)
class VerifiedSource:
    """One source of unwind information of a file: the steps in its rows that were checked, the distinct rows that were
    reached so, and how many of these are wrong."""

    source: str
    checked: int
    rows: int
    wrong: int


@dataclass(frozen=True, slots=True)
class UncoveredCode:
    """Instructions that no source has a row for: the `symbol` they are in, "" if it has none; the address of the first
    in the file; how many there are, and how many steps were in them."""

    symbol: str
    address: int
    instructions: int
    steps: int


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """One file that the program loaded. `faults` has the reason why a section could not be read, by its name."""

    file: str
    steps: int
    sources: tuple[VerifiedSource, ...]
    uncovered: tuple[UncoveredCode, ...]
    faults: dict[str, str]


@dataclass(frozen=True, slots=True)
class WrongRow:
    """A row that does not hold at an instruction. `address` is that in the file; `function_start` that of the function
    that has the row; `code` has the bytes of the instruction and of those after it, in hexadecimal; `rules` is the row
    as `find` shows it; `seen`, what it gives and what is true, at the first of `count` steps."""

    file: str
    source: str
    address: int
    symbol: str
    code: str
    function_start: int
    offset: int
    rules: dict[str, str]
    seen: str
    count: int


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """What `verify` saw. `steps` counts single steps, `checked` those in a frame whose caller is known: only there rows
    are held against the machine. `wrong` has the rows that do not hold; `unclear`, those that do not hold in a frame
    that did not end by its return, as when longjmp replaces the registers. `switches` counts changes of the stack that
    no call or return explains. `exit_status` is that of the program, None if it was not run to its end.
    """

    command: tuple[str, ...]
    architecture: str
    steps: int
    checked: int
    seconds: float
    switches: int
    exit_status: int | None
    files: tuple[VerifiedFile, ...]
    wrong: tuple[WrongRow, ...]
    unclear: tuple[WrongRow, ...]
    notes: tuple[str, ...]


@checked(
    command=each(check_path),
    pid=optional(_check_count),
    steps=optional(_check_count),
    seconds=optional(_check_seconds),
    burst=_check_count,
    pause=_check_seconds,
    symbol_files=each(check_path),
    progress=optional(check_callable),
)
def verify(
    command: Sequence[str] = (),
    *,
    pid: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    burst: int = 0,
    pause: float = 0.0,
    symbol_files: Iterable[StrPath] = (),
    progress: Callable[[int], None] | None = None,
) -> VerifyReport:
    """Run a program, or the process `pid`, by single steps, and hold each row that is reached against the machine.

    It ends after `steps` single steps or some `seconds`; None is no limit. With a `burst`, that many single steps are
    followed by a `pause` in seconds in which the program runs freely.

    The truth is kept from calls and returns: the CFA, the return address, and the registers that calls preserve. Rows
    are those of `.eh_frame`, `.debug_frame` and `.sframe` of every file that is loaded, and of `symbol_files`, which
    belong to the loaded file of the same module id. `progress` is called with the number of steps. Raises OSError if
    the program cannot be run or traced, and ParseError for a symbol file without MODULE.
    """
    machine = _machine_of(_executable(command) if pid is None else _executable_of(pid))
    library = Library(machine, dict(map(_symbols, symbol_files)))
    stepper = _stepper(
        library, Limits(steps, seconds, burst, pause), lambda tally: progress(tally.steps) if progress else None
    )
    started = time.monotonic()
    tally = _run(stepper, command, pid)
    return VerifyReport(
        command=tuple(command),
        architecture=machine.architecture.name,
        steps=tally.steps,
        checked=sum(spot.checked for file in library.files.values() for spot in file.spots.values()),
        seconds=time.monotonic() - started,
        switches=tally.switches,
        exit_status=stepper.exit_status,
        files=tuple(_file(file, tally) for file in library.files.values() if file.image is not None),
        wrong=_wrong_rows(tally.wrong.values()),
        unclear=_wrong_rows(tally.unclear.values()),
        notes=tuple(library.notes),
    )


def _run(stepper: Stepper, command: Sequence[str], pid: int | None) -> Tally:
    """Step a program in a thread of its own, to which alone the program's stops are reported."""

    def run() -> Tally:
        if pid is None:
            stepper.launch(command)
        else:
            stepper.attach(pid)
        return stepper.run()

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run)
        try:
            return result.result()
        except KeyboardInterrupt:
            stepper.stop()
            return result.result()


def _stepper(library: Library, limits: Limits, progress: Callable[[Tally], None]) -> Stepper:
    """What steps programs of a machine here. Raises OSError if nothing does."""
    if library.machine is not X86_64:
        from ..execution.qemu import Emulator

        return Emulator(library, limits, progress)
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, "programs for x86_64 are stepped on Linux on x86-64 only")
    from ..execution.ptrace import Tracer

    return Tracer(library, limits, progress)


def _executable(command: Sequence[str]) -> str:
    """The file that a command runs. Raises FileNotFoundError."""
    found = shutil.which(command[0]) if command else None
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0] if command else "")
    return found


def _executable_of(pid: int) -> str:
    """The file that a process runs. Raises ProcessLookupError."""
    path = f"/proc/{pid}/exe"
    if not os.path.lexists(path):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), str(pid))
    return path


def _machine_of(path: str) -> Machine:
    """The machine that a program is for; a script is run by a program of this machine. Raises OSError, ParseError."""
    name = open_elf(path).architecture.name if first_bytes(Path(path)).startswith(MAGIC) else platform.machine()
    if name not in MACHINES:
        raise ParseError("", None, "e_machine", f"programs for {name} cannot be stepped, only {', '.join(MACHINES)}")
    return MACHINES[name]


def _symbols(path: StrPath) -> tuple[str, bytes]:
    """The module id and the contents of a symbol file."""
    data = Path(path).read_bytes()
    with naming_file(os.fspath(path)):
        module = module_record(memoryview(data))
        if module is None:
            raise ParseError("MODULE", None, "", "the symbol file does not begin with MODULE")
    return module.id, data


def _file(file: LoadedFile, tally: Tally) -> VerifiedFile:
    spots = file.spots.values()
    sources = tuple(_source(source, spots, tally) for source in file.sources)
    uncovered = _uncovered(file, [spot for spot in spots if not spot.stated])
    return VerifiedFile(file.path, sum(spot.steps for spot in spots), sources, uncovered, file.faults)


def _source(source: ClaimSource, spots: Iterable[Spot], tally: Tally) -> VerifiedSource:
    checked, rows = 0, set()
    for spot in spots:
        for one in spot.stated:
            if one.source is source and one.claim is not None and spot.checked:
                checked += spot.checked
                rows.add(one.place)
    wrong = {one.stated.place for one in tally.wrong.values() if one.stated.source is source}
    return VerifiedSource(source.name, checked, len(rows), len(wrong))


def _uncovered(file: LoadedFile, spots: list[Spot]) -> tuple[UncoveredCode, ...]:
    """Instructions without a row by symbol, most steps first."""
    names = CodeNames(file.image)
    by_symbol: dict[str, list[Spot]] = {}
    for spot in spots:
        by_symbol.setdefault(names.at(spot.address)[0], []).append(spot)
    found = [
        UncoveredCode(name, min(one.address for one in group), len(group), sum(one.steps for one in group))
        for name, group in by_symbol.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.steps, one.address)))


def _wrong_rows(found: Iterable[Wrong]) -> tuple[WrongRow, ...]:
    """Wrong rows by file and address."""
    by_file: dict[LoadedFile, list[Wrong]] = {}
    for one in found:
        by_file.setdefault(one.spot.file, []).append(one)
    rows = []
    for file, group in by_file.items():
        names = CodeNames(file.image)
        rows += [_wrong_row(one, names.text(one.spot.address)) for one in group]
    return tuple(sorted(rows, key=lambda one: (one.file, one.address, one.source)))


def _wrong_row(one: Wrong, symbol: str) -> WrongRow:
    spot, source = one.spot, one.stated.source
    function, row = one.stated.place
    found = source.table.row(row)
    return WrongRow(
        file=spot.file.path,
        source=source.name,
        address=spot.address,
        symbol=symbol,
        code=spot.code.hex(),
        function_start=int(source.table.functions.start[function]),
        offset=found.offset,
        rules=row_rules(source.table.architecture, found),
        seen=one.text,
        count=one.count,
    )
