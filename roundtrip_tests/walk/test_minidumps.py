"""Minidumps: of programs that gdb stopped, walked as Breakpad's minidump_stackwalk walks them; and made by hand, for
each stream, each processor and each way to be malformed."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import pytest
import unwindkit
from unwindkit import FormatError, ParseError, Places, WalkEnd
from unwindkit.converters.walk.minidump import minidump_state
from unwindkit.schemas import engine
from unwindkit.schemas.core_files import fixed_records, minidump, notes, signal_frames
from unwindkit.schemas.section import ByteOrder, Section

from ..support.oracles import oracle_root
from ..support.programs.minidumps import CONTEXTS, Module, State
from ..support.programs.minidumps import minidump as made
from ..support.programs.stopped_programs import AMD64, ARM64, Machine, Stop, build, libraries, stops
from ..support.texts.stackwalks import SCANNING, our_symbols, store, walk
from ..support.tiny_elf import tiny_elf

AMD64_TOOLS = pytest.mark.oracle("npm", "g++", "gdb")
ARM64_TOOLS = pytest.mark.oracle("npm", "sid-arm64", "aarch64-linux-gnu-g++", "gdb-multiarch", "qemu-aarch64")
STACK = 0x7FF000000000
BASE = 0x7F0000000000
LINKED = 0xF00  # the address of the first byte of tiny_elf's file


# --- as minidump_stackwalk --------------------------------------------------------------------------------------------


def compare(machine: Machine, stop: Stop, folder: Path) -> int:
    """PC, stack pointer, module, function and line of each frame; returns how many there are."""
    symbols = store(folder / "store", [our_symbols(path) for path in stop.paths])
    theirs = list(takewhile(lambda frame: frame.found_by != SCANNING, walk(machine.name, stop.state, symbols)))
    dump = folder / "store.dmp"
    (thread,) = unwindkit.walk_core(dump, "breakpad", Places(stores=[symbols])).threads
    assert [frame.walked.frame.pc for frame in thread.frames] == [frame.pc for frame in theirs]
    sp = {"x86_64": 7, "aarch64": 31}[machine.name]
    for ours, one in zip(thread.frames, theirs, strict=True):
        assert ours.walked.frame.registers[sp] == one.registers[machine.sp]
        assert Path(ours.module).name == one.module
        (name,) = ours.names
        assert (name.function, name.line) == (one.function, one.line), hex(one.pc)
    return len(theirs)


@AMD64_TOOLS
def test_frames_are_minidump_stackwalks(tmp_path: Path) -> None:
    program = build(AMD64, tmp_path, "-g", "-DSIGNAL")
    assert compare(AMD64, stops(AMD64, program)[-1], tmp_path) >= 18


@ARM64_TOOLS
def test_frames_of_aarch64_with_signed_return_addresses(tmp_path: Path) -> None:
    folders = (oracle_root("sid-arm64") / "usr/lib/aarch64-linux-gnu", Path("/usr/aarch64-linux-gnu/lib"))
    program = build(ARM64, tmp_path, "-g", "-mbranch-protection=pac-ret", *libraries(*folders))
    (stop,) = stops(ARM64, program, cpu="max")
    assert compare(ARM64, stop, tmp_path) >= 16


@AMD64_TOOLS
def test_by_the_files_themselves(tmp_path: Path) -> None:
    """Modules have paths here, as in dumps of most programs; an unknown build id is another file's."""
    program = build(AMD64, tmp_path, "-DSIGNAL")
    stop = stops(AMD64, program)[-1]
    modules = tuple(
        Module(str(path), one.base, one.size, one.build_id)
        for path, one in zip(stop.paths, stop.state.modules, strict=True)
    )
    state = State(stop.state.registers, stop.state.stack_start, stop.state.stack, modules)
    (thread,) = unwindkit.walk_core(made("x86_64", state)).threads
    assert [frame.walked.frame.pc for frame in thread.frames] == [frame["rip"] for frame in stop.frames]
    assert thread.end is WalkEnd.OUTERMOST
    assert {frame.walked.source for frame in thread.frames[1:]} == {".eh_frame"}
    assert thread.frames[0].names[0].function == "leaf"
    others = tuple(Module(one.name, one.base, one.size, bytes(20)) for one in modules)
    found = unwindkit.walk_core(made("x86_64", State(state.registers, STACK, b"", others)))
    assert found.threads[0].end is WalkEnd.NO_FUNCTION
    assert "has the build id" in found.notes[0]


