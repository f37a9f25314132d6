"""Readers that nobody here wrote pass the corpus, but for faults that the manual names (docs/commands/conform.md)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from unwindkit.conform.report import report_text
from unwindkit.converters.arch.table import ARCHITECTURES, unwind_registers
from unwindkit.corpus.formats import FORMATS

from ..adapters.protocol import FP
from ..known_faults import READERS, KnownReader

COUNT = 24
# The oracle that each reader is from; pyelftools is installed with the tests.
ORACLES: Mapping[str, tuple[str, ...]] = {
    "readelf-2.44": ("trixie",),
    "symbolic": ("symbolic",),
    "elfutils": ("eu-readelf",),  # a program of the package that has libdw
    **dict.fromkeys(("llvm-sframe", "llvm-lines", "llvm-frames"), ("sid-llvm",)),
    **dict.fromkeys(("readelf-sframe", "libsframe", "readelf-frames"), ()),
}


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.oracle(*ORACLES[name])] if name in ORACLES else []


@pytest.mark.parametrize(
    ("name", "form"),
    [pytest.param(name, form, marks=marks(name)) for name, reader in READERS.items() for form in reader.cannot],
)
def test_a_reader_passes_without_its_faults(name: str, form: str) -> None:
    assert report_text(READERS[name].ask(form, COUNT)) == f"{form}: {COUNT} of {COUNT} cases pass"


@pytest.mark.parametrize("form", ["eh-frame", "debug-frame"])
def test_a_fault_is_shown(form: str) -> None:
    """DW_CFA_GNU_window_save, for pyelftools an instruction that does nothing."""
    others = READERS["pyelftools"].cannot[form] | (ARCHITECTURES.keys() - {"sparc64"})
    result = KnownReader("pyelftools_frames", tuple, {form: others}).ask(form, 12, "window-save")
    assert result.failed[form] > 0
    assert result.features[f"{form}/window-save"] >= result.failed[form]


def test_names_of_faults() -> None:
    for reader in READERS.values():
        for form, cannot in reader.cannot.items():
            assert cannot <= {*FORMATS[form].features, *FORMATS[form].faults, *ARCHITECTURES}


@pytest.mark.parametrize("name", FP)
def test_a_wrong_frame_pointer_in_an_adapter_is_noticed(name: str) -> None:
    """The numbers of the adapters and those of the corpus are two lists."""
    assert unwind_registers(ARCHITECTURES[name]).fp == FP[name]


@pytest.mark.parametrize("form", ["sframe-v1", "eh-frame", "eh-frame-hdr", "debug-line-5", "breakpad"])
def test_our_own(form: str) -> None:
    ours = KnownReader("unwindkit_find", tuple, {form: frozenset()}, raw=True)
    assert report_text(ours.ask(form, COUNT)) == f"{form}: {COUNT} of {COUNT} cases pass"
