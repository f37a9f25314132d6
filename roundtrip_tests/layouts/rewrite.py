"""A program rewritten in each way: what became of it, and what is wrong with it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import unwindkit
from unwindkit import DebugFiles, FormatError
from unwindkit.jobs.sframe_check import check_sframe

from ..support.made.elf_matrix import complaints
from ..support.programs.elf_programs import headers, run

ALONE = DebugFiles(links=False)
SHF_TLS = 0x400
EXIT_STATUS = 3  # of the program


def _sframe(writer: unwindkit.Writer, version: int) -> Callable[[Path, Path], object]:
    def write(path: Path, out: Path) -> None:
        unwindkit.write_sframe(path, out, version=version, writer=writer, debug=ALONE)
        check_sframe(out, ALONE)

    return write


def _removed(path: Path, out: Path) -> None:
    unwindkit.write_sframe(path, out, debug=ALONE)
    unwindkit.remove_sframe(out, out)


def _twice(path: Path, out: Path) -> None:
    """A larger section instead of the first."""
    unwindkit.write_sframe(path, out, debug=ALONE)
    unwindkit.write_sframe(out, out, version=3, compact="none", debug=ALONE)


def _eh_frame(path: Path, out: Path) -> None:
    unwindkit.write_eh_frame(path, out, unwindkit.read_elf(path))


WAYS: dict[str, Callable[[Path, Path], object]] = {
    "sframe": _sframe("auto", 2),
    "sframe, native": _sframe("native", 3),
    "sframe, lief": _sframe("lief", 2),
    "sframe twice": _twice,
    "sframe removed": _removed,
    "eh_frame": _eh_frame,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a program in one way: why it is `refused`, or else what is `wrong` with it, "" if nothing."""

    refused: str | None
    wrong: str = ""


def answer(path: Path) -> tuple[int, list[str], list[str]]:
    """The exit status of a program, what it prints, and what it prints about its PT_GNU_SFRAME."""
    status, text = run(path, "-a", "option", "operand")
    lines = text.replace(str(path), "PROGRAM").splitlines()
    said = [one for one in lines if not one.startswith("section ")]
    return status, said, [one for one in lines if one.startswith("section ")]


def rewritten(path: Path, way: str) -> Outcome:
    """Rewrite a program that runs, and run it."""
    out = path.with_suffix(f".{list(WAYS).index(way)}")
    try:
        WAYS[way](path, out)
    except FormatError as error:
        # The check of rows is no refusal.
        is_wrong = error.reason.startswith("differs from")
        return Outcome(None, str(error)) if is_wrong else Outcome(error.reason)
    (status, said, _), (new_status, new_said, mapped) = answer(path), answer(out)
    if (status, said) != (new_status, new_said):
        return Outcome(None, f"exits with {new_status} and prints {new_said}, before {status} and {said}")
    more = complaints(out) - complaints(path)
    # crtstuff's symbols name the first and the last byte of `.eh_frame` as the linker left it.
    known = ["st_value out of bounds"] * (way == "eh_frame")
    # It takes the file offset of a section without bytes for a place in the file.
    known += ["has type NOBITS but is read from the file"] * (not _stored_without_bytes(out))
    if more := {one for one in more if not any(text in one for text in known)}:
        return Outcome(None, f"eu-elflint: {sorted(more)}")
    return Outcome(None, "" if way in ("sframe removed", "eh_frame") else _wrongly_mapped(out, mapped))


def _stored_without_bytes(path: Path) -> list[str]:
    """The NOBITS sections at whose addresses a segment has bytes of the file."""
    segments, sections = headers(path)
    loads = [(one["p_vaddr"], one["p_vaddr"] + one["p_filesz"]) for one in segments if one["p_type"] == "PT_LOAD"]
    return [
        name
        for name, one in sections
        if one["sh_type"] == "SHT_NOBITS" and not one["sh_flags"] & SHF_TLS
        if any(start < one["sh_addr"] + one["sh_size"] and one["sh_addr"] < end for start, end in loads)
    ]


def _wrongly_mapped(path: Path, said: list[str]) -> str:
    """What is wrong with the bytes that a program finds by PT_GNU_SFRAME; "" if nothing."""
    image = unwindkit.open_elf(path)
    (header,) = image.named(".sframe")
    (first,) = struct.unpack_from("<Q", path.read_bytes(), header.file_offset)
    wanted = [f"section {header.address:#x} {first:#x}"]
    return "" if said == wanted else f"the program finds {said}, not {wanted}"
