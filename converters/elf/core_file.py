"""ELF core files: threads with their registers, mapped files, and memory.

Strategy: notes are read in order, because those that follow an NT_PRSTATUS are about its thread. Memory is that of the
PT_LOADs as far as the file has it; what was not dumped is added from the files that were mapped.
"""

from __future__ import annotations

from dataclasses import replace

from ...schemas.core_files.notes import (
    AT,
    LAYOUTS,
    NT,
    CoreLayout,
    Thread,
    parse_auxv,
    parse_file,
    parse_fpregset,
    parse_pac_mask,
    parse_prstatus,
)
from ...schemas.elf.notes import Note, notes_in
from ...schemas.section import ParseError
from .image import ElfImage, layout_of
from .process_state import Memory, ProcessState

CORE_NOTES = (b"CORE\0", b"LINUX\0")


def core_file(image: ElfImage) -> ProcessState:
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
    state = ProcessState(image.architecture, (), (), memory)
    return _with_notes(state, [one for one in notes if one.name in CORE_NOTES], layout)


def _with_notes(state: ProcessState, notes: list[Note], layout: CoreLayout) -> ProcessState:
    threads: list[Thread] = []
    order = state.memory.byte_order
    for note in notes:
        match note.type:
            case NT.PRSTATUS:
                threads.append(parse_prstatus(note, layout, order))
            case NT.FPREGSET if threads:
                threads[-1].registers.update(parse_fpregset(note, layout, order))
            case NT.AUXV:
                auxv = parse_auxv(note, order)
                state = replace(state, vdso=auxv.get(AT.SYSINFO_EHDR), entry=auxv.get(AT.ENTRY))
            case NT.FILE:
                state = replace(state, mapped=parse_file(note, order))
            case NT.ARM_PAC_MASK:
                state = replace(state, signature_bits=parse_pac_mask(note, order))
    if not threads:
        raise ParseError("notes", None, "NT_PRSTATUS", "is missing: no thread's registers are known")
    return replace(state, threads=tuple(threads))
