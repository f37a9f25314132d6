"""A corpus as files: each case as an ELF file or as the bytes of its section, with a JSON file beside it."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from ..schemas.arguments import check_size, checked
from .case import Case
from .elf import ElfSection, build_elf
from .formats import Format, Options, format_named, make_case

_PAGE = 1  # no segments: the files are for readers of sections
_CHUNK = 250


@checked(case=Case)
def file_bytes(case: Case, *, raw: bool = False) -> bytes:
    """The file that a reader is given: with `raw`, the bytes of the section."""
    if raw or case.is_text:
        return case.data
    sections = [ElfSection(case.section, case.data, case.address or None)]
    sections += [ElfSection(name, data, address) for name, data, address in case.other_sections]
    return build_elf(case.architecture, case.byte_order, sections, page=_PAGE)


def file_suffix(case: Case, *, raw: bool) -> str:
    """Of the file's name, without a dot."""
    return "sym" if case.is_text else "bin" if raw else "elf"


def case_name(form: Format, number: int) -> str:
    """The name of a case, and of its files without a suffix."""
    return f"{form.name}-{number:06d}"


def write_corpus(
    folder: str | Path,
    formats: Sequence[str],
    count: int,
    options: Options = Options(),  # noqa: B008 - frozen
    *,
    raw: bool = False,
    jobs: int = 1,
) -> int:
    """Write `count` cases of each format into a folder, which is made. Returns the number of cases.

    Raises BuildError for an unknown format, and OSError."""
    check_size(count, "count")
    target = Path(folder)
    chosen = [format_named(name) for name in formats]
    target.mkdir(parents=True, exist_ok=True)
    options = options.for_files(raw=raw)
    parts = [
        (target, form.name, low, min(low + _CHUNK, count), options, raw)
        for form in chosen
        for low in range(0, count, _CHUNK)
    ]
    if jobs > 1 and len(parts) > 1:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            return sum(pool.map(_write_part, parts))
    return sum(map(_write_part, parts))


def _write_part(part: tuple[Path, str, int, int, Options, bool]) -> int:
    folder, name, low, high, options, raw = part
    form = format_named(name)
    for number in range(low, high):
        case = make_case(form, number, options)
        title = case_name(form, number)
        file = f"{title}.{file_suffix(case, raw=raw)}"
        (folder / file).write_bytes(file_bytes(case, raw=raw))
        (folder / f"{title}.json").write_text(json_text(case.to_json(title, file)), encoding="utf-8")
    return high - low


def json_text(value: dict[str, Any]) -> str:
    """The text of a case's JSON file."""
    return json.dumps(value, indent=1) + "\n"
