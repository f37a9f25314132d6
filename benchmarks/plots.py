"""The tables of results as a picture: a bar for each peer, by table and input, on a logarithmic axis.

Strategy: the picture is made from the Markdown of the tables, so that it shows what they say: `results.md` after a run,
docs/benchmarks.md for the manual. SVG by hand: text stays text, and colours follow light and dark pages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

HEADING = re.compile(r"^#{2,4} (.*)$")
RATIO = "CPU"  # the column with user and system time, ours divided by the peer's
CLOCK = "first's time / its"  # the same by the clock
WIDTH, LEFT, RIGHT = 860, 330, 60  # pixels: the picture, its labels, the numbers
BAR, GAP, HEAD, FOOT = 14, 4, 26, 34
COLOURS = """
.benchmarks { --ink: #222; --quiet: #666; --line: #999; --good: #0a7d5a; --bad: #c2571a; }
@media (prefers-color-scheme: dark) {
.benchmarks { --ink: #ddd; --quiet: #aaa; --line: #777; --good: #3c9; --bad: #f09050; } }
body[data-theme="light"] .benchmarks { --ink: #222; --quiet: #666; --line: #999; --good: #0a7d5a; --bad: #c2571a; }
body[data-theme="dark"] .benchmarks { --ink: #ddd; --quiet: #aaa; --line: #777; --good: #3c9; --bad: #f09050; }
.benchmarks text { fill: var(--ink); }
.benchmarks .head { font-weight: 600; }
.benchmarks .axis { fill: var(--quiet); text-anchor: middle; }
.benchmarks .label { text-anchor: end; }
.benchmarks line { stroke: var(--line); }
.benchmarks .good { fill: var(--good); }
.benchmarks .bad { fill: var(--bad); }
"""


class Bar(NamedTuple):
    """The ratio of our time to that of a program: below 1, ours is shorter."""

    table: str
    label: str
    ratio: float


def bars(markdown: str) -> list[Bar]:
    """The bars of all tables that compare programs; our own rows are none."""
    found: list[Bar] = []
    heading, columns, seen = "", list[str](), set[str]()
    for line in markdown.splitlines():
        if head := HEADING.match(line):
            heading = head[1]
        if not line.startswith("|"):
            columns = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not columns:
            columns, seen = cells, set()
        elif {RATIO, "program", "input"} <= set(columns) and not set(line) <= set("|-: "):
            row = dict(zip(columns, cells, strict=True))
            # The first row of an input, and of each pair of commands, is what the others are compared with.
            if row["input"] in seen and (row[RATIO], row.get(CLOCK)) != ("1.00", "1.00"):
                found.append(Bar(heading, f"{row['input']}, {row['program']}", float(row[RATIO])))
            seen.add(row["input"])
    return found


def picture(markdown: str) -> str:
    """The SVG, "" if no programs are compared."""
    found = bars(markdown)
    if not found:
        return ""
    low, high = min(0.1, *(bar.ratio for bar in found)), max(10, *(bar.ratio for bar in found))
    tables = list(dict.fromkeys(bar.table for bar in found))
    height = HEAD * len(tables) + (BAR + GAP) * len(found) + FOOT

    def place(ratio: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(ratio / low) / math.log(high / low)

    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [f'{head} font-family="system-ui, sans-serif" font-size="12">', f"<style>{COLOURS}</style>"]
    lines += ['<g class="benchmarks">', *drawn(found, place)]
    lines += [axis(ratio, place(ratio), height) for ratio in (0.1, 1, 10)]
    caption = "user and system time of unwindkit, divided by that of the other program"
    lines += [f'<text class="axis" x="{place(1):.1f}" y="{height - 4}">{caption}</text>', "</g>", "</svg>"]
    return "\n".join(lines) + "\n"


def drawn(found: list[Bar], place: Callable[[float], float]) -> Iterator[str]:
    """The headings and bars, from the top."""
    y, table = 0, ""
    for bar in found:
        if bar.table != table:
            table = bar.table
            yield f'<text class="head" x="0" y="{y + HEAD - 8}">{escape(table)}</text>'
            y += HEAD
        left, right = sorted((place(1), place(bar.ratio)))
        size = f'x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="{BAR}"'
        yield f'<text class="label" x="{LEFT - 8}" y="{y + BAR - 3}">{escape(bar.label)}</text>'
        yield f'<rect class="{"good" if bar.ratio <= 1 else "bad"}" {size}/>'
        yield f'<text x="{right + 4:.1f}" y="{y + BAR - 3}">{bar.ratio:.2f}</text>'
        y += BAR + GAP


def axis(ratio: float, x: float, height: int) -> str:
    """A line through all bars, with its ratio below."""
    line = f'<line x1="{x:.1f}" y1="{HEAD}" x2="{x:.1f}" y2="{height - FOOT}"/>'
    return f'{line}<text class="axis" x="{x:.1f}" y="{height - 19}">{ratio:g}</text>'
