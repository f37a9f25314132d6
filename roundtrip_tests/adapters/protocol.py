"""The loop that adapters in Python share: a line on standard input, an answer on standard output.

The protocol is in docs/commands/conform.md. No product code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

# A row: first PC, the PC after its last one, and the fields of the answer.
Row = tuple[int, int, Sequence[str]]
# DWARF number of FP, by the psABI of each architecture.
FP = {
    "x86": 5,
    "x86_64": 6,
    "x32": 6,
    "arm": 11,
    "aarch64": 29,
    "aarch64_be": 29,
    "mips": 30,
    "mips64": 30,
    "ppc": 31,
    "ppc64": 31,
    "riscv32": 8,
    "riscv64": 8,
    "s390x": 11,
    "loongarch64": 22,
    "sparc64": 30,
}


class Request(NamedTuple):
    """One case: the file, the section in it, the machine, and the PCs to look up."""

    path: str
    section: str
    architecture: str
    byte_order: Literal["little", "big"]
    address: int
    pcs: list[int]


class Refused(Exception):
    """The reader reports an error."""


def requests() -> Iterable[Request]:
    """The cases on standard input."""
    for line in sys.stdin:
        path, section, architecture, byte_order, address, *pcs = line.rstrip("\n").split("\t")
        order: Literal["little", "big"] = "little" if byte_order == "little" else "big"
        yield Request(path, section, architecture, order, int(address, 16), [int(pc, 16) for pc in pcs])


def serve(answer: Callable[[Request], Iterable[Sequence[str]]]) -> None:
    """Answer every case: `answer` returns the fields for each PC, or raises Refused."""
    for request in requests():
        try:
            lines = ["\t".join([hex(pc), *fields]) for pc, fields in zip(request.pcs, answer(request), strict=True)]
        except Refused as error:
            lines = ["error\t" + str(error).replace("\n", " ").replace("\t", " ")]
        sys.stdout.write("".join(line + "\n" for line in lines))
        sys.stdout.flush()


def at(rows: Iterable[Row], pcs: Iterable[int]) -> list[Sequence[str]]:
    """The last of the rows that contains each PC, or `-`."""
    listed = list(rows)
    return [next((fields for low, high, fields in reversed(listed) if low <= pc < high), ["-"]) for pc in pcs]
