"""The ratios as a picture, if Matplotlib is installed: a bar for each peer, by input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .cases import Comparison, Results

PARTS = (
    "comparisons",
    "threads",
    "printing",
    "rewriting",
    "stack_cfi",
    "stack_cfi_in_process",
    "symbol_files",
    "start_up",
)
BAR = 0.28  # inches


def bars(results: Results) -> Iterator[tuple[str, float]]:
    """The label and the ratio of each bar: user and system time of our program to that of a peer."""
    for part in PARTS:
        comparisons: tuple[Comparison, ...] = getattr(results, part)
        for one in comparisons:
            for peer in one.measured[1:]:
                yield f"{part.replace('_', ' ')}: {one.name}, {peer.program}", one.cpu_ratio(peer)


def draw(results: Results, path: Path) -> str:
    """Write the picture as SVG; returns why not, or "" if it is written."""
    found = list(bars(results))
    if not found:
        return "nothing was compared"
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "Matplotlib is not installed"
    figure = Figure(figsize=(9, 1 + BAR * len(found)), layout="constrained")
    axes = figure.subplots()
    labels, ratios = zip(*found, strict=True)
    drawn = axes.barh(labels, ratios, color=["tab:green" if ratio <= 1 else "tab:orange" for ratio in ratios])
    axes.bar_label(drawn, fmt="%.2f", padding=3)
    axes.axvline(1, color="gray", linewidth=1)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("user and system time, divided by the peer's")
    figure.savefig(path, format="svg", metadata={"Date": None})
    return ""
