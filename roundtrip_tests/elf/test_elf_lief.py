"""Results of lief that cannot be used are refused, each with its reason; the destination stays as it was.

Strategy: lief's own functions are replaced by ones that give up, or whose result is changed after it is written.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lief
import pytest
from unwindkit.schemas.elf.numbers import SHF
from unwindkit.schemas.section import BuildError
from unwindkit.writers.elf.add import LIEF, write_by_engines
from unwindkit.writers.elf.engines.plan import FollowingSection

from ..support.handmade import place
from ..support.programs.elf_programs import DEBUG, Built, in_header, in_segment, sframe


class Altered:
    """A program that lief has read, with some of its methods replaced."""

    def __init__(self, binary: lief.ELF.Binary, **methods: Callable[..., Any]) -> None:
        self.binary, self.methods = binary, methods

    def __getattr__(self, name: str) -> Any:
        return self.methods.get(name) or getattr(self.binary, name)


def refused(before: Path, folder: Path) -> str:
    """The reason; nothing may be written."""
    with pytest.raises(BuildError) as caught:
        write_by_engines(before, folder / "out", sframe(), (LIEF,))
    assert list(folder.iterdir()) == []
    return f"{caught.value.record}: {caught.value.reason}"


def altering(monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]) -> None:
    """Let `change` have each file that lief writes."""
    parse = lief.ELF.parse

    def altered(*arguments: Any) -> Altered:
        binary = parse(*arguments)
        assert binary is not None

        def write(path: str, config: Any) -> None:
            binary.write(path, config)
            change(Path(path))

        return Altered(binary, write=write)

    monkeypatch.setattr(lief.ELF, "parse", altered)


def edit(place: Callable[[Path], int], form: str, value: int) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), struct.pack(f"<{form}", value), place(path))

    return change


def test_without_lief_that_engine_alone_is_refused(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lief", None)
    assert refused(built(DEBUG), tmp_path) == "writer: lief is not installed (pip install lief)"


def test_a_file_that_lief_cannot_read(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lief.ELF, "parse", lambda *_: None)
    assert refused(built(DEBUG), tmp_path) == "ELF: lief cannot read the file"


def test_a_segment_that_lief_does_not_add(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = lief.ELF.parse

    def altered(*arguments: Any) -> Altered:
        binary = parse(*arguments)
        assert binary is not None
        return Altered(binary, add=lambda *_, **__: None)

    monkeypatch.setattr(lief.ELF, "parse", altered)
    assert refused(built(DEBUG), tmp_path) == "PT_LOAD: lief cannot add a loadable segment"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda path: path.write_bytes(b"text"),
            "e_ident: lief's result is not an ELF file: e_ident: is not an ELF file",
        ),
        (
            edit(in_segment("PT_LOAD", 16, 1), "Q", 0x9000),
            "PT_LOAD: lief did not keep the loadable segments where they were",
        ),
        (edit(in_header(".comment", 0), "I", 0), "section header: lief lost the section .comment"),
        (edit(in_header(".sframe", 16), "Q", 0), "section header: lief lost the new section"),
    ],
)
def test_a_result_of_lief_that_cannot_be_used(
    change: Callable[[Path], object], reason: str, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altering(monkeypatch, change)
    assert refused(built(DEBUG), tmp_path) == reason


FOLLOWING = FollowingSection(".following", 1, 0x6474E550, 8, lambda _address, _first: bytes(8), 4)


@pytest.mark.parametrize(
    "change", [edit(in_header(".following", 0), "I", 0), edit(in_header(".following", 8), "Q", SHF.ALLOC)]
)
def test_a_following_section_that_lief_loses(
    change: Callable[[Path], object], built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header has no name, or is one of a loaded section, which must have been in the file."""
    altering(monkeypatch, change)
    pair = replace(sframe(), following=FOLLOWING)
    with pytest.raises(BuildError) as caught:
        write_by_engines(built(DEBUG), tmp_path / "out", pair, (LIEF,))
    assert place(caught.value) == (".following", None, "section header")
    assert caught.value.reason == "lief lost the new section"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_name_is_not_utf_8(built: Built, tmp_path: Path) -> None:
    folder = tmp_path / "\udcff"
    folder.mkdir()
    assert refused(built(DEBUG), folder) == ": the directory's path is not UTF-8, which lief needs"


def test_lief_s_result_is_used_if_nothing_is_changed(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[Path] = []
    altering(monkeypatch, changed.append)
    report = write_by_engines(built(DEBUG), tmp_path / "out", sframe(), (LIEF,))
    assert (len(changed), report.engine) == (1, LIEF)
    assert struct.pack("<Q", report.address) in (tmp_path / "out").read_bytes()
