"""Write the field tables of the manual from the declarations: `python docs/fields.py` (`--check`: only compare).

A page asks for a table and a drawing of a record with `<!-- fields: sframe.Header -->`, for a table of columns with
`<!-- columns: table.model.RowColumns -->`, for the architectures with `<!-- architectures -->`, for the reasons of
refusals with `<!-- reasons -->`, for what formats express with `<!-- matrix -->`, for the codes of findings with
`<!-- lint -->`, for the data sets of an export with `<!-- data sets -->`; the lines up to the next `<!-- end -->` are
replaced.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from importlib import import_module
from pathlib import Path

from drawings import drawing
from matrix import matrix
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.arrow import is_named
from unwindkit.converters.columns import Column
from unwindkit.converters.files.lint import Code
from unwindkit.converters.refusals import Reason
from unwindkit.data_sets.fields import DATA_SETS
from unwindkit.schemas import text_records, wire

DOCS = Path(__file__).resolve().parent

ARCHITECTURE_ROWS = re.compile(r"(<!-- architectures -->\n).*?(<!-- end -->)", re.DOTALL)
REASON_ROWS = re.compile(r"(<!-- reasons -->\n).*?(<!-- end -->)", re.DOTALL)
MATRIX_ROWS = re.compile(r"(<!-- matrix -->\n).*?(<!-- end -->)", re.DOTALL)
DATA_SET_ROWS = re.compile(r"(<!-- data sets -->\n).*?(<!-- end -->)", re.DOTALL)
LINT_ROWS = re.compile(r"(<!-- lint -->\n).*?(<!-- end -->)", re.DOTALL)
OPCODES = re.compile(r"(<!-- opcodes: (\w+)\.(\w+)\.(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
COLUMNS = re.compile(r"(<!-- columns: ([\w.]+)\.(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MARK = re.compile(r"(<!-- fields: ([\w.]+)\.(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def describe(kind: object) -> str:
    """How a kind stands in a table."""
    if isinstance(kind, text_records.Kind):
        return text_records.describe(kind)
    match kind:
        case wire.Integer(size=size, signed=signed):
            return f"{'i' if signed else 'u'}{8 * size}"
        case wire.Bits():
            return "u8, bits"
        case wire.BitField(width=width):
            return f"{width} bit{'s' if width > 1 else ''}"
        case wire.Leb(signed=signed):
            return "SLEB128" if signed else "ULEB128"
        case wire.When(kind=inner):
            return f"{describe(inner)}, where it applies"
        case wire.Either(yes=yes, no=no):
            return f"{describe(yes)} or {describe(no)}"
        case wire.Many(kind=inner):
            return f"array of {describe(inner)}"
        case wire.Repeated(kind=inner, length=length):
            return f"{length} of {describe(inner)}"
        case wire.UntilZero(kind=inner):
            return f"{describe(inner)}, up to a zero byte"
        case wire.Nested(record=record):
            return record.__name__
    names: dict[type, str] = {
        wire.Variable: "integer",
        wire.NulTerminated: "bytes, NUL",
        wire.Sized: "bytes",
        wire.Block: "ULEB128 length, bytes",
        wire.SizedBlock: "length, bytes",
        wire.Entries: "array of values",
        wire.Rest: "bytes up to the end",
        wire.Given: "(no bytes)",
        wire.Pointer: "DW_EH_PE value",
    }
    return names[type(kind)]


def table(module: str, name: str) -> str:
    """The field table of one record."""
    record = getattr(import_module(f"unwindkit.schemas.{module}"), name)
    lines = ["| field | on the wire | meaning |", "|---|---|---|"]
    declared = (field for field in dataclasses.fields(record) if "kind" in field.metadata)
    lines += [f"| {field.name} | {describe(field.metadata['kind'])} | {field.metadata['doc']} |" for field in declared]
    drawn = drawing(record, describe)
    return "\n".join(lines) + "\n" + (f"\n```text\n{drawn}```\n" if drawn else "")


def column_table(module: str, name: str) -> str:
    """The columns of one class."""
    declared = getattr(import_module(f"unwindkit.converters.{module}"), name).declared
    lines = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| {one.name} | {column_type(one)} | {one.unit} | {one.meaning} |" for one in declared]
    return "\n".join(lines) + "\n"


def column_type(one: Column) -> str:
    """How the type of a column is written in a table."""
    scalar = f"{one.dtype.kind}{8 * one.dtype.itemsize}" if one.dtype.kind in "ui" else str(one.dtype)
    return f"{one.items} {scalar}" if one.items else scalar


def opcode_table(module: str, name: str, kinds: str) -> str:
    """The instructions of one table, whose operands are stored as the other one says."""
    declared = import_module(f"unwindkit.schemas.{module}")
    stored = getattr(declared, kinds)
    lines = ["| opcode | number | operand | on the wire |", "|---|---|---|---|"]
    for opcode, spec in getattr(declared, name).items():
        kind = stored.get(spec.operand)
        operand = "" if kind is None else spec.operand.name.lower()
        wire_kind = "" if kind is None else describe(kind)
        lines.append(f"| {type(opcode).__name__}_{opcode.name} | {opcode:#x} | {operand} | {wire_kind} |")
    return "\n".join(lines) + "\n"


def architecture_table() -> str:
    """The architectures, their registers, and what each can be converted to."""
    lines = [
        "| name | ELF machine | address | SP, FP, RA | caller's SP | SFrame | STACK CFI | PLT without CFI |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in ARCHITECTURES.values():
        registers = f"{one.stack_pointer}, {one.frame_pointer}, {one.return_address}"
        known = (one.sframe, one.breakpad_registers, one.plt_stubs)
        cells = " | ".join("-" if found is None else "yes" for found in known)
        caller = f"CFA - {-one.caller_sp_offset}" if one.caller_sp_offset else "CFA"
        lines.append(f"| {one.name} | {one.machine} | {8 * one.address_size} bits | {registers} | {caller} | {cells} |")
    return "\n".join(lines) + "\n"


def reason_table() -> str:
    """The reasons of refusals, and which of them `--strict` fails on."""
    lines = ["| reason | | `--strict` |", "|---|---|---|"]
    lines += [f"| {one.name} | {one.sentence} | {'fails' if one.is_loss else 'passes'} |" for one in Reason]
    return "\n".join(lines) + "\n"


def lint_table() -> str:
    """The codes of findings."""
    lines = ["| code | | meaning |", "|---|---|---|"]
    lines += [f"| {one.text} | {'fault' if one.is_fault else 'note'} | {one.meaning} |" for one in Code]
    return "\n".join(lines) + "\n"


def data_set_tables() -> str:
    """The columns of each data set; those that the table has are listed by name."""
    parts = []
    for name, fields in DATA_SETS.items():
        lines = [f"**{name}**: {fields.meaning}", "", "| column | type | unit | meaning |", "|---|---|---|---|"]
        lines += [f"| {one.name} | text | | {one.meaning} |" for one in fields.texts]
        lines += [
            f"| {one.name} | {'name' if is_named(one) else column_type(one)} | {one.unit} | {one.meaning} |"
            for one in fields.numbers()
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def with_tables(text: str) -> str:
    """A page with its tables as the declarations have them."""
    text = ARCHITECTURE_ROWS.sub(lambda found: found[1] + architecture_table() + found[2], text)
    text = REASON_ROWS.sub(lambda found: found[1] + reason_table() + found[2], text)
    text = MATRIX_ROWS.sub(lambda found: found[1] + matrix() + found[2], text)
    text = DATA_SET_ROWS.sub(lambda found: found[1] + data_set_tables() + found[2], text)
    text = LINT_ROWS.sub(lambda found: found[1] + lint_table() + found[2], text)
    text = OPCODES.sub(lambda found: found[1] + opcode_table(*found.groups()[1:4]) + found[5], text)
    text = COLUMNS.sub(lambda found: found[1] + column_table(found[2], found[3]) + found[4], text)
    return MARK.sub(lambda found: found[1] + table(found[2], found[3]) + found[4], text)


def main() -> int:
    """Write, or compare."""
    stale = []
    for page in sorted(Path(__file__).parent.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        fresh = with_tables(text)
        if fresh != text:
            stale.append(page)
            if "--check" not in sys.argv:
                page.write_text(fresh, encoding="utf-8")
    if "--check" not in sys.argv:
        sys.path.append(str(DOCS.parent))
        from benchmarks.plots import picture

        figures = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
        (DOCS / "benchmarks.svg").write_text(picture(figures), encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
