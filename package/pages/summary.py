"""The part of a report that needs no script: figures and pictures of each file, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ..converters.files.lint_text import finding_texts
from ..converters.refusals import Reason, RefusedCount
from .frame import shown
from .model import CodeFigures, ReportedFile, SframeCost

MOST_SECTIONS, MOST_RANGES = 12, 40
# The columns of the table of functions; those of numbers; what their headings do not say.
SHARED = "<p class=dim>Functions with equal instructions share one run of rows.</p>"
COLUMNS = ("address", "size", "name", "rows", "shared", "sources", "refused", "file")
COUNTS = ("size", "rows", "shared", "file")
EXPLAINED = {
    "shared": "functions with these rows",
    "refused": "what SFrame refuses",
    "sources": "sections that cover it",
}
PARTS = (("good", "rows that SFrame can express"), ("refused-part", "rows that SFrame 2 refuses"))
REST = (("padding", "padding between functions"), ("bare", "no rows"))


def summary(title: str, found: Sequence[ReportedFile]) -> Iterator[str]:
    """The HTML, piece by piece."""
    yield f"<main><h1>{shown(title)}</h1>"
    yield from _overview(found)
    yield from _beside("Code by section", found, _code, _legend(found))
    yield from _beside("Sections of unwind information", found, _sources)
    yield from _beside("Size of an .sframe, against the call frame information", found, _costs)
    yield from _beside("What SFrame cannot express", found, _refused)
    yield from _beside("Sharing of rows", found, _shared, SHARED)
    yield from _beside("Code without rows", found, _bare)
    yield from _beside("Findings of check", found, _findings)
    yield from _functions(found)
    yield "</main>"


def _overview(found: Sequence[ReportedFile]) -> Iterator[str]:
    figures: tuple[tuple[str, Callable[[ReportedFile], str]], ...] = (
        ("type", lambda one: shown(f"{one.type}, {one.architecture}, {one.byte_order}-endian")),
        ("debug file", lambda one: shown("; ".join([*[one.debug_file] * bool(one.debug_file), *one.debug_notes]))),
        ("code", lambda one: _bytes(one.code_bytes) if one.code else "unknown"),
        ("code with rows", lambda one: _share(one.covered_bytes, one.code_bytes) if one.code else "unknown"),
        ("functions", lambda one: f"{len(one.functions.table):,}"),
        ("rows of all functions", lambda one: f"{one.rows:,}"),
        ("distinct runs of rows", lambda one: f"{sum(run.runs for run in one.shared):,}"),
    )
    heads = "".join(f"<th scope=col class=file>{shown(name)}</th>" for name in _numbered(found))
    yield f"<div class=wide><table><thead><tr><td></td>{heads}</tr></thead><tbody>"
    for words, text_of in figures:
        cells = [text_of(one) for one in found]
        if any(cells):
            yield f"<tr><th scope=row>{words}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</tbody></table></div>"


def _beside(
    heading: str, found: Sequence[ReportedFile], lines_of: Callable[[ReportedFile], Iterable[str]], about: str = ""
) -> Iterator[str]:
    """The same part of every file, beside each other where there is space."""
    yield f"<h2>{heading}</h2>{about}<div class=side>"
    for one, name in zip(found, _numbered(found), strict=True):
        yield f"<section><h3>{shown(name)}</h3>" if len(found) > 1 else "<section>"
        yield from lines_of(one)
        yield "</section>"
    yield "</div>"


def _numbered(found: Sequence[ReportedFile]) -> list[str]:
    """The names of the files; several have a number, by which the table of functions names them."""
    return [f"{number}: {one.file}" if len(found) > 1 else one.file for number, one in enumerate(found, 1)]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> Iterator[str]:
    """A table whose cells are HTML; the first cell of a row is its heading, and the others but pictures are numbers."""
    cells = "".join(
        f"<th scope=col{'' if place == 0 else ' class=number'}>{one}</th>" for place, one in enumerate(heads)
    )
    yield f'<div class=wide><table class="{kind}"><thead><tr>{cells}</tr></thead><tbody>'
    for first, *others in rows:
        rest = "".join(f"<td class={'picture' if one.startswith('<svg') else 'number'}>{one}</td>" for one in others)
        yield f"<tr><th scope=row>{first}</th>{rest}</tr>"
    yield "</tbody></table></div>"


def _bar(parts: Iterable[tuple[str, int]], whole: int, about: str) -> str:
    """A picture of parts of a whole, one after another: their classes and sizes."""
    pieces, x = [], 0.0
    for kind, size in parts:
        width = 100 * size / max(1, whole)
        if size:
            pieces.append(f'<rect class="{kind}" x="{x:.3f}" y="0" width="{max(width, 0.3):.3f}" height="8"/>')
        x += width
    head = '<svg class=bar viewBox="0 0 100 8" preserveAspectRatio="none" role="img">'
    return f"{head}<title>{shown(about)}</title>{''.join(pieces)}</svg>"


# --- code -----------------------------------------------------------------------------------------------------------


def _legend(found: Sequence[ReportedFile]) -> str:
    has_sframe = any(one.refused for one in found)
    parts = (*PARTS, *REST) if has_sframe else (("good", "rows"), *REST)
    keys = (f'<span class=key-text><span class="key {kind}"></span>{words}</span>' for kind, words in parts)
    return f"<p>{''.join(keys)}</p>"


def _code(found: ReportedFile) -> Iterator[str]:
    if not found.code:
        yield "<p class=dim>The input has no code.</p>"
        return
    largest = sorted(found.code, key=lambda one: -one.size)[:MOST_SECTIONS]
    rows = ((_name(one.name), _code_bar(one), f"{one.size:,}", _code_text(one)) for one in largest)
    yield from _table(("section", "", "bytes", "with rows"), rows, "bars")
    if len(found.code) > len(largest):
        yield f"<p class=dim>and {len(found.code) - len(largest):,} smaller sections</p>"


def _code_bar(one: CodeFigures) -> str:
    parts = [("good", one.expressed), *(("refused-part", size) for size in one.refused.values())]
    words = [f"{one.name}: {one.expressed:,} bytes with rows that SFrame can express"]
    words += [f"{size:,} refused: {Reason[name].sentence}" for name, size in one.refused.items()]
    words += [f"{one.padding:,} of padding", f"{one.bare:,} without rows"]
    return _bar([*parts, ("padding", one.padding), ("bare", one.bare)], one.size, "; ".join(words))


def _code_text(one: CodeFigures) -> str:
    return _percent(one.expressed + sum(one.refused.values()), one.size)


# --- sections and sizes ---------------------------------------------------------------------------------------------


def _sources(found: ReportedFile) -> Iterator[str]:
    rows = []
    for one in found.sources:
        counts = (f"{count:,}" for count in (one.size, one.functions, one.rows, one.distinct_runs))
        rows.append((_name(one.name), *counts, _percent(one.covered_bytes, found.code_bytes) if found.code else ""))
    yield from _table(("section", "bytes", "functions", "rows", "distinct runs", "of the code"), rows)
    for one in found.sources:
        if one.fault:
            yield f"<p><span class=mark>unreadable</span> {shown(one.name)}: {shown(one.fault)}</p>"


def _costs(found: ReportedFile) -> Iterator[str]:
    made = [one for one in found.costs if not one.fault]
    for fault in dict.fromkeys(one.fault for one in found.costs if one.fault):
        yield f"<p class=dim>{shown(fault)}</p>"
    if not made:
        return
    names = [(one.name, one.size) for one in found.sources]
    largest = max(size for _, size in [*names, *((one.compact, one.size) for one in made)])
    rows = [(_name(name), "padding", size) for name, size in names]
    rows += [(_choice(one), "good", one.size) for one in made]
    yield from _table(
        ("", "", "bytes", "ratio"),
        (
            (words, _bar([(kind, size)], largest, f"{size:,} bytes"), f"{size:,}", _ratio(size, found.frames_bytes))
            for words, kind, size in rows
        ),
        "bars",
    )


def _choice(one: SframeCost) -> str:
    return f"SFrame {one.version}, {one.compact}"


def _ratio(size: int, whole: int) -> str:
    return f"{size / whole:.2f}" if whole else ""


def _refused(found: ReportedFile) -> Iterator[str]:
    if not found.refused:
        yield "<p class=dim>There is no SFrame for it.</p>"
        return
    names = dict.fromkeys(name for counts in found.refused.values() for name in counts)
    if not names:
        yield "<p>Nothing.</p>"
        return
    none = RefusedCount(0, 0)
    rows = []
    for name in names:
        counts = [counts.get(name, none) for counts in found.refused.values()]
        cells = [text for one in counts for text in (f"{one.ranges:,}", f"{one.bytes:,}")]
        rows.append((f"{shown(Reason[name].sentence)}{' (nothing is lost)' * (not Reason[name].is_loss)}", *cells))
    heads = [f"version {version}: {words}" for version in found.refused for words in ("ranges", "bytes")]
    yield from _table(("reason", *heads), rows, "sentences")


# --- functions ------------------------------------------------------------------------------------------------------


def _shared(found: ReportedFile) -> Iterator[str]:
    whole = sum(one.functions for one in found.shared)
    rows = (
        (
            f"{one.least:,}" if one.least == one.most else f"{one.least:,} to {one.most:,}",
            _bar([("good", one.functions)], whole, f"{_percent(one.functions, whole)} of the functions"),
            f"{one.runs:,}",
            f"{one.functions:,}",
        )
        for one in found.shared
    )
    yield from _table(("functions per run", "", "runs", "functions"), rows, "bars")


def _bare(found: ReportedFile) -> Iterator[str]:
    start, end = found.bare
    if not len(start):
        yield f"<p>{'None.' if found.code else 'Unknown: the input has no code.'}</p>"
        return
    sizes = (end - start).tolist()
    largest = sorted(range(len(sizes)), key=lambda place: (-sizes[place], place))[:MOST_RANGES]
    rows = (
        (f"{_name(found.names.text(int(start[place])))} {int(start[place]):#x}", f"{sizes[place]:,}")
        for place in largest
    )
    yield from _table(("symbol or section, address", "bytes"), rows)
    total = f"{len(sizes):,} ranges, {_bytes(sum(sizes))}"
    yield f"<p class=dim>{total}{'; the largest are listed' * (len(sizes) > len(largest))}</p>"


def _findings(found: ReportedFile) -> Iterator[str]:
    for section in found.lint:
        yield f"<h3>{shown(section.name)}</h3>"
        if section.reason:
            yield f"<p><span class=mark>unreadable</span>: {shown(section.reason)}</p>"
            continue
        if not len(section.findings):
            yield "<p>No findings.</p>"
        for one in finding_texts(found.names, section):
            kind = "<span class=mark>fault</span>" if one.code.is_fault else "note"
            yield f"<p>{kind} {shown(one.text)}</p><ul>"
            yield from (f"<li><code>{shown(place)}</code></li>" for place in one.places)
            yield f"{f'<li>and {one.more:,} more</li>' * (one.more > 0)}</ul>"


def _functions(found: Sequence[ReportedFile]) -> Iterator[str]:
    """The frame of the table that the script fills."""
    names = COLUMNS if len(found) > 1 else COLUMNS[:-1]
    columns = "".join(f"<col class=w-{name}>" for name in names)
    yield '<h2 id="all">Functions</h2>'
    yield "<noscript><p>The table of functions needs JavaScript.</p></noscript><p id=dead role=alert hidden></p>"
    words = "Search for names, addresses, sections, reasons, <code>refused</code>"
    yield f"<div id=live hidden><p><label for=search>{words}</label></p>"
    yield '<input id=search type=search autocomplete=off spellcheck=false aria-describedby="keys">'
    yield (
        "<p id=keys class=dim><kbd>/</kbd> search, <kbd>Enter</kbd> open, <kbd>↑</kbd> <kbd>↓</kbd> move, "
        "<kbd>Esc</kbd> back to the search; <span id=found role=status></span></p>"
    )
    yield f'<div id=functions tabindex=-1><table aria-labelledby="all"><colgroup>{columns}</colgroup>'
    yield f"<thead><tr aria-rowindex=1>{''.join(map(_head, names))}</tr></thead><tbody id=lines></tbody></table></div>"
    yield "<span id=character aria-hidden=true>0123456789</span></div>"


def _head(name: str) -> str:
    kind = f"{name} number" if name in COUNTS else name
    about = EXPLAINED.get(name, name)
    return (
        f'<th scope=col class="{kind}"><button type=button data-key={name} title="sort by {about}">{name}</button></th>'
    )


# --- text -----------------------------------------------------------------------------------------------------------


def _name(text: str) -> str:
    return f"<code>{shown(text)}</code>"


def _bytes(size: int) -> str:
    return f"{size:,} bytes"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "no share"


def _share(part: int, whole: int) -> str:
    return f"{part:,} bytes, {_percent(part, whole)}"
