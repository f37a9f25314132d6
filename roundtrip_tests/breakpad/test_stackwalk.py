"""Breakpad's own minidump_stackwalk, walking real stacks by our STACK CFI: gdb's frames, registers and all.

Strategy: a program is stopped under gdb, its state becomes a minidump, our text for its files a symbol store. gdb's
frames are the truth. Where dump_syms' text is right, it gives the same walk; where it is wrong, the walk shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

from ..cfi.test_cfi_reading import NAMED_LIBRARIES, libc
from ..support.oracles import oracle_root
from ..support.programs.stopped_programs import AMD64, ARM64, Machine, Stop, build, libraries, stops
from ..support.real_files import REAL_FILES
from ..support.texts.stackwalks import BY_CFI, SCANNING, WalkedFrame, cfi_lines, dump_syms, our_symbols, store, walk

AMD64_TOOLS = pytest.mark.oracle("npm", "g++", "gdb")
ARM64_TOOLS = pytest.mark.oracle("npm", "sid-arm64", "aarch64-linux-gnu-g++", "gdb-multiarch", "qemu-aarch64")
# Callee-saved registers, which a walker can recover (System V ABI AMD64 3.2.1; AAPCS64 6.1.1).
KEPT = {"x86_64": {"rbx", "rbp", "rsp", "rip", "r12", "r13", "r14", "r15"},
        "aarch64": {*(f"x{number}" for number in range(19, 30)), "sp", "pc"}}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Walked:
    """A program's stops, and symbol stores of its files: of our text, and of dump_syms'."""

    machine: Machine
    stops: tuple[Stop, ...]
    ours: Path
    theirs: Path

    def walk(self, stop: Stop, symbols: Path) -> list[WalkedFrame]:
        """The frames up to the first without a rule: the walker may then scan the stack, on amd64 for `.ra: 0`
        as well (test_stackwalk_words.py)."""
        frames = walk(self.machine.name, stop.state, symbols)
        return list(takewhile(lambda frame: frame.found_by != SCANNING, frames))


def walked(machine: Machine, folder: Path, stopped: tuple[Stop, ...]) -> Walked:
    paths = stopped[0].paths
    ours, theirs = (
        store(folder / name, [text(path) for path in paths])
        for name, text in (("ours", our_symbols), ("theirs", dump_syms))
    )
    return Walked(machine, stopped, ours, theirs)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    """Only calls, through libc and libstdc++."""
    folder = tmp_path_factory.mktemp("plain")
    return walked(AMD64, folder, stops(AMD64, build(AMD64, folder)))


@pytest.fixture(scope="session")
def signalled(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    """With a signal handler; stops also inside the PLT and at 70 instructions of a call."""
    folder = tmp_path_factory.mktemp("signalled")
    return walked(AMD64, folder, stops(AMD64, build(AMD64, folder, "-DSIGNAL"), steps=70))


@pytest.fixture(scope="session")
def arm64_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its return addresses are signed, and those of sid's C library."""
    folders = (oracle_root("sid-arm64") / "usr/lib/aarch64-linux-gnu", Path("/usr/aarch64-linux-gnu/lib"))
    flags = ("-mbranch-protection=pac-ret", *libraries(*folders))
    return build(ARM64, tmp_path_factory.mktemp("arm64"), *flags)


@pytest.fixture(scope="session")
def arm64(arm64_program: Path) -> Walked:
    """On a processor for which signing does nothing: gdb can follow."""
    return walked(ARM64, arm64_program.parent, stops(ARM64, arm64_program, steps=12, cpu="cortex-a57"))


def stops_of(found: Walked, label: str) -> list[Stop]:
    return [stop for stop in found.stops if stop.label == label]