# --- made by hand -----------------------------------------------------------------------------------------------------


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def file_of(streams: Mapping[int, bytes], more: bytes = b"") -> bytes:
    """A minidump; `more` is at 0x1000."""
    body, entries, at = b"", b"", 32 + 12 * len(streams)
    for kind, data in streams.items():
        entries += struct.pack("<III", kind, len(data), at + len(body))
        body += data
    header = struct.pack("<4sIIIIIQ", b"MDMP", 0xA793, len(streams), 32, 0, 0, 0)
    found = header + entries + body
    assert len(found) <= 0x1000
    return found.ljust(0x1000, b"\0") + more


def context(name: str, **registers: int) -> bytes:
    machine = CONTEXTS[name]
    record = bytearray(machine.size)
    for register, value in registers.items():
        form, offset = machine.places[register]
        struct.pack_into(form, record, offset, value)
    return bytes(record)


SYSTEM = {name: struct.pack("<HHHBB48x", CONTEXTS[name].processor_architecture, 0, 0, 1, 0) for name in CONTEXTS}


def thread(number: int, size: int, rva: int = 0x1000) -> bytes:
    """A thread without a stack."""
    return struct.pack("<IIIIQQIIII", number, 0, 0, 0, 0, 0, 0, 0, size, rva)


@pytest.mark.parametrize(
    ("name", "registers", "pc", "expected"),
    [
        ("x86", {"eip": 5, "esp": 6, "ebp": 7, "ebx": 8}, 5, {4: 6, 5: 7, 3: 8}),
        ("x86_64", {"rip": 5, "rsp": 6, "rbp": 7, "rbx": 8, "r15": 9, "rdx": 1}, 5, {7: 6, 6: 7, 3: 8, 15: 9, 1: 1}),
        ("aarch64", {"pc": 5, "sp": 6, "x0": 3, "x29": 7, "x30": 8}, 5, {31: 6, 0: 3, 29: 7, 30: 8}),
    ],
)
def test_registers_of_a_context(name: str, registers: dict[str, int], pc: int, expected: dict[int, int]) -> None:
    record = context(name, **registers)
    streams = {7: SYSTEM[name], 3: struct.pack("<I", 1) + thread(9, len(record))}
    state = minidump_state(memoryview(file_of(streams, record)))
    assert state.architecture.name == name
    (found,) = state.threads
    assert (found.pid, found.pc) == (9, pc)
    assert {number: found.registers[number] for number in expected} == expected


def test_the_thread_with_the_exception_has_its_registers() -> None:
    """Not those of the code that wrote the dump; other threads keep theirs."""
    first, second = context("x86_64", rip=1), context("x86_64", rip=2)
    exception = struct.pack("<IIIIQQII120xII", 9, 0, 11, 0, 0, 0, 0, 0, len(second), 0x1000 + len(first))
    streams = {
        7: SYSTEM["x86_64"],
        3: struct.pack("<I", 2) + thread(8, len(first)) + thread(9, len(first)),
        6: exception,
    }
    state = minidump_state(memoryview(file_of(streams, first + second)))
    assert [(one.pid, one.pc) for one in state.threads] == [(8, 1), (9, 2)]


def test_memory_of_all_lists_and_the_auxiliary_vector() -> None:
    record = context("x86_64", rip=1)
    data = 0x1000 + len(record)
    streams = {
        7: SYSTEM["x86_64"],
        # Its records are aligned to 8 bytes.
        3: struct.pack("<II", 1, 0) + thread(9, len(record)),
        5: struct.pack("<IQII", 1, 0x5000, 4, data),
        9: words(2, data + 4, 0x6000, 2, 0x6002, 3),
        0x47670008: words(33, 0x7000, 9, 0x1234, 0, 0),
    }
    state = minidump_state(memoryview(file_of(streams, record + b"abcdABCDE")))
    assert state.memory.bytes_at(0x5000, 4) == b"abcd"
    assert state.memory.bytes_at(0x6000, 5) == b"ABCDE"
    assert (state.vdso, state.entry) == (0x7000, 0x1234)


def module_of(path: str, record: bytes, at: int, base: int) -> bytes:
    """A list of one module whose name is at `at`, and what follows there."""
    name = path.encode("utf-16-le")
    place = struct.pack("<I", len(name)) + name + bytes(2)
    entry = struct.pack("<QIIII52xIIIIQQ", base, 0x2000, 0, 0, at, len(record), at + len(place), 0, 0, 0, 0)
    return struct.pack("<I", 1) + entry + place + record


def dump_with_module(path: str, record: bytes, base: int = BASE) -> bytes:
    registers, stack = context("x86_64", rip=BASE + 0x1050, rsp=STACK), words(BASE + 0x1020, 0xAAAA, 0)
    streams = {7: SYSTEM["x86_64"], 3: struct.pack("<I", 1) + thread(9, len(registers))}
    streams[5] = struct.pack("<IQII", 1, STACK, len(stack), 0x1000 + len(registers))
    start = 32 + 12 * 4 + sum(map(len, streams.values()))
    return file_of(streams | {4: module_of(path, record, start + 112, base)}, registers + stack)


