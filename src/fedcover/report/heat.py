"""A sketch's table as a heat map can show it: few enough rows and columns, pooled and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover.report.cells import cell_noise, cell_records
from fedcover.sketch.table import Layout, SketchTable
from fedcover.sketch.totals import row_totals

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
    places, edges
        (K + 1,) ends of the columns where bins are even, and the scores there.
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
    places: Float64
    edges: Float64
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
    column_starts = _columns(layout.even)
    cells = np.add.reduceat(cell_records(table), row_starts, axis=0)
    cells = np.add.reduceat(cells, column_starts, axis=1)
    pools = np.add.reduceat(np.eye(layout.bins), column_starts, axis=0)
    about = "" if table.exact else "≈ "
    totals = np.add.reduceat(row_totals(table)[0], row_starts)
    names = _row_names(layout, label_names, groups)
    numbers = [str(k) for k in range(layout.rows)]
    ends = [*column_starts.tolist(), layout.bins]
    is_group = layout.groups is not None
    said = (
        f"A row pools {row} {'groups' if is_group else 'labels'} in their order; "
        f"there are {layout.rows:,}. "
        if row > 1
        else ""
    )
    if len(column_starts) < layout.bins:
        said += (
            f"A column pools about {layout.bins / len(column_starts):.0f} of {layout.bins:,} bins."
        )
    if layout.warp != "even":
        end = 1 if layout.warp.startswith("upper") else 0
        said += f" Columns are finer near {end}, where scores crowd."
    return Heat(
        cells=np.where(np.abs(cells) < 1e-9, 0.0, cells),
        rows=[_ends(names[start : start + row]) for start in row_starts],
        ends=[_ends(numbers[start : start + row]) for start in row_starts],
        totals=[f"{about}{total:,.0f}" for total in totals],
        row_is="group of labels" if is_group else "label",
        places=layout.even[ends],
        edges=layout.edge_array[ends],
        noise=cell_noise(table, pools) * float(np.sqrt(row)),
        said=said.strip(),
    )


def _pools(n: int, most: int) -> tuple[int, NDArray[np.int64]]:
    """How many neighbours are pooled so that at most `most` are left, and where they begin."""
    size = -(-n // most)
    return size, np.arange(0, n, size)


def _columns(places: Float64) -> NDArray[np.int64]:
    """Where columns begin: at every bin, or at those nearest to even places."""
    if len(places) - 1 <= MOST_COLUMNS:
        return np.arange(len(places) - 1)
    wanted = np.linspace(0, 1, MOST_COLUMNS + 1)[:-1]
    return np.unique(np.abs(places - wanted[:, None]).argmin(axis=1))


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
