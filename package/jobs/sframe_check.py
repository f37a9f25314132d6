"""Whether a file can have an `.sframe`, and whether one that was written is right."""

from __future__ import annotations

from pathlib import Path

from ..converters.elf.debug_files import DebugFiles, with_debug_file
from ..converters.elf.image import open_elf
from ..converters.files.read_elf import ALL, DIALECTS
from ..schemas.section import BuildError
from .file_kinds import is_linker_input


def why_without_sframe(path: Path, debug: DebugFiles) -> str | None:
    """Why a file can have no `.sframe`: SFrame lacks its architecture, or it lacks call frame information; None if it
    can. Raises OSError, ParseError."""
    if is_linker_input(path):
        return None
    image = with_debug_file(open_elf(path), debug)
    if image.architecture.sframe is None:
        return f"SFrame has no ABI for {image.architecture.name}"
    if all(one.is_nobits or not one.size for name in DIALECTS for one in image.named(name)):
        return "it has no call frame information"
    return None


def check_sframe(path: Path, debug: DebugFiles) -> None:
    """Compare the `.sframe` of a linked file with its call frame information at every PC. Raises BuildError if they
    differ. Relocatable files and archives are not compared: their linker lays them out."""
    if is_linker_input(path):
        return
    from .check import SFRAME, check

    (pair,) = check(path, source=ALL, second_source=SFRAME, debug=debug).pairs
    if not pair.is_equal:
        first = pair.differences[0]
        reason = (
            f"differs from {pair.first.rpartition(': ')[2]} at {first.start:#x}..{first.end:#x} {first.name}".rstrip()
        )
        raise BuildError(".sframe", None, "check", reason)
