"""`.sframe` in relocatable files and in archives of them.

Strategy: one function converts and checks the bytes of one file. In an archive it runs on every relocatable member
with something to convert; all other members are copied. An error in one member is an error of the archive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..converters.elf.admission import refuse_module
from ..converters.elf.image import ElfImage, elf_of_bytes, open_elf
from ..converters.files.object_sframe import object_sframe
from ..converters.files.read_elf import ALL, DIALECTS
from ..converters.refusals import RefusedCount
from ..converters.sframe.fres import abi_of
from ..converters.sframe.write import WRITTEN
from ..schemas.section import BuildError, FormatError, ParseError
from ..schemas.sframe import SECTION_ALIGNMENT, SHT_GNU_SFRAME
from ..writers.archive import build_archive, parse_archive
from ..writers.elf.checks.object import ExpectedRelocated, check_object
from ..writers.elf.object import Place, RelocatedSection, with_section, without_section
from ..writers.elf.remove import RemoveReport
from ..writers.files import write_as
from .code_coverage import UnreadSection
from .file_kinds import is_archive_file, is_relocatable
from .sframe_report import (
    Choices,
    Converted,
    SframeReport,
    refuse_without_code,
    report_of,
    signature_warnings,
    source_of,
)

if TYPE_CHECKING:
    from ..writers.elf.add import Writer

SECTION = ".sframe"
RELOCATABLE = "with relocations, from which the linker computes the start addresses"
LLVM_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
OUTDATED = "GNU ld 2.46 and later ignore SFrame V2 in relocatable files: they merge V3"

_Report = TypeVar("_Report")
_Job = Callable[[ElfImage], tuple[bytes, _Report]]


def write_object_sframe(
    path: Path,
    out_path: Path,
    choices: Choices,
    writer: Writer,
    preserve_dates: bool,
) -> SframeReport:
    """`write_sframe` for a relocatable file or an archive."""
    if writer == "lief":
        raise BuildError("", None, "writer", "lief is not used for relocatable files")

    def converted(image: ElfImage) -> tuple[bytes, SframeReport]:
        return _with_sframe(image, str(out_path), choices)

    wanted = tuple(DIALECTS) if choices.section == ALL else (choices.section,)
    missing = "call frame information" if choices.section == ALL else choices.section

    def reason_to_keep(image: ElfImage) -> str:
        has_any = any(section.size for name in wanted for section in image.named(name))
        return "" if has_any else f"no {missing}"

    written, reports, kept = _done(path, out_path, converted, reason_to_keep)
    if not reports:
        reason = f"no member of the archive is a relocatable file with {missing}"
        raise ParseError("", None, "", reason)
    report = _summed(path, reports) if is_archive_file(path) else reports[0]
    outdated = (OUTDATED,) * (choices.version < max(WRITTEN))
    warnings = (*signature_warnings(path), *outdated)
    write_as(path, out_path, written, preserve_dates)
    return replace(report, kept=kept, warnings=warnings)


def remove_object_sframe(path: Path, out_path: Path, preserve_dates: bool) -> RemoveReport:
    """`remove_sframe` for a relocatable file or an archive."""
    written, removed, _ = _done(path, out_path, _without_sframe, _no_sframe)
    sizes = tuple(size for sizes in removed for size in sizes)
    if not sizes:
        raise ParseError(SECTION, None, "", "the file has no such section")
    smaller = path.stat().st_size - len(written)
    write_as(path, out_path, written, preserve_dates)
    return RemoveReport(sizes, 0, smaller)


def _done(
    path: Path, out_path: Path, job: _Job[_Report], reason_to_keep: Callable[[ElfImage], str]
) -> tuple[bytes, list[_Report], tuple[str, ...]]:
    """The bytes to write; the reports of `job` for the file or its members; the unchanged members, with the reason."""
    if out_path.exists() and not out_path.is_file():
        raise BuildError("", None, "", f"{out_path.resolve()} is not a regular file")
    if is_archive_file(path):
        return _done_with_members(path.read_bytes(), job, reason_to_keep)
    written, report = job(open_elf(path))
    return written, [report], ()


def _done_with_members(
    data: bytes, job: _Job[_Report], reason_to_keep: Callable[[ElfImage], str]
) -> tuple[bytes, list[_Report], tuple[str, ...]]:
    members = parse_archive(data)
    contents: list[bytes | memoryview] = []
    reports: list[_Report] = []
    kept: list[str] = []
    for member in members:
        content: bytes | memoryview = member.data
        reason = "" if member.is_table else _foreign(member.data)
        if not member.is_table and not reason:
            try:
                image = elf_of_bytes(member.name, member.data)
                reason = reason_to_keep(image)
                if not reason:
                    content, report = job(image)
                    reports.append(report)
            except FormatError as error:
                raise type(error)("", None, f"member {member.name}", str(error)) from error
        contents.append(content)
        kept += [f"{member.name}: {reason}"] * bool(reason)
    return build_archive(members, contents), reports, tuple(kept)


def _foreign(data: memoryview) -> str:
    """What a member is if it is not a relocatable file; "" if it is."""
    header = bytes(data[:64])
    if is_relocatable(header):
        return ""
    return "LLVM bitcode" if header.startswith(LLVM_BITCODE) else "not a relocatable ELF file"


def _no_sframe(image: ElfImage) -> str:
    return "" if image.named(SECTION) else f"no {SECTION}"


def _with_sframe(image: ElfImage, output: str, choices: Choices) -> tuple[bytes, SframeReport]:
    """The bytes of one file with its section, checked."""
    abi_of(image.architecture)
    refuse_module(image)
    refuse_without_code(image)
    made, refusals = object_sframe(
        image,
        choices.version,
        choices.compact,
        choices.max_rows,
        choices.section,
        choices.pcrel,
        choices.frame_pointer,
    )
    places = tuple(map(Place, made.field.tolist(), made.section.tolist(), made.offset.tolist()))
    shape = (SECTION, SHT_GNU_SFRAME, made.data, SECTION_ALIGNMENT, made.relocation_type, places)
    data = bytes(image.data)
    written, replaced = with_section(data, RelocatedSection(*shape))
    _refuse_faulty(check_object(data, written, SECTION, ExpectedRelocated(*shape)))
    made_from = Converted(made.laid, source_of(made.frames, len(made.frames.table)), made.encoded, refusals)
    report = report_of(made_from, output, 0)
    return written, replace(report, writer=RELOCATABLE, replaced_bytes=replaced)


def _without_sframe(image: ElfImage) -> tuple[bytes, tuple[int, ...]]:
    """The bytes of one file without its sections, checked, and the sizes of these."""
    refuse_module(image)
    data = bytes(image.data)
    written, removed = without_section(data, SECTION)
    _refuse_faulty(check_object(data, written, SECTION, None))
    return written, removed


def _refuse_faulty(faults: tuple[str, ...]) -> None:
    if faults:
        raise BuildError(SECTION, None, "check", f"faults found: {'; '.join(faults)}")


SUMS = (
    *("functions", "converted", "partial", "code_bytes", "covered_bytes", "described_bytes", "outside_code"),
    *("cfi_bytes", "sframe_bytes", "fdes", "fres", "replaced_bytes"),
)


def _summed(path: Path, reports: Sequence[SframeReport]) -> SframeReport:
    """One report for all members of an archive."""
    ranges, sizes, cfi_sizes = Counter[str](), Counter[str](), Counter[str]()
    unread: dict[str, UnreadSection] = {}
    for report in reports:
        for name, count in report.refused.items():
            ranges[name] += count.ranges
            sizes[name] += count.bytes
        cfi_sizes.update(report.cfi_sizes)
        for name, section in report.unread.items():
            code_bytes = section.code_bytes + (unread[name].code_bytes if name in unread else 0)
            unread[name] = replace(section, code_bytes=code_bytes)
    sums = {name: sum((getattr(report, name) for report in reports[1:]), getattr(reports[0], name)) for name in SUMS}
    return replace(
        reports[0],
        file=str(path),
        refused={name: RefusedCount(ranges[name], sizes[name]) for name in ranges},
        cfi_section=" and ".join(sorted(cfi_sizes, reverse=True)),
        cfi_sizes=dict(cfi_sizes),
        unread=unread,
        members=len(reports),
        **sums,
    )
