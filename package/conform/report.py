"""The result of a run as text, as JSON, and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..corpus.write import file_bytes, file_suffix, json_text
from .run import Failure, Result, file_name

_ROW_BYTES = 32


def _ordered(result: Result) -> list[Failure]:
    return sorted(result.failures.values(), key=lambda one: (one.format, -one.cases, one.field, one.kind))


def report_text(result: Result) -> str:
    """A line per format; then, per kind of failure, how many cases, the smallest one and its bytes."""
    lines = []
    for form, asked in result.asked.items():
        lines.append(f"{form}: {asked - result.failed[form]:,} of {asked:,} cases pass")
    for failure in _ordered(result):
        lines += ["", *_failure_lines(failure, result)]
    return "\n".join(lines)


def _failure_lines(failure: Failure, result: Result) -> list[str]:
    case, difference = failure.case, failure.difference
    if case is None or difference is None:
        return []
    lines = [
        f"{failure.format}: {failure.field}: {failure.kind}: {failure.cases:,} of {result.asked[failure.format]:,}"
    ]
    common = features_in_all(failure, result)
    if common:
        lines.append(f"  all of them have: {', '.join(common)}")
    if case.fault is not None:
        fault = case.fault
        lines.append(f"  {fault.field}, byte {fault.offset:#x}: {fault.stored:#x}: {fault.reason}")
    kind = f"{case.architecture.name}, {case.byte_order}-endian, {case.section} at {case.address:#x}"
    lines.append(f"  smallest: {kind}, {len(case.data)} bytes")
    lines.append(f"  at {difference.pc:#x}: expected {difference.expected}, found {difference.found}")
    lines += [f"  {one}" for one in failure.bytes_named]
    for start in range(0, len(case.data), _ROW_BYTES):
        lines.append(f"    {start:04x}  {case.data[start : start + _ROW_BYTES].hex(' ', 4)}")
    return lines


def features_in_all(failure: Failure, result: Result) -> list[str]:
    """The features that every failing case has, and not every case."""
    asked = result.asked[failure.format]
    return sorted(
        one
        for one, count in failure.features.items()
        if count == failure.cases and result.features[f"{failure.format}/{one}"] < asked
    )


def report_json(result: Result) -> dict[str, Any]:
    """The same as an object."""
    return {
        "formats": {form: {"cases": asked, "failed": result.failed[form]} for form, asked in result.asked.items()},
        "failures": [_failure_json(one, result) for one in _ordered(result)],
    }


def _failure_json(failure: Failure, result: Result) -> dict[str, Any]:
    case, difference = failure.case, failure.difference
    assert case is not None
    assert difference is not None
    return {
        "format": failure.format,
        "field": failure.field,
        "kind": failure.kind,
        "cases": failure.cases,
        "features": features_in_all(failure, result),
        "pc": hex(difference.pc),
        "expected": difference.expected,
        "found": difference.found,
        "bytes": list(failure.bytes_named),
        "data": case.data.hex(),
        "case": case.to_json(file_name(failure), ""),
    }


def save_cases(result: Result, folder: str | Path, *, raw: bool) -> None:
    """Write the smallest failing case of each kind, and its answers. Raises OSError."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for failure in _ordered(result):
        if failure.case is None:
            continue
        title = "-".join(f"{failure.format} {failure.field} {failure.kind}".split())
        file = f"{title}.{file_suffix(failure.case, raw=raw)}"
        (target / file).write_bytes(file_bytes(failure.case, raw=raw))
        (target / f"{title}.json").write_text(json_text(failure.case.to_json(title, file)), encoding="utf-8")
