"""A sample of random layouts, rewritten in each way and run; and that what is wrong would be seen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import unwindkit

from ..support.oracles import absent
from . import rewrite
from .__main__ import one
from .layout import draw
from .rewrite import WAYS, Outcome, answer, rewritten

# Layouts that can be built, run and rewritten: of each linker, static and not.
BUILT = (8, 11, 16, 17, 18, 31)


def test_a_layout_is_that_of_its_seed() -> None:
    assert draw("0 1") == draw("0 1")
    assert len({str(draw(f"0 {number}")) for number in range(50)}) == 50


@pytest.mark.oracle("eu-elflint", "gold", "ld.lld", "mold", "patchelf")
@pytest.mark.parametrize("number", BUILT)
def test_rewritten_programs_run_as_before(number: int) -> None:
    found = one(f"0 {number}")
    assert isinstance(found, dict)
    for way in WAYS:
        assert found[way].wrong == ""
    assert all(found[way].refused is None for way in ("sframe", "sframe twice", "sframe removed", "eh_frame"))


def test_wrong_results_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("gcc") is None or shutil.which("eu-elflint") is None:
        absent("no gcc or eu-elflint")
    path = draw("0 11").build(tmp_path)
    assert path is not None
    assert answer(path)[0] == rewrite.EXIT_STATUS

    def wrong_bytes(source: Path, out: Path) -> None:
        unwindkit.write_sframe(source, out)
        (header,) = unwindkit.open_elf(out).named(".sframe")
        data = bytearray(out.read_bytes())
        data[header.file_offset : header.file_offset + 8] = bytes(8)
        out.write_bytes(data)

    def other_program(source: Path, out: Path) -> None:
        shutil.copy("/bin/true", out)

    def wrong_rows(source: Path, out: Path) -> None:
        raise unwindkit.BuildError(".sframe", None, "check", "differs from .eh_frame at 0x1..0x2")

    for write, says in ((wrong_bytes, "the program finds"), (other_program, "exits with 0"), (wrong_rows, ".sframe")):
        monkeypatch.setitem(WAYS, "sframe", write)
        assert rewritten(path, "sframe").wrong.startswith(says)
    monkeypatch.undo()
    assert rewritten(path, "sframe") == Outcome(None)
