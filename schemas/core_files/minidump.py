"""Minidumps: threads, modules and memory of a process that crashed (Microsoft's minidumpapiset.h; for Linux, and for
the processors' contexts, Breakpad's minidump_format.h and minidump_cpu_*.h).

Strategy: everything is found by a `Location`, an offset in the file ("RVA") and a size. Integers are little-endian;
only the first part of a context, up to the program counter, is declared.
"""

from __future__ import annotations

from enum import IntEnum

from ..wire import U16, U32, U64, Integer, Nested, Repeated, record, wire

SIGNATURE = 0x504D444D  # "MDMP"
MAGIC = SIGNATURE.to_bytes(4, "little")
# Signatures of CodeView records: a GUID with an age; the build id of an ELF file.
CV_PDB70, CV_ELF = 0x53445352, 0x4270454C


class MINIDUMP_STREAM_TYPE(IntEnum):
    """The streams that are read."""

    ThreadListStream = 3
    ModuleListStream = 4
    MemoryListStream = 5
    ExceptionStream = 6
    SystemInfoStream = 7
    Memory64ListStream = 9
    LinuxAuxv = 0x47670008


class PROCESSOR_ARCHITECTURE(IntEnum):
    """The processors whose contexts are declared; ARM64_OLD is Breakpad's first number for AArch64."""

    INTEL = 0
    AMD64 = 9
    ARM64 = 12
    ARM64_OLD = 0x8003


@record
class Header:
    """The start of the file."""

    signature: int = wire(Integer(4, allowed=(SIGNATURE,)), "`MDMP`")
    version: int = wire(U32, "0xa793 in the low 16 bits")
    number_of_streams: int = wire(U32, "entries in the directory")
    stream_directory_rva: int = wire(U32, "file offset of the directory")
    checksum: int = wire(U32, "0 or a checksum")
    time_date_stamp: int = wire(U32, "seconds since 1970")
    flags: int = wire(U64, "MINIDUMP_TYPE")


@record
class Location:
    """MINIDUMP_LOCATION_DESCRIPTOR."""

    data_size: int = wire(U32, "bytes")
    rva: int = wire(U32, "file offset")


@record
class Directory:
    """An entry of the directory."""

    stream_type: int = wire(U32, "MINIDUMP_STREAM_TYPE")
    location: Location = wire(Nested(Location), "the stream")


@record
class MemoryDescriptor:
    """A range of memory."""

    start_of_memory_range: int = wire(U64, "address")
    memory: Location = wire(Nested(Location), "its bytes")


@record
class Memory64List:
    """The start of the stream; MemoryDescriptor64 records follow, and elsewhere the bytes of all ranges in order."""

    number_of_memory_ranges: int = wire(U64, "records")
    base_rva: int = wire(U64, "file offset of the bytes of the first range")


@record
class MemoryDescriptor64:
    """A range of memory whose bytes follow those of the range before."""

    start_of_memory_range: int = wire(U64, "address")
    data_size: int = wire(U64, "bytes")


@record
class Thread:
    """A thread."""

    thread_id: int = wire(U32, "its number")
    suspend_count: int = wire(U32, "0 on Linux")
    priority_class: int = wire(U32, "0 on Linux")
    priority: int = wire(U32, "0 on Linux")
    teb: int = wire(U64, "thread environment block; 0 on Linux")
    stack: MemoryDescriptor = wire(Nested(MemoryDescriptor), "its stack from SP on")
    thread_context: Location = wire(Nested(Location), "its registers")


@record
class Module:
    """A loaded file."""

    base_of_image: int = wire(U64, "address of the first byte")
    size_of_image: int = wire(U32, "bytes")
    checksum: int = wire(U32, "0 on Linux")
    time_date_stamp: int = wire(U32, "0 on Linux")
    module_name_rva: int = wire(U32, "file offset of its path, a string")
    version_info: tuple[int, ...] = wire(Repeated(U32, 13), "VS_FIXEDFILEINFO")
    cv_record: Location = wire(Nested(Location), "the CodeView record: what identifies it")
    misc_record: Location = wire(Nested(Location), "unused")
    reserved: tuple[int, ...] = wire(Repeated(U64, 2), "0")


