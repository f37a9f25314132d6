"""An explanation as a page of its own: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..pages.frame import page, shown
from .model import ExplainedField, ExplainedRecord, Explanation
from .text import record_title, title_of

STYLE = """
.bytes { min-width: 12ch; max-width: 24ch; overflow-wrap: anywhere; }
tr.row td { background: var(--row); }
@media (max-width: 40rem) {
  .fields thead { display: none; }
  .fields tr { display: block; padding: 0.2rem 0; border-bottom: 1px solid var(--line); }
  .fields td { display: inline-block; max-width: none; min-width: 0; border: 0; }
  .fields td.dim, .fields tr.row td { display: block; }
}
tr.asked td { background: var(--mark); }
"""


def explanation_page(found: Iterable[Explanation]) -> str:
    """The page."""
    explanations = list(found)
    title = f"{explanations[0].file}: {title_of(explanations[0])}" if explanations else ""
    return page(title, "\n".join(line for one in explanations for line in _article(one)), STYLE)


def _article(found: Explanation) -> Iterator[str]:
    yield f"<article><h1>{shown(title_of(found))}</h1><p class=dim>{shown(found.file)}</p>"
    yield from _table("Rules in force", ("source", "row"), ((name, row) for name, row in found.rules.items()))
    for record in found.records:
        yield from _record(record)
    if found.stack_cfi:
        yield "<h2>STACK CFI</h2><div class=wide><table>"
        yield from (f"<tr><td><code>{shown(line)}</code></td></tr>" for line in found.stack_cfi)
        yield "</table></div>"
    if found.code:
        yield "<h2>Code</h2><div class=wide><table><thead><tr><th>PC<th>bytes<th>instruction</tr></thead>"
        for line in found.code:
            yield _row(line.row)
            mark = " class=asked" if line.is_asked else ""
            cells = f"<td class=bytes><code>{line.data.hex(' ')}</code><td><code>{shown(line.text)}</code>"
            yield f"<tr{mark}><td><code>{line.pc:#x}</code>{cells}</tr>"
        yield "</table></div>"
    yield from (f"<p>Note: {shown(note)}</p>" for note in found.notes)
    yield "</article>"


def _table(title: str, heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    cells = "".join(f"<th>{one}" for one in heads)
    yield f"<h2>{shown(title)}</h2><div class=wide><table><thead><tr>{cells}</tr></thead>"
    yield from (f"<tr>{''.join(f'<td><code>{shown(cell)}</code>' for cell in row)}</tr>" for row in rows)
    yield "</table></div>"


def _record(record: ExplainedRecord) -> Iterator[str]:
    heads = "<th>offset<th>bytes<th>field<th>value<th>meaning"
    yield f"<h2>{shown(record_title(record))}</h2>"
    yield f"<div class=wide><table class=fields><thead><tr>{heads}</tr></thead>"
    for field in record.fields:
        yield _field(field) + _row(field.row)
    yield "</table></div>"


def _field(field: ExplainedField) -> str:
    name, value, meaning = (shown(one) for one in (field.name, field.value, field.meaning))
    data = f"<td class=bytes><code>{field.data.hex(' ')}</code>"
    return (
        f"<tr><td><code>{field.offset:06x}</code>{data}<td><code>{name}</code><td><code>{value}</code>"
        f"<td class=dim>{meaning}</tr>"
    )


def _row(row: str) -> str:
    return f"<tr class=row><td colspan=5>row <code>{shown(row)}</code></tr>" if row else ""
