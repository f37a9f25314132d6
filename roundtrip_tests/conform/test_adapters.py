"""Readers that nobody here wrote pass the corpus, but for faults that the manual names (docs/commands/conform.md)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from ctypes.util import find_library

import pytest
from unwindkit.conform.report import report_text
from unwindkit.conform.run import conform
from unwindkit.converters.arch.table import ARCHITECTURES, unwind_registers
from unwindkit.corpus.formats import Options, format_named
from unwindkit.testing import Feature

from ..adapters.protocol import FP
from ..support.judges.drawn_frames import PYELFTOOLS_CANNOT, readelf_cannot
from ..support.oracles import LIBSFRAME, oracle_command, oracle_root

COUNT = 24


def names(text: str) -> frozenset[str]:
    """What `--without` leaves out."""
    return frozenset(text.split())


SFRAME_CANNOT = frozenset({"auxiliary-header", "gaps", "shared-fres"})
UNCHECKED = frozenset({"abi", "num-fdes", "freoff", "fre-len", "start-fre-off", "offset-size", "offset-count"})
READELF_CANNOT = SFRAME_CANNOT | UNCHECKED
LIBSFRAME_CANNOT = SFRAME_CANNOT | {"unsorted", "section-relative"}
LLVM_SFRAME_CANNOT = frozenset({"s390x", "auxiliary-header", "gaps", "fre-len", "freoff"})
LLVM_LINES_CANNOT = frozenset({"wide-column", "short-opcode-base"})
# The first line of each: the machines whose registers the adapter does not know.
LLVM_FRAMES_CANNOT = names("""
    x86 x32 arm mips mips64 ppc ppc64 riscv32
    advance-loc8 negative-offset-extended set-loc negate-ra-state-with-pc old-augmentation address-size
    extra-augmentation-data aligned-pointer aligned-address signed-pointer other-return-column no-cfa cie-version
""")
LLVM_CANNOT_IN = {"eh-frame": set[str](), "debug-frame": {"cie-after-fde", "augmented-debug-frame"}}
LIBDW_CANNOT = names("""
    mips mips64 loongarch64
    x86 x32 arm ppc riscv32 dwarf64 address-size signed-pointer aligned-pointer leb128-pointer leb128-address
    old-augmentation negate-ra-state negate-ra-state-with-pc window-save no-cfa expression cfa-expression
    augmentation operand
""")
SYMBOLIC_CANNOT = names("""
    x32 mips mips64 riscv32 riscv64 s390x loongarch64 sparc64
    advance-loc8 negative-offset-extended restore undefined register nested-states expression cfa-expression no-cfa
    negate-ra-state negate-ra-state-with-pc pauth-b-key memory-tagging old-augmentation version-4
    aligned-pointer aligned-address signed-pointer leb128-pointer leb128-address no-lsda
    other-return-column other-cfa-register opcode
""")


def report(adapter: str, arguments: Sequence[object], form: str, options: Options, *, raw: bool) -> str:
    command = [sys.executable, "-m", f"roundtrip_tests.adapters.{adapter}", *map(str, arguments)]
    return report_text(conform(command, [form], COUNT, options, raw=raw, shrinks=0))


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["sframe-v2", "sframe-v3"])
def test_readelf(form: str) -> None:
    text = report("readelf_sframe", oracle_command("readelf"), form, Options(without=READELF_CANNOT), raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.oracle("trixie")
def test_readelf_of_binutils_2_44() -> None:
    """It does not know errata 1 of version 2, s390x and version 3."""
    options = Options(without=READELF_CANNOT | {"field-relative", "s390x"})
    text = report("readelf_sframe", oracle_command("readelf", "trixie"), "sframe-v2", options, raw=False)
    assert text == f"sframe-v2: {COUNT} of {COUNT} cases pass"


@pytest.mark.oracle("sid-llvm")
def test_llvm_sframe() -> None:
    options = Options(without=LLVM_SFRAME_CANNOT)
    text = report("llvm_sframe", oracle_command("llvm-readobj-22", "sid-llvm"), "sframe-v2", options, raw=False)
    assert text == f"sframe-v2: {COUNT} of {COUNT} cases pass"


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["sframe-v2", "sframe-v3"])
def test_libsframe(form: str) -> None:
    options = Options(without=LIBSFRAME_CANNOT, valid_only=True)
    text = report("libsframe", [next(oracle_root().glob(LIBSFRAME))], form, options, raw=True)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


def without(form: str, cannot: Collection[Feature], *further: str) -> Options:
    """Cases of a format of call frame information without some features."""
    names = {feature.name.lower().replace("_", "-") for feature in cannot}
    return Options(without=frozenset(names & set(format_named(form).features) | {*further}))


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["eh-frame", "debug-frame"])
def test_readelf_frames(form: str) -> None:
    """Its column `ra` is also a register of RISC-V; it does not show which return addresses are signed."""
    cannot = readelf_cannot("." + form.replace("-", "_"), "riscv64")
    unchecked = ("cie-version", "augmentation", "address-encoding")
    options = without(form, cannot, "negate-ra-state", "negate-ra-state-with-pc", *unchecked)
    text = report("readelf_frames", oracle_command("readelf"), form, options, raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.parametrize("form", ["eh-frame", "debug-frame"])
def test_pyelftools(form: str) -> None:
    """Its rows do not tell which return addresses are signed."""
    options = without(form, PYELFTOOLS_CANNOT, "negate-ra-state", "cie-version", "augmentation-length")
    text = report("pyelftools_frames", [], form, options, raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.oracle("sid-llvm")
@pytest.mark.parametrize("form", LLVM_CANNOT_IN)
def test_llvm_frames(form: str) -> None:
    options = Options(without=LLVM_FRAMES_CANNOT | LLVM_CANNOT_IN[form])
    text = report("llvm_frames", oracle_command("llvm-dwarfdump-22", "sid-llvm"), form, options, raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.skipif(find_library("dw") is None, reason="no libdw here")
@pytest.mark.parametrize("form", ["eh-frame", "debug-frame"])
def test_libdw(form: str) -> None:
    text = report("libdw_frames", ["libdw.so.1"], form, Options(without=LIBDW_CANNOT), raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.oracle("symbolic")
@pytest.mark.parametrize("form", ["eh-frame", "debug-frame"])
def test_symbolic(form: str) -> None:
    text = report("symbolic_frames", [], form, Options(without=SYMBOLIC_CANNOT), raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.parametrize("name", FP)
def test_a_wrong_frame_pointer_in_an_adapter_is_noticed(name: str) -> None:
    """The numbers of the adapters and those of the corpus are two lists."""
    assert unwind_registers(ARCHITECTURES[name]).fp == FP[name]


@pytest.mark.oracle("sid-llvm")
@pytest.mark.parametrize("form", ["debug-line-2", "debug-line-3", "debug-line-4", "debug-line-5"])
def test_llvm_lines(form: str) -> None:
    options = Options(without=LLVM_LINES_CANNOT, valid_only=True)
    text = report("llvm_lines", oracle_command("llvm-dwarfdump-22", "sid-llvm"), form, options, raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.parametrize("form", ["sframe-v1", "eh-frame", "eh-frame-hdr", "debug-line-5", "breakpad"])
def test_our_own(form: str) -> None:
    assert report("unwindkit_find", [], form, Options(), raw=True) == f"{form}: {COUNT} of {COUNT} cases pass"
