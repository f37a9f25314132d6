"""A reader under test: a program that answers one line for each case, and for each PC one line.

Strategy: the protocol is lines of fields separated by tabs, so that an adapter needs no library. A reader that ends or
does not answer in time is started again; that case counts as a crash or a hang.
"""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ..corpus.case import ERROR, NO_ROW, Answer, Case
from ..schemas.data_classes import dataclass
from ..schemas.section import FormatError

TIMEOUT = 20.0
UNKNOWN = "?"
_CHUNK = 1 << 16
_MAX_REPLY = 1 << 24
CRASH, HANG = "crash", "hang"


class ReaderError(FormatError):
    """The reader cannot be run, or does not follow the protocol."""

    def __init__(self, reason: str) -> None:
        super().__init__("", None, "", reason)


@dataclass(frozen=True, slots=True)
class Reply:
    """By PC, in the order asked: an answer, (`-`,), or (`error`, text). `failure`: CRASH or HANG; then no answers."""

    answers: tuple[Answer, ...]
    failure: str = ""


def request(case: Case, path: Path, pcs: Sequence[int]) -> str:
    """The line for a case."""
    places = (str(path), case.section, case.architecture.name, case.byte_order, hex(case.address))
    return "\t".join([*places, *map(hex, pcs)]) + "\n"


class Reader:
    """The running program. Use it in a `with` statement."""

    def __init__(self, command: Sequence[str], timeout: float = TIMEOUT) -> None:
        self._command = list(command)
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            except OSError as error:
                raise ReaderError(f"cannot run {self._command[0]}: {error.strerror}") from None
            self._rest = b""
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                # Closing may flush a line that a reader that ended will never read.
                try:
                    stream.close()
                except BrokenPipeError:
                    continue
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, case: Case, path: Path, pcs: Sequence[int]) -> Reply:
        """The reader's answers for some PCs. Raises ReaderError for a line that the protocol does not have."""
        process = self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(request(case, path, pcs).encode())
            process.stdin.flush()
        except BrokenPipeError:
            self._stop()
            return Reply((), CRASH)
        found: list[Answer] = []
        while len(found) < len(pcs):
            line = self._line(process)
            if line in (CRASH, HANG):
                if line == HANG:
                    process.kill()
                self._stop()
                return Reply((), line)
            fields = line.split("\t")
            if fields[0] == ERROR:
                return Reply(tuple((ERROR, *fields[1:]) for _ in pcs))
            found.append(_answer(fields, pcs[len(found)], len(case.fields)))
        return Reply(tuple(found))

    def _line(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest and len(self._rest) < _MAX_REPLY:
                if not selector.select(self._timeout):
                    return HANG
                more = os.read(process.stdout.fileno(), _CHUNK)
                if not more:
                    return CRASH
                self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")


def _answer(fields: list[str], pc: int, count: int) -> Answer:
    """One line: the PC, and `-`, `error` with a text, or a value of each field."""
    try:
        is_asked = int(fields[0], 0) == pc
    except ValueError:
        is_asked = False
    is_short = len(fields) >= 2 and (fields[1] in (NO_ROW, ERROR))
    if not is_asked or not (is_short or len(fields) == 1 + count):
        found = "\\t".join(fields)[:200]
        raise ReaderError(f"the reader answered {found!r} for {pc:#x}, not the PC and {count} fields, - or error")
    return tuple(fields[1:]) if not is_short or fields[1] == ERROR else (NO_ROW,)
