"""An SFrame FDE and its FREs, byte by byte, with the row that each FRE makes (the SFrame Format)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..converters.sframe.section import SframeColumns
from ..schemas import sframe
from ..schemas.section import Section
from ..schemas.sframe import SFRAME_VERSION
from .cfi import RowAt
from .fields import field_of, text_of, value_text
from .model import ExplainedField, ExplainedRecord
from .spans import FieldSpan, spans_of


def explain_fde(columns: SframeColumns, fde: int, start: int, row_at: RowAt) -> tuple[ExplainedRecord, ...]:
    """The FDE of this index, its attribute in version 3, and its FREs; its function starts at `start`. Raises
    ParseError."""
    section, offset = columns.section, int(columns.origin[fde])
    layout = sframe.FDE_RECORDS[columns.version]
    end = offset + sframe.FDE_SIZES[columns.version]
    record = _record(section, layout, offset, end, f"FDE {fde} at {offset:#x}")
    first, *others = record.fields
    records = [replace(record, fields=(replace(first, meaning=f"{start:#x}; {first.meaning}"), *others))]
    fres = columns.fres_offset + int(columns.fre_offset[fde])
    if columns.version == SFRAME_VERSION.V3:
        # The column is that of the first FRE, which follows the attribute.
        start = fres - sframe.ATTRIBUTE_SIZE
        records.append(_record(section, sframe.FuncDescAttribute, start, fres, f"attribute of FDE {fde} at {start:#x}"))
    records += _fres(columns, fde, fres, row_at)
    return tuple(records)


def _record(section: Section, cls: type, offset: int, end: int, title: str) -> ExplainedRecord:
    _, spans = spans_of(cls, section, offset, end)
    return ExplainedRecord(section.name, title, text_of(cls), tuple(_fields(section, spans)))


def _fields(section: Section, spans: tuple[FieldSpan, ...]) -> Iterator[ExplainedField]:
    for span in spans:
        yield field_of(section, span.start, span.end, span.name, value_text(span), span.doc)


def _fres(columns: SframeColumns, fde: int, at: int, row_at: RowAt) -> Iterator[ExplainedRecord]:
    section, end = columns.section, columns.fres_offset + len(columns.fres)
    fretype = int(columns.bits("fretype")[fde])
    for index in range(int(columns.num_fres[fde])):
        fre, spans = spans_of(sframe.FrameRowEntry, section, at, end, f"FRE[{index}]", fretype=fretype)
        *fields, last = _fields(section, spans)
        fields.append(replace(last, row=row_at(fre.start_address)))
        yield ExplainedRecord(section.name, f"FRE {index} at {at:#x}", text_of(sframe.FrameRowEntry), tuple(fields))
        at = spans[-1].end
