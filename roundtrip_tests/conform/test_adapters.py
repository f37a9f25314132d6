"""Readers that nobody here wrote pass the corpus, but for faults that the manual names (docs/commands/conform.md)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

import pytest
from unwindkit.conform.report import report_text
from unwindkit.conform.run import conform
from unwindkit.corpus.formats import Options, format_named
from unwindkit.testing import Feature

from ..support.judges.drawn_frames import PYELFTOOLS_CANNOT, readelf_cannot
from ..support.oracles import LIBSFRAME, oracle_command, oracle_root

COUNT = 24
READELF_CANNOT = frozenset({"auxiliary-header", "gaps", "offset-size", "offset-count", "fre-len"})
LIBSFRAME_CANNOT = frozenset({"auxiliary-header", "gaps", "unsorted", "section-relative"})

LLVM_LINES_CANNOT = frozenset({"wide-column", "short-opcode-base"})


def report(adapter: str, arguments: Sequence[object], form: str, options: Options, *, raw: bool) -> str:
    command = [sys.executable, "-m", f"roundtrip_tests.adapters.{adapter}", *map(str, arguments)]
    return report_text(conform(command, [form], COUNT, options, raw=raw, shrinks=0))


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["sframe-v2", "sframe-v3"])
def test_readelf(form: str) -> None:
    text = report("readelf_sframe", oracle_command("readelf"), form, Options(without=READELF_CANNOT), raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


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
    options = without(form, cannot, "negate-ra-state", "negate-ra-state-with-pc")
    text = report("readelf_frames", oracle_command("readelf"), form, options, raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.parametrize("form", ["eh-frame", "debug-frame"])
def test_pyelftools(form: str) -> None:
    """Its rows do not tell which return addresses are signed."""
    options = without(form, PYELFTOOLS_CANNOT, "negate-ra-state")
    text = report("pyelftools_frames", [], form, options, raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.oracle("sid-llvm")
@pytest.mark.parametrize("form", ["debug-line-2", "debug-line-3", "debug-line-4", "debug-line-5"])
def test_llvm_lines(form: str) -> None:
    options = Options(without=LLVM_LINES_CANNOT, valid_only=True)
    text = report("llvm_lines", oracle_command("llvm-dwarfdump-22", "sid-llvm"), form, options, raw=False)
    assert text == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.parametrize("form", ["sframe-v1", "eh-frame", "eh-frame-hdr", "debug-line-5", "breakpad"])
def test_our_own(form: str) -> None:
    assert report("unwindkit_find", [], form, Options(), raw=True) == f"{form}: {COUNT} of {COUNT} cases pass"