def test_module_with_a_pdb70_record(tmp_path: Path) -> None:
    """RSDS, a GUID and an age name the folder of a store: its first three numbers are read as integers."""
    guid = bytes.fromhex("44332211 6655 8877 99aabbccddeeff00")
    text = "MODULE Linux x86_64 112233445566778899AABBCCDDEEFF001 app\nFUNC 1000 40 0 first\n1000 40 7 0\n"
    text += "STACK CFI INIT 1000 80 .cfa: $rsp 8 + .ra: .cfa 8 - ^\nSTACK CFI 1001 .cfa: $rsp 16 +\n"
    text += "STACK CFI INIT 1040 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n"
    text = text.replace("1000 80", "1000 40").replace("FUNC", "FILE 0 a.c\nFUNC")
    place = store(tmp_path / "store", [text])
    dump = dump_with_module("/gone/app", b"RSDS" + guid + struct.pack("<I", 1) + b"app\0")
    (found,) = unwindkit.walk_core(dump, places=Places(stores=[place])).threads
    assert [frame.walked.frame.pc for frame in found.frames] == [BASE + 0x1050, BASE + 0x1020]
    assert [frame.walked.cfa for frame in found.frames] == [STACK + 8, STACK + 24]
    assert found.end is WalkEnd.NULL_RETURN_ADDRESS
    (name,) = found.frames[1].names
    assert (name.function, name.file, name.line) == ("first", "a.c", 7)
    assert unwindkit.walk_core(dump).threads[0].end is WalkEnd.NO_FUNCTION


def test_declared_records_are_read_as_by_the_reference_engine() -> None:
    data = bytes(range(256)) * 8
    orders: tuple[ByteOrder, ...] = ("little", "big")
    for order in orders:
        section = Section.of("test", data, 0, order)
        for cls in (minidump.Thread, minidump.Module, minidump.ContextAmd64, minidump.ExceptionStream, notes.Prstatus,
                    notes.RegistersS390x, notes.FileEntry, minidump.Guid, signal_frames.SignalFrameX86_64,
                    signal_frames.SignalFrameAarch64, signal_frames.RtSignalFrameS390x):  # fmt: skip
            assert fixed_records.read_fixed(cls, section, 3) == engine.parse(cls, section, 3, len(data))[0]


# --- hostile ----------------------------------------------------------------------------------------------------------


def test_every_truncation_is_an_answer_or_an_error(tmp_path: Path) -> None:
    program = tmp_path / "tiny"
    program.write_bytes(tiny_elf())
    dump = dump_with_module(str(program), b"", BASE + LINKED)
    assert unwindkit.walk_core(dump).threads[0].end is WalkEnd.NULL_RETURN_ADDRESS
    ends = set()
    for size in [*range(0, 0x200, 9), *range(0xFF0, len(dump), 29)]:
        try:
            ends.add(unwindkit.walk_core(dump[:size]).threads[0].end)
        except FormatError:
            ends.add(None)
    assert ends == {None, WalkEnd.NO_MEMORY}


def test_no_byte_of_the_lists_does_harm(tmp_path: Path) -> None:
    program = tmp_path / "tiny"
    program.write_bytes(tiny_elf())
    dump = dump_with_module(str(program), b"RSDS" + bytes(20), BASE + LINKED)
    for at in range(0, 0x1C0, 5):
        with contextlib.suppress(FormatError):
            unwindkit.walk_core(dump[:at] + b"\xff" + dump[at + 1 :])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"MDMP", "32 bytes needed"),
        (struct.pack("<4sIIIIIQ", b"MDMP", 0, 0xFFFFFFFF, 32, 0, 0, 0), "do not fit"),
        (struct.pack("<4sIIIIIQ", b"MDMP", 0, 0, 32, 0, 0, 0), "SystemInfoStream: is missing"),
        (file_of({7: b"\x05\0" + bytes(54)}), "0x5 is not supported"),
        (file_of({7: SYSTEM["x86"]}), "has no threads"),
        (file_of({7: SYSTEM["x86"], 3: struct.pack("<I", 0x10000000)}), "do not fit"),
        (file_of({7: SYSTEM["x86"], 3: struct.pack("<I", 1) + thread(1, 0, 0xFFFFFFFF)}), "Context"),
        (file_of({7: SYSTEM["x86"], 3: struct.pack("<I", 1) + thread(1, 0), 9: words(1 << 60, 0)}, bytes(716)), "fit"),
        (file_of({7: SYSTEM["x86"], 3: struct.pack("<I", 1) + thread(1, 0), 0x47670008: bytes(9)}, bytes(716)), "who"),
    ],
)  # fmt: skip
def test_malformed_minidumps(data: bytes, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        unwindkit.walk_core(data)
