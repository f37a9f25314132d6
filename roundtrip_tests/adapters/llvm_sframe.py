"""LLVM: `llvm-readobj --sframe` on the `.sframe` of version 2 of each case. Arguments: the command of llvm-readobj.

It shows the words of s390x as they are stored: this adapter does not know that machine.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

from ..support.oracles import OracleError
from ..support.texts.llvm_text import parse_llvm_sframe
from ..support.texts.readelf_text import SframeRows, SframeText
from .protocol import Refused, Request, Row, at, serve

# DWARF numbers of SP and FP, and where RA is if it is fixed.
MACHINES = {"x86_64": (7, 6, "c-8"), "aarch64": (31, 29, "u"), "aarch64_be": (31, 29, "u")}


def spelled(text: SframeText, machine: str) -> list[str]:
    """CFA, RA and FP in the protocol's words."""
    sp, fp, fixed = MACHINES[machine]
    base = {"sp": sp, "fp": fp}[text.cfa[:2]]
    return [f"r{base}{text.cfa[2:]}", fixed if text.ra == "f" else text.ra, text.fp]


def rows_of(rows: SframeRows, machine: str) -> Iterator[Row]:
    """Those of repeated blocks once for each block."""
    for index, (first, stop) in enumerate(zip(rows.start.tolist(), rows.end.tolist(), strict=True)):
        which = slice(int(rows.first_row[index]), int(rows.first_row[index + 1]))
        block = int(rows.repetition_block[index])
        starts = [pc if block else pc - first for pc in rows.pc[which].tolist()]
        texts = [rows.texts[number] for number in rows.text[which].tolist()]
        for base in range(first, stop, block or stop - first):
            end = min(base + (block or stop), stop)
            for place, (offset, text) in enumerate(zip(starts, texts, strict=True)):
                after = base + starts[place + 1] if place + 1 < len(starts) else end
                yield base + offset, min(after, end), spelled(text, machine)


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    done = subprocess.run([*sys.argv[1:], "--sframe", request.path], capture_output=True, check=False, timeout=60)
    if done.returncode or done.stderr:
        raise Refused(done.stderr.decode(errors="replace")[:200] or f"exit code {done.returncode}")
    try:
        found = parse_llvm_sframe(done.stdout.decode(errors="replace"))
    except OracleError as error:
        raise Refused(str(error)) from error
    return at(rows_of(found.rows, request.architecture), request.pcs)


if __name__ == "__main__":
    serve(answer)