@record
class Guid:
    """A GUID."""

    data1: int = wire(U32, "the first 8 hexadecimal digits")
    data2: int = wire(U16, "4 digits")
    data3: int = wire(U16, "4 digits")
    data4: tuple[int, ...] = wire(Repeated(Integer(1), 8), "16 digits")


@record
class CvInfoPdb70:
    """A CodeView record of an identifier and an age; the name follows."""

    signature: int = wire(Integer(4, allowed=(CV_PDB70,)), "`RSDS`")
    guid: Guid = wire(Nested(Guid), "identifier")
    age: int = wire(U32, "0 on Linux")


@record
class ExceptionStream:
    """What happened, and in which thread."""

    thread_id: int = wire(U32, "the thread")
    alignment: int = wire(U32, "unused")
    exception_code: int = wire(U32, "on Linux the signal")
    exception_flags: int = wire(U32, "on Linux si_code")
    exception_record: int = wire(U64, "0 on Linux")
    exception_address: int = wire(U64, "on Linux si_addr")
    number_parameters: int = wire(U32, "values in exception_information")
    unused_alignment: int = wire(U32, "unused")
    exception_information: tuple[int, ...] = wire(Repeated(U64, 15), "further values")
    thread_context: Location = wire(Nested(Location), "the registers at the exception")


@record
class SystemInfo:
    """The start of the stream: the processor."""

    processor_architecture: int = wire(U16, "PROCESSOR_ARCHITECTURE")
    processor_level: int = wire(U16, "family")
    processor_revision: int = wire(U16, "model and stepping")


@record
class ContextX86:
    """CONTEXT of x86, up to SS."""

    context_flags: int = wire(U32, "which parts are valid")
    debug_registers: tuple[int, ...] = wire(Repeated(U32, 6), "dr0 to dr3, dr6, dr7")
    float_save: tuple[int, ...] = wire(Repeated(U32, 28), "x87 registers")
    segments: tuple[int, ...] = wire(Repeated(U32, 4), "gs, fs, es, ds")
    general: tuple[int, ...] = wire(Repeated(U32, 7), "edi, esi, ebx, edx, ecx, eax, ebp")
    eip: int = wire(U32, "program counter")
    cs: int = wire(U32, "segment")
    eflags: int = wire(U32, "flags")
    esp: int = wire(U32, "stack pointer")
    ss: int = wire(U32, "segment")


@record
class ContextAmd64:
    """CONTEXT of x86-64, up to RIP."""

    home: tuple[int, ...] = wire(Repeated(U64, 6), "p1_home to p6_home")
    context_flags: int = wire(U32, "which parts are valid")
    mx_csr: int = wire(U32, "SSE control")
    segments: tuple[int, ...] = wire(Repeated(U16, 6), "cs, ds, es, fs, gs, ss")
    eflags: int = wire(U32, "flags")
    debug_registers: tuple[int, ...] = wire(Repeated(U64, 6), "dr0 to dr3, dr6, dr7")
    general: tuple[int, ...] = wire(Repeated(U64, 16), "rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15")
    rip: int = wire(U64, "program counter")


@record
class ContextArm64:
    """CONTEXT of AArch64, up to PC; the same in Breakpad's first form, whose flags have 64 bits."""

    context_flags: int = wire(U32, "which parts are valid")
    cpsr: int = wire(U32, "flags")
    general: tuple[int, ...] = wire(Repeated(U64, 32), "x0 to x30, sp")
    pc: int = wire(U64, "program counter")


@record
class Count:
    """The number of records at the start of a list."""

    count: int = wire(U32, "records")


# DWARF numbers of `general`.
GENERAL_X86 = (7, 6, 3, 2, 1, 0, 5)
GENERAL_AMD64 = (0, 2, 1, 3, 7, 6, 4, 5, *range(8, 16))
ESP = 4
