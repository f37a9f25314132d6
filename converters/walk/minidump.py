"""The state of a process from a minidump.

Strategy: the stream directory is read once; of several streams of one type the first is used. A list that does not fit
the file is malformed; memory that the file lacks is left out, as in a truncated core file.
"""

from __future__ import annotations

from typing import TypeVar

from ...schemas.core_files import minidump
from ...schemas.core_files.fixed_records import read_array, read_fixed
from ...schemas.core_files.minidump import MINIDUMP_STREAM_TYPE, PROCESSOR_ARCHITECTURE, Location
from ...schemas.core_files.notes import AT, Thread, auxv_values
from ...schemas.section import ParseError, Section
from ...schemas.wire import fixed_size
from ..arch.table import ARCHITECTURES
from ..elf.process_state import LoadedModule, Memory, ProcessState

R = TypeVar("R")
_ARCHITECTURES = {
    PROCESSOR_ARCHITECTURE.INTEL: "x86",
    PROCESSOR_ARCHITECTURE.AMD64: "x86_64",
    PROCESSOR_ARCHITECTURE.ARM64: "aarch64",
    PROCESSOR_ARCHITECTURE.ARM64_OLD: "aarch64",
}
MAX_NAME = 1 << 16


def is_minidump(data: bytes | memoryview) -> bool:
    """Whether a file is a minidump, by its first bytes."""
    return bytes(data[: len(minidump.MAGIC)]) == minidump.MAGIC


def minidump_state(data: memoryview) -> ProcessState:
    """The process. Raises ParseError."""
    file = Section("minidump", data, 0, 0)
    header = read_fixed(minidump.Header, file, 0)
    entries = read_array(minidump.Directory, file, header.stream_directory_rva, header.number_of_streams)
    streams = {entry.stream_type: entry.location for entry in reversed(entries)}
    system = streams.get(MINIDUMP_STREAM_TYPE.SystemInfoStream)
    if system is None:
        raise ParseError(file, None, "SystemInfoStream", "is missing: the processor is not known")
    processor = read_fixed(minidump.SystemInfo, file, system.rva).processor_architecture
    name = next((found for kind, found in _ARCHITECTURES.items() if kind == processor), None)
    if name is None:
        raise ParseError(file, system.rva, "SystemInfo.processor_architecture", f"{processor:#x} is not supported")
    auxv = _auxv(file, streams)
    memory = Memory(ARCHITECTURES[name].byte_order)
    threads = _threads(file, streams, name, memory)
    _add_memory(file, streams, memory)
    return ProcessState(
        ARCHITECTURES[name],
        threads,
        (),
        memory,
        auxv.get(AT.SYSINFO_EHDR),
        auxv.get(AT.ENTRY),
        modules=_modules(file, streams),
    )


def _list(cls: type[R], file: Section, location: Location | None) -> list[R]:
    """The records of a stream that begins with their number; some writers align them to 8 bytes."""
    if location is None:
        return []
    count = read_fixed(minidump.Count, file, location.rva, f"{cls.__name__}List").count
    start = location.rva + fixed_size(minidump.Count)
    if location.data_size == count * fixed_size(cls) + 8:
        start += 4
    return read_array(cls, file, start, count)


def _bytes(file: Section, location: Location) -> memoryview:
    """The bytes at a location, as far as the file has them."""
    return file.data[location.rva : location.rva + location.data_size]


# --- threads ----------------------------------------------------------------------------------------------------------


def _threads(file: Section, streams: dict[int, Location], name: str, memory: Memory) -> tuple[Thread, ...]:
    """The threads; the one with the exception has the registers of that, not of the code that wrote the dump."""
    context_of = {}
    if (location := streams.get(MINIDUMP_STREAM_TYPE.ExceptionStream)) is not None:
        found = read_fixed(minidump.ExceptionStream, file, location.rva)
        if found.thread_context.data_size:
            context_of[found.thread_id] = found.thread_context
    threads = []
    for one in _list(minidump.Thread, file, streams.get(MINIDUMP_STREAM_TYPE.ThreadListStream)):
        memory.add(one.stack.start_of_memory_range, _bytes(file, one.stack.memory))
        context = context_of.get(one.thread_id, one.thread_context)
        threads.append(_registers(name, file, context, one.thread_id))
    if not threads:
        raise ParseError(file, None, "ThreadListStream", "has no threads")
    return tuple(threads)


