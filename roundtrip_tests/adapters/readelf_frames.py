"""GNU readelf: `readelf -wNF` on the `.eh_frame` or `.debug_frame` of each case. Arguments: the command of readelf.

Its text is the same for "no rule" and DW_CFA_undefined, for a row without CFA and a CFA of r0+0, and for all
expressions: such fields are answered as unknown. It does not show whether a return address is signed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

from ..support.texts.frame_text import Frame, parse_frames
from .protocol import FP, Refused, Request, Row, at, serve

AMBIGUOUS = ("", "r0+0", "exp", "vexp")


def spelled(text: str) -> str:
    """A rule in the protocol's words."""
    if text in AMBIGUOUS:
        return "?"
    return f"{text}+0" if text[0] == "r" and text[1:].isdigit() else text


def rows_of(frame: Frame, machine: str) -> Iterator[Row]:
    """CFA, RA and FP from each PC on."""
    ends = [pc for pc, _ in frame.rows[1:]] + [frame.end]
    for (pc, (cfa, rules)), end in zip(frame.rows, ends, strict=True):
        found = dict(rules)
        fields = [spelled(found.get(register, "exp")) for register in (frame.return_column, FP[machine])]
        yield pc, end, [spelled(cfa), *fields]


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    texts = []
    for option in ("-wNF", "-wNf"):
        done = subprocess.run([*sys.argv[1:], option, request.path], capture_output=True, check=False, timeout=60)
        if done.returncode or done.stderr:
            raise Refused(done.stderr.decode(errors="replace")[:200] or f"exit code {done.returncode}")
        texts.append(done.stdout.decode(errors="replace"))
    try:
        frames = parse_frames(texts[0], texts[1], request.section)
    except (AssertionError, KeyError, ValueError) as error:
        # Its text has unknown columns, or rows without their cells.
        raise Refused(f"readelf printed {error}") from error
    return at([row for frame in frames for row in rows_of(frame, request.architecture)], request.pcs)


if __name__ == "__main__":
    serve(answer)
