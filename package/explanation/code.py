"""The instructions of a function beside the rows, where a disassembler is installed (extra `disassembly`: capstone)."""

from __future__ import annotations

from typing import Any

from ..converters.arch.table import Architecture
from ..schemas.section import ByteOrder
from .cfi import RowAt
from .model import CodeLine

# capstone's names of machines: CS_ARCH_..., and CS_MODE_... beside the byte order.
MACHINES: dict[str, tuple[str, tuple[str, ...]]] = {
    "x86": ("X86", ("32",)),
    "x86_64": ("X86", ("64",)),
    "x32": ("X86", ("64",)),
    "arm": ("ARM", ()),
    "aarch64": ("AARCH64", ()),
    "aarch64_be": ("AARCH64", ()),
    "mips": ("MIPS", ("MIPS32",)),
    "mips64": ("MIPS", ("MIPS64",)),
    "ppc": ("PPC", ("32",)),
    "ppc64": ("PPC", ("64",)),
    "riscv32": ("RISCV", ("RISCV32", "RISCVC")),
    "riscv64": ("RISCV", ("RISCV64", "RISCVC")),
    "s390x": ("SYSTEMZ", ()),
    "sparc64": ("SPARC", ("V9",)),
    "loongarch64": ("LOONGARCH", ("LOONGARCH64",)),
}
# Releases before 6 have other names.
OLDER = {"AARCH64": "ARM64", "SYSTEMZ": "SYSZ"}
MISSING = "the code is not disassembled: capstone is not installed (extra `disassembly`)"
UNKNOWN = "the code is not disassembled: capstone does not know this machine"
SHOWN_BYTES = 1 << 16


def disassembled(
    architecture: Architecture, byte_order: ByteOrder, data: bytes, start: int, asked: int, row_at: RowAt
) -> tuple[tuple[CodeLine, ...], str]:
    """The instructions of a function whose bytes are `data`, and a sentence about what is missing. Bytes that are no
    instruction end it."""
    try:
        import capstone
    except ImportError:
        return (), MISSING
    machine = _machine(capstone, architecture, byte_order)
    if machine is None:
        return (), UNKNOWN
    lines, shown = [], None
    for one in capstone.Cs(*machine).disasm(data[:SHOWN_BYTES], start):
        row = row_at(one.address - start)
        is_asked = one.address <= asked < one.address + one.size
        text = f"{one.mnemonic} {one.op_str}".rstrip()
        lines.append(CodeLine(one.address, bytes(one.bytes), text, is_asked, "" if row == shown else row))
        shown = row
    return tuple(lines), "" if len(data) <= SHOWN_BYTES else f"only the first {SHOWN_BYTES:,} bytes are disassembled"


def _machine(capstone: Any, architecture: Architecture, byte_order: ByteOrder) -> tuple[int, int] | None:
    known = MACHINES.get(architecture.name)
    if known is None:
        return None
    name, modes = known
    # The number of ARM is 0.
    kinds = [getattr(capstone, f"CS_ARCH_{one}", None) for one in (name, OLDER.get(name, name))]
    kind = next((one for one in kinds if one is not None), None)
    if kind is None:
        return None
    mode = capstone.CS_MODE_LITTLE_ENDIAN if byte_order == "little" else capstone.CS_MODE_BIG_ENDIAN
    for one in modes:
        mode |= getattr(capstone, f"CS_MODE_{one}")
    return kind, mode
