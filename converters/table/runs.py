"""Cut row runs where functions end; the work is bounded by the size of the section."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.section import ParseError, Section
from ..limits import exceeded, raised

if TYPE_CHECKING:
    from numpy.typing import NDArray


# A limit against attacks: SFrame FDEs can refer to the same FREs from different starts, or cut them at different ends.
ROWS_PER_BYTE = 4


def cut_runs(
    section: Section,
    run: NDArray[np.uint32],
    reach: NDArray[np.uint64],
    run_rows: NDArray[np.int64],
    offset: NDArray[np.uint64],
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """Give each function that ends before its run does a run of only the rows below `reach` (at least one).

    `reach` and `offset`, that of the rows, are in bytes from the function's start. Returns the runs of the functions,
    the new `run_rows`, and which rows to append a copy of. Raises ParseError for more than ROWS_PER_BYTE new rows per
    byte of the section.
    """
    too_long = np.flatnonzero(has_rows_past(run, reach, run_rows, offset))
    if not len(too_long):
        return run, run_rows, np.zeros(0, np.int64)
    cut: dict[tuple[int, int], int] = {}
    taken: list[NDArray[np.int64]] = []
    left = raised(ROWS_PER_BYTE * len(section))
    run = run.copy()
    for function in too_long.tolist():
        first, last = run_rows[run[function]], run_rows[run[function] + 1]
        kept = max(1, int(np.searchsorted(offset[first:last], reach[function])))
        key = (int(run[function]), kept)
        if key not in cut:
            cut[key] = len(run_rows) - 1 + len(cut)
            left -= kept
            if left < 0:
                reason = f"more than {raised(ROWS_PER_BYTE)} rows for each byte of the section"
                raise ParseError(section, None, f"FDE[{function}]", exceeded(reason))
            taken.append(np.arange(first, first + kept))
        run[function] = cut[key]
    run_rows = np.concatenate([run_rows, run_rows[-1] + np.cumsum([len(rows) for rows in taken])])
    return run, run_rows, np.concatenate(taken)


def has_rows_past(
    run: NDArray[np.uint32], reach: NDArray[np.uint64], run_rows: NDArray[np.int64], offset: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Which functions have a row, other than the first, at or past `reach`; parameters as of `cut_runs`."""
    if not len(run):
        return np.zeros(0, np.bool_)
    return (offset[run_rows[1:] - 1][run] >= reach) & (np.diff(run_rows)[run] > 1)
