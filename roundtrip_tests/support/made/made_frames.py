"""Call frame information made by hand for any machine, byte order and address size, in ELF files for readelf.

Strategy: entries are packed here field by field, without the product's schemas; lengths and pointers are correct unless
a test sets others. `by_us` and `by_readelf` print the same file.
"""

from __future__ import annotations

import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from unwindkit.jobs.dump import dump_cfi

from ..oracles import OracleError, oracle_command
from ..tiny_elf import ALLOC, STRTAB, Content

ADDRESS = 0x10000  # of the first section


@dataclass(frozen=True, slots=True)
class Target:
    """The fields of an ELF header: e_machine, 32 or 64 bits, byte order (as in struct)."""

    machine: int
    bits: int
    order: str

    @property
    def address_size(self) -> int:
        return self.bits // 8

    def integer(self, value: int, size: int) -> bytes:
        return (value % (1 << 8 * size)).to_bytes(size, "little" if self.order == "<" else "big")


TARGETS = {
    "x86": Target(3, 32, "<"),
    "x86_64": Target(62, 64, "<"),
    "x32": Target(62, 32, "<"),
    "arm": Target(40, 32, "<"),
    "armeb": Target(40, 32, ">"),
    "aarch64": Target(183, 64, "<"),
    "aarch64_be": Target(183, 64, ">"),
    "mips": Target(8, 32, ">"),
    "mipsel": Target(8, 32, "<"),
    "mips64": Target(8, 64, ">"),
    "ppc": Target(20, 32, ">"),
    "ppc64": Target(21, 64, ">"),
    "ppc64le": Target(21, 64, "<"),
    "riscv32": Target(243, 32, "<"),
    "riscv64": Target(243, 64, "<"),
    "s390": Target(22, 32, ">"),
    "s390x": Target(22, 64, ">"),
    "loongarch64": Target(258, 64, "<"),
    "sparc64": Target(43, 64, ">"),
}
X86_64 = TARGETS["x86_64"]


def elf_file(target: Target, *contents: Content) -> bytes:
    """A shared object with these sections; the loaded ones follow one another from ADDRESS on."""
    wide = target.bits == 64
    header_size, section_size = (64, 64) if wide else (52, 40)
    header, section = ("HHIQQQIHHHHHH", "IIQQQQIIQQ") if wide else ("HHIIIIIHHHHHH", "10I")
    names = b"\0" + b"".join(content.name.encode() + b"\0" for content in contents) + b".shstrtab\0"
    data, headers, address = bytearray(header_size), [bytes(section_size)], ADDRESS
    for content in (*contents, Content(".shstrtab", names, STRTAB, 0)):
        data += bytes(-len(data) % 16)
        loaded = bool(content.flags & ALLOC)
        fields = (content.flags, address if loaded else 0, len(data), len(content.data), 0, 0, 1, 0)
        headers.append(
            struct.pack(target.order + section, names.index(content.name.encode() + b"\0"), content.type, *fields)
        )
        data += content.data
        address += -(-len(content.data) // 16) * 16 * loaded
    ident = b"\x7fELF" + bytes([wide + 1, 1 + (target.order == ">"), 1]) + bytes(9)
    sizes = (header_size, 0, 0, section_size, len(headers), len(headers) - 1)
    fields = (3, target.machine, 1, 0, 0, len(data), 0, *sizes)
    data[:header_size] = ident + struct.pack(target.order + header, *fields)
    return bytes(data + b"".join(headers))


def uleb(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def sleb(value: int) -> bytes:
    found = bytearray()
    while not -0x40 <= value < 0x40:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value & 0x7F])


