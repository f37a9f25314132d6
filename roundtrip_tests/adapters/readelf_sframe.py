"""GNU readelf: `readelf --sframe` on each case. Arguments: the command of readelf.

readelf does not show the size of repeated blocks, nor whether a value relative to the CFA is in memory: the block is
taken from the section's bytes, and values relative to the CFA are taken as saved there.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

from elftools.elf.elffile import ELFFile

from .protocol import Refused, Request, Row, serve

# DWARF numbers of SP and FP, and where RA is if it is fixed.
MACHINES = {"x86_64": (7, 6, "c-8"), "aarch64": (31, 29, "u"), "aarch64_be": (31, 29, "u"), "s390x": (15, 11, "u")}
_FUNCTION = re.compile(r"    func idx \[(\d+)\]: pc = 0x([0-9a-f]+), size = (-?\d+) bytes")
_FRE = re.compile(
    r" +([0-9a-f]{16})  (?:(\(?(?:sp|fp|r\d+|c)[+-]+\d+\)?) *(\(?(?:c|sp|fp|r\d+)[+-]\d+\)?|r-?\d+|[uUf]) *"
    r"(\(?(?:c|sp|fp|r\d+)[+-]\d+\)?|r-?\d+|[uUf])(\[s\])? *|RA undefined)"
)


def rows_of(dump: str, machine: str, data: bytes) -> Iterator[Row]:
    """The rows in readelf's text; those of repeated blocks once for each block."""
    start = end = block = 0
    pending: list[tuple[int, Sequence[str]]] = []

    is_v3 = "SFRAME_VERSION_3" in dump

    def function() -> Iterator[Row]:
        if not pending and is_v3 and end > start:
            # Nothing is printed for an FDE without FREs: an outermost frame.
            yield start, end, ["u", "undefined", "u"]
        for base in range(0, end - start, block) if block else [0]:
            top = min(base + block, end - start) if block else end - start
            for index, (offset, fields) in enumerate(pending):
                after = pending[index + 1][0] + base if index + 1 < len(pending) else top
                yield start + base + offset, start + min(after, top), fields

    for line in dump.split("\n"):
        if match := _FUNCTION.match(line):
            yield from function()
            pending = []
            start, end = int(match[2], 16), int(match[2], 16) + (int(match[3]) & 0xFFFFFFFF)
            block = block_of(data, int(match[1]))
        elif match := _FRE.fullmatch(line):
            pc = int(match[1], 16)
            pending.append((pc if block else pc - start, fields_of(match, machine)))
        elif re.match(r" +[0-9a-f]{16}  ", line):
            raise Refused(f"readelf printed {line!r}")
    yield from function()


def fields_of(match: re.Match[str], machine: str) -> list[str]:
    """CFA, RA and FP as the protocol spells them."""
    sp, fp, fixed = MACHINES[machine]
    if match[2] is None:
        return ["u", "undefined", "u"]

    def spelled(text: str) -> str:
        text = text.replace("+-", "-").replace("sp", f"r{sp}").replace("fp", f"r{fp}")
        return "m" + text if text[0] == "(" else text

    ra = {"f": fixed, "U": fixed, "u": "u"}.get(match[4], match[4])
    saved = {"U": "u", "f": "u"}.get(match[3], match[3])
    return [spelled(match[2]), spelled(ra) + (match[5] or ""), spelled(saved)]


def block_of(data: bytes, fde: int) -> int:
    """The size of the repeated block of an FDE that is PCMASK, else 0."""
    order = "little" if data[:2] == b"\xe2\xde" else "big"

    def u32(offset: int) -> int:
        return int.from_bytes(data[offset : offset + 4], order)

    version, base = data[2], 28 + data[7]
    index, rows, size = base + u32(20), base + u32(24), {1: 17, 2: 20, 3: 16}.get(version, 20)
    place = index + size * fde
    if version == 3:
        attribute = rows + u32(place + 12)
        info, block = data[attribute + 2 : attribute + 3], data[attribute + 4 : attribute + 5]
    else:
        info, block = data[place + 16 : place + 17], data[place + 17 : place + 18]
    block = b"\x10" if version == 1 else block
    return block[0] if info and block and info[0] & 0x10 else 0


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    command = [*sys.argv[1:], "-wN", "--sframe", request.path]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    text = done.stdout.decode(errors="replace")
    if done.returncode or done.stderr or ("func idx" not in text and "Num FDEs: 0" not in text):
        raise Refused(done.stderr.decode(errors="replace")[:200] or f"exit code {done.returncode}")
    with open(request.path, "rb") as file:
        data = ELFFile(file).get_section_by_name(".sframe").data()
    rows = list(rows_of(text, request.architecture, data))
    found = []
    for pc in request.pcs:
        found.append(next((fields for low, high, fields in reversed(rows) if low <= pc < high), ["-"]))
    return found


if __name__ == "__main__":
    serve(answer)
