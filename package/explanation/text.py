"""An explanation for a terminal: one line a field, a row where it is complete."""

from __future__ import annotations

from collections.abc import Iterator

from .model import ExplainedField, ExplainedRecord, Explanation

BYTES_A_LINE = 8
# Select Graphic Rendition (ECMA-48): bold, dim, cyan, green.
BOLD, DIM, CYAN, GREEN = "1", "2", "36", "32"


def explanation_text(found: Explanation, *, colour: bool = False) -> str:
    """The text, with colours for a terminal if wanted."""
    return "\n".join(_lines(found, colour))


def _paint(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour and text else text


def title_of(found: Explanation) -> str:
    """The place, its function, its machine."""
    place = f"{found.section}+{found.pc:#x}" if found.section else f"{found.pc:#x}"
    name = f" <{found.name}>" if found.name else ""
    function = f"function {found.start:#x}..{found.start + found.size:#x}" if found.size else "no function"
    return f"{place}{name}: {function}, {found.architecture}"


def record_title(record: ExplainedRecord) -> str:
    """The section, the record, the text that declares it."""
    return f"{record.section} {record.title}" + (f" ({record.text})" if record.text else "")


def _lines(found: Explanation, colour: bool) -> Iterator[str]:
    yield _paint(title_of(found), BOLD, colour)
    for source, row in found.rules.items():
        yield f"  {source:<12} {row}"
    for record in found.records:
        yield ""
        yield _paint(record_title(record), BOLD, colour)
        for field in record.fields:
            yield from _field_lines(field, colour)
    if found.stack_cfi:
        yield ""
        yield _paint("STACK CFI", BOLD, colour)
        yield from (f"  {line}" for line in found.stack_cfi)
    if found.code:
        yield ""
        yield _paint("code", BOLD, colour)
    for line in found.code:
        if line.row:
            yield _paint(f"  row {line.row}", GREEN, colour)
        mark = ">" if line.is_asked else " "
        yield f" {mark}{line.pc:#x}  {_paint(f'{line.data.hex():<20}', DIM, colour)}  {line.text}"
    if found.notes:
        yield ""
    yield from (f"note: {note}" for note in found.notes)


def _field_lines(field: ExplainedField, colour: bool) -> Iterator[str]:
    for at in range(0, len(field.data), BYTES_A_LINE):
        data = field.data[at : at + BYTES_A_LINE].hex(" ")
        head = f"  {_paint(f'{field.offset + at:06x}', DIM, colour)}  {data:<{3 * BYTES_A_LINE - 1}}"
        if at:
            yield head.rstrip()
            continue
        name = _paint(f"{field.name:<25}", CYAN, colour)
        yield f"{head}  {name} {field.value:<22}  {_paint(field.meaning, DIM, colour)}".rstrip()
    if field.row:
        yield _paint(f"  row {field.row}", GREEN, colour)
