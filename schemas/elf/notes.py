"""Notes of ELF files: the build id, and what core files have in theirs (gABI, Note Section)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..core_files.fixed_records import read_fixed
from ..section import ByteOrder, Section
from ..wire import U32, fixed_size, record, wire


@record
class NoteHeader:
    """The start of a note (gABI, Note Section); name and description follow, each padded to 4 bytes."""

    namesz: int = wire(U32, "bytes of the name")
    descsz: int = wire(U32, "bytes of the description")
    type: int = wire(U32, "NT_...")


class Note(NamedTuple):
    """One note; `offset` is that of its description in the file."""

    type: int
    name: bytes
    description: memoryview
    offset: int


def notes_in(data: memoryview, byte_order: ByteOrder, offset: int = 0) -> Iterator[Note]:
    """The notes of a PT_NOTE or SHT_NOTE (gABI, Note Section), at `offset` in the file. One that reaches past the end
    is the last."""
    section, header_size = Section("notes", data, 0, None, byte_order), fixed_size(NoteHeader)
    at = 0
    while at + header_size <= len(data):
        header = read_fixed(NoteHeader, section, at)
        start = at + header_size + (header.namesz + 3 & ~3)
        if start + header.descsz > len(data):
            break
        name = bytes(data[at + header_size : at + header_size + header.namesz])
        yield Note(header.type, name, data[start : start + header.descsz], offset + start)
        at = start + (header.descsz + 3 & ~3)
