"""pyelftools: the decoded tables of `.eh_frame` and `.debug_frame`, on each case in an ELF file.

pyelftools does not reduce addresses modulo their size: this is done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from .protocol import FP, Refused, Request, Row, at, serve

# What it raises for sections that it cannot read; RecursionError for an FDE that is its own CIE.
ERRORS = (
    ELFError,
    DWARFError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
RULES = {"UNDEFINED": "undefined", "SAME_VALUE": "s"}
OFFSETS = {"OFFSET": "c", "VAL_OFFSET": "v"}


def rule(row: dict[Any, Any], register: int) -> str:
    """A register's rule as the protocol spells it; `u` for a register that the row does not name."""
    found = row.get(register)
    if found is None:
        return "u"
    if found.type in OFFSETS:
        return f"{OFFSETS[found.type]}{found.arg:+d}"
    if found.type in ("EXPRESSION", "VAL_EXPRESSION"):
        return f"{'v' * (found.type[0] == 'V')}exp({bytes(found.arg).hex()})"
    return RULES.get(found.type) or f"r{found.arg}+0"


def rows_of(entry: FDE, machine: str, limit: int) -> Iterator[Row]:
    """The rows of one FDE: CFA, RA and FP."""
    table = entry.get_decoded().table
    start = entry["initial_location"]
    shift = start % limit - start
    end = start + entry["address_range"]
    for index, row in enumerate(table):
        cfa = row["cfa"]
        spelled = "u" if cfa is None else f"exp({bytes(cfa.expr).hex()})" if cfa.expr else f"r{cfa.reg}{cfa.offset:+d}"
        ra, fp = (rule(row, register) for register in (entry.cie["return_address_register"], FP[machine]))
        after = table[index + 1]["pc"] if index + 1 < len(table) else end
        yield row["pc"] + shift, after + shift, [spelled, ra, fp]


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    with open(request.path, "rb") as file:
        try:
            elf = ELFFile(file)
            dwarf, limit, machine = elf.get_dwarf_info(), 1 << elf.elfclass, request.architecture
            entries = dwarf.EH_CFI_entries() if request.section == ".eh_frame" else dwarf.CFI_entries()
            rows = [row for one in entries if isinstance(one, FDE) for row in rows_of(one, machine, limit)]
        except ERRORS as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
    return at(rows, request.pcs)


if __name__ == "__main__":
    serve(answer)