def _registers(name: str, file: Section, location: Location, number: int) -> Thread:
    """The registers of a thread. Raises ParseError."""
    at = location.rva
    if name == "x86":
        x86 = read_fixed(minidump.ContextX86, file, at)
        registers = dict(zip(minidump.GENERAL_X86, x86.general, strict=True))
        return Thread(number, x86.eip, registers | {minidump.ESP: x86.esp})
    if name == "x86_64":
        amd64 = read_fixed(minidump.ContextAmd64, file, at)
        registers = dict(zip(minidump.GENERAL_AMD64, amd64.general, strict=True))
        return Thread(number, amd64.rip, registers | {_RIP: amd64.rip})
    arm64 = read_fixed(minidump.ContextArm64, file, at)
    return Thread(number, arm64.pc, dict(enumerate(arm64.general)))


_RIP = ARCHITECTURES["x86_64"].return_address or 0


# --- memory and modules -----------------------------------------------------------------------------------------------


def _add_memory(file: Section, streams: dict[int, Location], memory: Memory) -> None:
    for one in _list(minidump.MemoryDescriptor, file, streams.get(MINIDUMP_STREAM_TYPE.MemoryListStream)):
        memory.add(one.start_of_memory_range, _bytes(file, one.memory))
    if (location := streams.get(MINIDUMP_STREAM_TYPE.Memory64ListStream)) is not None:
        head = read_fixed(minidump.Memory64List, file, location.rva)
        start = location.rva + fixed_size(minidump.Memory64List)
        at = head.base_rva
        for each in read_array(minidump.MemoryDescriptor64, file, start, head.number_of_memory_ranges):
            memory.add(each.start_of_memory_range, file.data[at : at + each.data_size])
            at += each.data_size


def _auxv(file: Section, streams: dict[int, Location]) -> dict[int, int]:
    """The auxiliary vector of Linux, {} if there is none."""
    location = streams.get(MINIDUMP_STREAM_TYPE.LinuxAuxv)
    return {} if location is None else auxv_values(Section("LinuxAuxv", _bytes(file, location)))


def _modules(file: Section, streams: dict[int, Location]) -> tuple[LoadedModule, ...]:
    found = _list(minidump.Module, file, streams.get(MINIDUMP_STREAM_TYPE.ModuleListStream))
    return tuple(
        LoadedModule(
            _string(file, one.module_name_rva, f"Module[{index}].module_name"),
            one.base_of_image,
            one.size_of_image,
            *_identity(file, one.cv_record),
        )
        for index, one in enumerate(found)
    )


def _string(file: Section, offset: int, record: str) -> str:
    """A string: its size in bytes, then UTF-16."""
    size = read_fixed(minidump.Count, file, offset, record).count
    start = offset + fixed_size(minidump.Count)
    if size > min(MAX_NAME, len(file) - start):
        raise ParseError(file, offset, record, f"{size} bytes do not fit the file, or are no name")
    return bytes(file.data[start : start + size]).decode("utf-16-le", "replace")


def _identity(file: Section, location: Location) -> tuple[bytes, str]:
    """The build id of a module, or its identifier in symbol stores; empty if they are not known."""
    data = _bytes(file, location)
    signature = int.from_bytes(data[:4], "little") if len(data) >= 4 else 0
    if signature == minidump.CV_ELF:
        return bytes(data[4:]), ""
    if signature == minidump.CV_PDB70:
        record = read_fixed(minidump.CvInfoPdb70, file, location.rva)
        guid = record.guid
        digits = f"{guid.data1:08X}{guid.data2:04X}{guid.data3:04X}{bytes(guid.data4).hex().upper()}"
        return b"", f"{digits}{record.age:X}"
    return b"", ""
