"""A sketch's table as a heat map can show it: few enough rows and columns, pooled and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover.methods.sketch import factor
from fedcover.methods.sketch.table import Layout, SketchTable, row_totals
from fedcover.report.score_axis import ScoreAxis

Float64 = NDArray[np.float64]

MOST_ROWS, MOST_COLUMNS = 40, 32
"""Rows and columns that can be told apart on a page."""


@dataclass(frozen=True)
class Heat:
    """What the heat map shows.

    Attributes
    ----------
    cells
        (R, K) records.
    rows, totals
        Names of the rows, those of the first and the last where several are pooled, and their
        records.
    ends
        The same in numbers.
    row_is
        What a row is.
    axis, places
        The score axis, and (K + 1,) where on it columns begin and end.
    noise
        Deviation of the noise of a typical cell.
    said
        How rows and columns were pooled, in words.
    """

    cells: Float64
    rows: list[tuple[str, ...]]
    ends: list[tuple[str, ...]]
    totals: list[str]
    row_is: str
    axis: ScoreAxis
    places: Float64
    noise: float
    said: str

    def names(self, most: int) -> list[str]:
        """Names of the rows in so many characters; where two do not fit, numbers of both ends."""
        half = (most - 4) // 2
        crowded = any(len(row) > 1 and max(map(len, row)) > half for row in self.rows)
        rows = self.ends if crowded else self.rows
        return [shortened(" to ".join(row), most) for row in rows]


def heat(
    table: SketchTable,
    label_names: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
) -> Heat:
    """Rows in the order of the table, neighbours pooled where there are too many.

    Parameters
    ----------
    table
        The sums.
    label_names
        (C,) names of the labels.
    groups
        (C,) names of their groups.
    """
    layout = table.layout
    row, row_starts = _pools(layout.rows, MOST_ROWS)
    ends = np.linspace(0, layout.bins, min(layout.bins, MOST_COLUMNS) + 1).round().astype(int)
    sums = np.add.reduceat(table.misses[:, ends[1:] - 1], row_starts, axis=0)
    cells = np.diff(sums, axis=1, prepend=0.0)[:, ::-1]  # from the top bin, shown at the right
    about = "" if table.exact else "≈ "
    totals = np.add.reduceat(row_totals(table)[0], row_starts)
    names = _row_names(layout, label_names, groups)
    numbers = [str(k) for k in range(layout.rows)]
    is_group = layout.groups is not None
    what = "groups" if is_group else "labels"
    said = [f"A row pools {row} {what} in their order; there are {layout.rows:,}."] * (row > 1)
    if len(ends) <= layout.bins:
        each = layout.bins / (len(ends) - 1)
        said.append(f"A column pools about {each:.0f} of {layout.bins:,} bins.")
    said.append("Every bin is as wide as the next, and they are finer near both ends.")
    return Heat(
        cells=np.where(np.abs(cells) < 1e-9, 0.0, cells),
        rows=[_ends(names[start : start + row]) for start in row_starts],
        ends=[_ends(numbers[start : start + row]) for start in row_starts],
        totals=[f"{about}{total:,.0f}" for total in totals],
        row_is="group of labels" if is_group else "label",
        axis=ScoreAxis.of(layout),
        places=1 - ends[::-1] / layout.bins,
        noise=float(np.median(_noise(table, ends))) * float(np.sqrt(row)),
        said=" ".join(said),
    )


def _noise(table: SketchTable, ends: NDArray[np.int64]) -> Float64:
    """(K,) deviation of the noise of one row's columns, which are differences of two sums."""
    if table.table_sd == 0:
        return np.zeros(len(ends) - 1)
    back = factor.recovery(table.layout.bins)
    sums = np.zeros((len(ends), len(back)))
    for total, end in zip(sums, ends, strict=True):
        total[:end] = back[:end][::-1]
    return table.table_sd * np.linalg.norm(np.diff(sums, axis=0), axis=1)


def _pools(n: int, most: int) -> tuple[int, NDArray[np.int64]]:
    """How many neighbours are pooled so that at most `most` are left, and where they begin."""
    size = -(-n // most)
    return size, np.arange(0, n, size)


def _row_names(
    layout: Layout, label_names: Sequence[str] | None, groups: Sequence[str] | None
) -> list[str]:
    labels = label_names or [str(y) for y in range(layout.n_classes)]
    if layout.groups is None:
        return list(labels)
    members: list[list[int]] = [[] for _ in range(layout.rows)]
    for y, row in enumerate(layout.groups):
        members[row].append(y)
    if groups is not None:
        return [f"{groups[m[0]]} ({len(m)})" for m in members]
    return [f"{len(m)} labels: {', '.join(labels[y] for y in m[:4])}, …" for m in members]


def _ends(names: list[str]) -> tuple[str, ...]:
    return (names[0],) if len(names) == 1 else (names[0], names[-1])


def shortened(text: str, most: int) -> str:
    """A name that fits, the end replaced by dots where it is long."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
