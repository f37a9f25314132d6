"""ELF core files: threads with their registers, mapped files, and memory.

Strategy: notes are read in order, because those that follow an NT_PRSTATUS are about its thread. Memory is that of the
PT_LOADs as far as the file has it; what was not dumped is added from the files that were mapped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field, replace

from ...schemas.core_files.notes import (
    AT,
    LAYOUTS,
    NT,
    CoreLayout,
    MappedFile,
    Note,
    Thread,
    notes_in,
    parse_auxv,
    parse_file,
    parse_fpregset,
    parse_pac_mask,
    parse_prstatus,
)
from ...schemas.section import ByteOrder, ParseError
from ..arch.table import Architecture
from .image import ElfImage, layout_of

CORE_NOTES = (b"CORE\0", b"LINUX\0")


@dataclass(slots=True)
class Memory:
    """Bytes by address: disjoint ranges, of which those added first win."""

    byte_order: ByteOrder
    starts: list[int] = field(default_factory=list)
    pieces: dict[int, memoryview] = field(default_factory=dict)

    def add(self, address: int, data: memoryview) -> None:
        """Add bytes where there are none yet."""
        end = address + len(data)
        at = bisect_right(self.starts, address) - 1
        if at >= 0:
            address = max(address, self.starts[at] + len(self.pieces[self.starts[at]]))
        begin = end - len(data)
        inside = self.starts[bisect_left(self.starts, address) : bisect_left(self.starts, end)]
        for start in [*inside, end]:
            if start > address:
                insort(self.starts, address)
                self.pieces[address] = data[address - begin : start - begin]
            if start < end:
                address = start + len(self.pieces[start])

    def bytes_at(self, address: int, size: int) -> bytes:
        """Bytes that may be in several ranges. Raises LookupError if one is in none."""
        found = b""
        while len(found) < size:
            at = bisect_right(self.starts, address + len(found)) - 1
            start = self.starts[at] if at >= 0 else 0
            part = self.pieces[start][address + len(found) - start :] if at >= 0 else memoryview(b"")
            if not len(part):
                raise LookupError(f"no memory at {address + len(found):#x}")
            found += part[: size - len(found)]
        return found

    def read(self, address: int, size: int) -> int:
        """An unsigned number. Raises LookupError."""
        return int.from_bytes(self.bytes_at(address, size), self.byte_order)

    def upto(self, address: int, size: int) -> bytes:
        """As many bytes as there are, at most `size`."""
        at = bisect_right(self.starts, address) - 1
        if at < 0:
            return b""
        start = self.starts[at]
        return bytes(self.pieces[start][address - start : address - start + size])


@dataclass(frozen=True, slots=True)
class CoreFile:
    """A core file. `signature_bits`: those of NT_ARM_PAC_MASK, None without one. `vdso`, `entry`: the addresses of the
    vDSO and of the program's first instruction, None if they are not known."""

    image: ElfImage
    threads: tuple[Thread, ...]
    mapped: tuple[MappedFile, ...]
    memory: Memory
    vdso: int | None = None
    entry: int | None = None
    signature_bits: int | None = None

    @property
    def architecture(self) -> Architecture:
        return self.image.architecture


def core_file(image: ElfImage) -> CoreFile:
    """Read a core file. Raises ParseError for any other file, a malformed one, and an unknown machine."""
    layout = LAYOUTS.get(str(image.machine))
    if image.type != "ET_CORE":
        raise ParseError("", None, "e_type", f"is {image.type}: not a core file")
    if layout is None or image.address_size != 8:
        raise ParseError("", None, "e_machine", f"core files of {image.architecture.name} are not supported")
    memory, notes = Memory(image.byte_order), list[Note]()
    for one in layout_of(image).segments:
        data = image.data[one.file_offset : one.file_offset + one.file_size]
        if one.type == "PT_LOAD":
            memory.add(one.address, data)
        elif one.type == "PT_NOTE":
            if len(data) < one.file_size:
                raise ParseError("", None, "PT_NOTE", "reaches past the end of the file")
            notes += notes_in(data, image.byte_order, one.file_offset)
    return _with_notes(CoreFile(image, (), (), memory), [one for one in notes if one.name in CORE_NOTES], layout)


def _with_notes(core: CoreFile, notes: list[Note], layout: CoreLayout) -> CoreFile:
    threads: list[Thread] = []
    order = core.image.byte_order
    for note in notes:
        match note.type:
            case NT.PRSTATUS:
                threads.append(parse_prstatus(note, layout, order))
            case NT.FPREGSET if threads:
                threads[-1].registers.update(parse_fpregset(note, layout, order))
            case NT.AUXV:
                auxv = parse_auxv(note, order)
                core = replace(core, vdso=auxv.get(AT.SYSINFO_EHDR), entry=auxv.get(AT.ENTRY))
            case NT.FILE:
                core = replace(core, mapped=parse_file(note, order))
            case NT.ARM_PAC_MASK:
                core = replace(core, signature_bits=parse_pac_mask(note, order))
    if not threads:
        raise ParseError("notes", None, "NT_PRSTATUS", "is missing: no thread's registers are known")
    return replace(core, threads=tuple(threads))