def is_the_truth(machine: Machine, stop: Stop, frames: list[WalkedFrame]) -> None:
    """The frames are gdb's, to the last: addresses, modules, every callee-saved register; all are found by CFI."""
    pc = machine.registers[-1]
    assert [frame.pc for frame in frames] == [frame[pc] for frame in stop.frames]
    assert {frame.found_by for frame in frames[1:]} == {BY_CFI}
    for frame, truth in zip(frames, stop.frames, strict=True):
        assert frame.registers.keys() >= KEPT[machine.name]
        assert frame.registers.items() <= truth.items(), hex(frame.pc)
        inside = [one.name for one in stop.state.modules if one.base <= frame.pc < one.base + one.size]
        assert [frame.module] == inside


@AMD64_TOOLS
def test_crash_below_libc_and_libstdcpp(plain: Walked) -> None:
    (stop,) = plain.stops
    frames = plain.walk(stop, plain.ours)
    is_the_truth(AMD64, stop, frames)
    # Three frames before main, 11 of the program's and put, and qsort's.
    modules = [frame.module for frame in frames]
    assert len(frames) >= 16
    assert {"crashing", "libc.so.6", "libstdc++.so.6"} == set(modules)
    assert modules[-1] == "crashing"  # _start


@AMD64_TOOLS
def test_walk_is_as_with_dump_syms_file(plain: Walked) -> None:
    (stop,) = plain.stops
    theirs = plain.walk(stop, plain.theirs)[: len(stop.frames)]
    is_the_truth(AMD64, stop, theirs)
    assert theirs == plain.walk(stop, plain.ours)


@AMD64_TOOLS
def test_undefined_return_address_ends_walking_by_cfi_at_start(plain: Walked) -> None:
    """_start marks it; dump_syms leaves the CIE's rule, and a frame outside any code follows."""
    (stop,) = plain.stops
    assert len(plain.walk(stop, plain.ours)) == len(stop.frames)
    beyond = plain.walk(stop, plain.theirs)[len(stop.frames)]
    assert (beyond.module, beyond.found_by) == ("", BY_CFI)


@AMD64_TOOLS
def test_signal_frame_gives_back_every_register(signalled: Walked) -> None:
    """glibc's __restore_rt has only expressions: the interrupted frame is recovered completely."""
    stop = signalled.stops[-1]
    frames = signalled.walk(stop, signalled.ours)
    is_the_truth(AMD64, stop, frames)
    assert frames[4].registers.keys() == set(AMD64.registers)
    assert len(frames) >= 18  # two more: the signal frame, and raise


@AMD64_TOOLS
def test_dump_syms_loses_the_stack_at_a_signal_frame(signalled: Walked) -> None:
    """It drops expressions: from there on no rule leads to the caller."""
    stop = signalled.stops[-1]
    frames = signalled.walk(stop, signalled.theirs)
    assert [frame.pc for frame in frames] == [frame["rip"] for frame in stop.frames[:4]]


@AMD64_TOOLS
def test_every_instruction_of_a_lazy_plt_entry(signalled: Walked) -> None:
    """jmp, push, jmp: the CFA moves in the middle of 16 bytes, which one expression encodes."""
    in_plt = stops_of(signalled, "plt")
    assert len(in_plt) >= 3
    assert {stop.frames[0]["rip"] % 16 for stop in in_plt} == {0, 6, 11}
    for stop in in_plt:
        assert len(stop.frames) >= 5
        is_the_truth(AMD64, stop, signalled.walk(stop, signalled.ours))


@AMD64_TOOLS
def test_dump_syms_skips_the_caller_of_a_lazy_plt_entry(signalled: Walked) -> None:
    """It drops the expression: the rule of the first entry stays in force for all, and is 16 bytes off before push."""
    for stop in stops_of(signalled, "plt")[:2]:
        frames = signalled.walk(stop, signalled.theirs)
        assert frames[1].pc == stop.frames[2]["rip"]


@ARM64_TOOLS
def test_arm64_crash_below_libc_and_libstdcpp(arm64: Walked) -> None:
    (stop,) = stops_of(arm64, "crash")
    frames = arm64.walk(stop, arm64.ours)
    is_the_truth(ARM64, stop, frames)
    assert len(frames) >= 16
    assert frames == arm64.walk(stop, arm64.theirs)