@dataclass(frozen=True, slots=True)
class Cie:
    """A CIE. `data` is its augmentation data, present if `augmentation` begins with z; `sizes`, of an address and of a
    segment selector, are encoded in version 4 only; `encoding` is that of its FDEs, which `data` may declare."""

    initial: bytes = b""
    version: int = 1
    augmentation: bytes = b""
    data: bytes = b""
    code_factor: int = 1
    data_factor: int = -8
    return_column: int = 16
    sizes: tuple[int, int] | None = None
    is_64: bool = False
    encoding: int = 0

    def body(self, target: Target) -> bytes:
        sizes = bytes(self.sizes or (target.address_size, 0)) if self.version >= 4 else b""
        column = bytes([self.return_column]) if self.version == 1 else uleb(self.return_column)
        eh = bytes(target.address_size) if self.augmentation == b"eh" else b""
        data = uleb(len(self.data)) + self.data if self.augmentation[:1] == b"z" else b""
        head = bytes([self.version]) + self.augmentation + b"\0" + eh + sizes
        return head + uleb(self.code_factor) + sleb(self.data_factor) + column + data + self.initial


@dataclass(frozen=True, slots=True)
class Fde:
    """An FDE of the CIE that comes before it. `data` is its augmentation data."""

    instructions: bytes = b""
    start: int = 0x1000
    size: int = 0x100
    data: bytes = b""
    segment: int = 0


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes between entries: a terminator."""

    data: bytes = bytes(4)


Entry = Cie | Fde | Raw


def frame_section(target: Target, *entries: Entry, is_eh: bool = True, address: int = ADDRESS) -> bytes:
    """The bytes of an `.eh_frame` (or `.debug_frame`) of these entries; `address` is the section's."""
    data = bytearray()
    cie, cie_offset = Cie(), 0
    for entry in entries:
        if isinstance(entry, Raw):
            data += entry.data
            continue
        if isinstance(entry, Cie):
            cie, cie_offset = entry, len(data)
        id_offset = len(data) + (12 if cie.is_64 else 4)
        id_size = 8 if cie.is_64 and not is_eh else 4
        if isinstance(entry, Cie):
            number, body = (0 if is_eh else -1), entry.body(target)
        else:
            number = id_offset - cie_offset if is_eh else cie_offset
            body = _fde_body(target, cie, entry, address + id_offset + id_size)
        rest = target.integer(number, id_size) + body
        rest += bytes(-(len(rest) + (12 if cie.is_64 else 4)) % 4)  # DW_CFA_nop
        length = target.integer(-1, 4) + target.integer(len(rest), 8) if cie.is_64 else target.integer(len(rest), 4)
        data += length + rest
    return bytes(data)


def _fde_body(target: Target, cie: Cie, fde: Fde, place: int) -> bytes:
    address_size, segment_size = cie.sizes if cie.sizes and cie.version >= 4 else (target.address_size, 0)
    size = {0: address_size, 2: 2, 3: 4, 4: 8}[cie.encoding & 7]
    base = place if cie.encoding & 0x70 == 0x10 else 0
    location = target.integer(fde.start - base, size) + target.integer(fde.size, size)
    data = uleb(len(fde.data)) + fde.data if cie.augmentation[:1] == b"z" else b""
    return target.integer(fde.segment, segment_size) + location + data + fde.instructions


def frame_file(path: Path, target: Target, *entries: Entry, is_eh: bool = True) -> Path:
    """A file with one section of these entries."""
    name = ".eh_frame" if is_eh else ".debug_frame"
    data = frame_section(target, *entries, is_eh=is_eh, address=ADDRESS if is_eh else 0)
    path.write_bytes(elf_file(target, Content(name, data, flags=ALLOC * is_eh)))
    return path


def by_us(path: Path, *, interpreted: bool) -> bytes:
    return b"".join(dump_cfi(path, interpreted))


def by_readelf(path: Path, *, interpreted: bool) -> bytes:
    """Its standard output; a warning is not a failure."""
    command = [*oracle_command("readelf"), "-wNF" if interpreted else "-wNf", path]
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"})
    if done.returncode not in (0, 1):
        raise OracleError(f"readelf ended with {done.returncode}: {done.stderr.decode(errors='replace')[:500]}")
    return done.stdout


def agree(path: Path) -> None:
    """Both print the same, for instructions and for rows."""
    for interpreted in (False, True):
        assert by_us(path, interpreted=interpreted) == by_readelf(path, interpreted=interpreted), path