@AMD64_TOOLS
def test_every_instruction_from_a_prologue_into_the_resolver(signalled: Walked) -> None:
    """A prologue, a lazy PLT entry, the PLT's first entry, and ld.so: its trampoline realigns the stack and bases the
    CFA on rbx, the function that it calls saves all registers."""
    stepped = stops_of(signalled, "step")
    assert len({stop.frames[0]["rip"] for stop in stepped}) >= 60
    modules = set()
    for stop in stepped:
        assert len(stop.frames) >= 8
        frames = signalled.walk(stop, signalled.ours)
        is_the_truth(AMD64, stop, frames)
        modules.add(frames[0].module)
    assert modules == {"crashing", "ld-linux-x86-64.so.2"}


@ARM64_TOOLS
def test_arm64_every_instruction_of_a_prologue(arm64: Walked) -> None:
    """Before and after paciasp, and as registers are stored."""
    stepped = stops_of(arm64, "step")
    assert len(stepped) == 12
    for stop in stepped:
        assert len(stop.frames) >= 8
        is_the_truth(ARM64, stop, arm64.walk(stop, arm64.ours))


@ARM64_TOOLS
def test_arm64_signed_return_addresses(arm64: Walked, arm64_program: Path) -> None:
    """The same program on a processor that signs: the walker strips the signatures."""
    (signed,) = stops(ARM64, arm64_program, cpu="max")
    (plain,) = stops_of(arm64, "crash")
    assert signed.state.modules == plain.state.modules
    frames = arm64.walk(signed, arm64.ours)
    assert [frame.pc for frame in frames] == [frame["pc"] for frame in plain.frames]
    assert {frame.found_by for frame in frames[1:]} == {BY_CFI}
    stack = signed.state.stack
    words = {int.from_bytes(stack[at : at + 8], "little") for at in range(0, len(stack) - 7, 8)}
    mask = (1 << 48) - 1
    on_stack = {word & mask: word for word in words if word & mask in {frame.pc for frame in frames}}
    assert sum(word > mask for word in on_stack.values()) >= 10


@ARM64_TOOLS
def test_dump_syms_says_nothing_of_a_restored_return_address() -> None:
    """`.ra: .ra` has no value on machines with a link register; ours names the register."""
    path = next(oracle_root("sid-arm64").glob("usr/lib/*/libc.so.6"))
    theirs = [line for line in cfi_lines(dump_syms(path)) if ".ra: .ra" in line]
    assert len(theirs) > 1000
    assert ".ra: .ra" not in our_symbols(path)


# --- the file's header ------------------------------------------------------------------------------------------------


# It has one name for 32-bit and 64-bit RISC-V, does not know LoongArch, and crashes on s390x and SPARC.
NOT_BY_DUMP_SYMS = ("sid-riscv64", "sid-s390x", "sid-loong64", "sid-sparc64")


@pytest.mark.oracle("npm", *NAMED_LIBRARIES)
@pytest.mark.parametrize("suite", [suite for suite in NAMED_LIBRARIES if suite not in NOT_BY_DUMP_SYMS])
def test_module_and_code_id_are_dump_syms(suite: str) -> None:
    head = our_symbols(libc(suite)).splitlines()[:2]
    assert head == dump_syms(libc(suite), "-i").splitlines()


@pytest.mark.oracle("npm")
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_names_are_at_all_addresses_where_dump_syms_has_some(path: str) -> None:
    """Of several names at an address it may take another; it does not name functions chosen by an IFUNC."""
    ours, theirs = (
        {
            line.removeprefix("PUBLIC ").removeprefix("m ").split()[0]
            for line in text.splitlines()
            if line[:6] == "PUBLIC"
        }
        for text in (our_symbols(Path(path)), dump_syms(Path(path)))
    )
    assert ours >= theirs
