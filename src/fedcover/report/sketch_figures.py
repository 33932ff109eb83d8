"""Figures about a sketch, each from plain arrays and names to a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from fedcover.report import style
from fedcover.report.heat import shortened
from fedcover.report.score_axis import ScoreAxis
from fedcover.report.style import BLUE, GREEN, INK, MUTED, ORANGE, PAPER

Float64 = NDArray[np.float64]

LEVELS = 12
"""Shades of a heat map; cells of one shade are one path, which keeps the page small."""

SCORE = "score of the true label (0 expected, 1 surprising)"
DASHED = (0, (4, 2))

POINT: Any = {"color": INK, "marker": "o", "ms": 5.5, "mec": PAPER, "mew": 0.7, "ls": ""}

MARGINS = 1.7
"""Inches beside the score axis, at most: names of rows at the left, totals at the right."""


@style.styled
def heat_map(
    cells: Float64,
    rows: Sequence[str],
    totals: Sequence[str],
    axis: ScoreAxis,
    places: Float64,
    *,
    ylabel: str,
    noise: float = 0.0,
    width: float = style.WIDE,
) -> Figure:
    """Where the records are: rows of labels × columns of scores.

    Parameters
    ----------
    cells
        (R, K) records; negative ones, which noise makes, are orange and carry a minus.
    rows, totals
        Names of the rows, and their numbers of records, written at the right.
    axis, places
        The score axis, and (K + 1,) where on it the columns begin and end.
    ylabel
        What a row is.
    noise
        Deviation of the noise of a cell.
    """
    small = len(rows) > 14
    figure = Figure(figsize=(width, 1.15 + (0.17 if small else 0.26) * len(rows)))
    axes = figure.subplots()
    most = max(float(np.abs(cells).max()), 1e-300)
    depth = np.ceil(LEVELS * np.sqrt(np.abs(cells) / most)).astype(int)
    for colour, side in ((BLUE, cells > 0), (ORANGE, cells < 0)):
        for level in range(1, LEVELS + 1):
            where = np.argwhere(side & (depth == level))
            if len(where):
                axes.add_patch(
                    PathPatch(_boxes(where, places), fc=colour, alpha=_shade(level), lw=0)
                )
    minus = np.argwhere(cells < 0)
    if len(minus):
        axes.add_patch(PathPatch(_strokes(minus, places), fill=False, ec=INK, lw=0.7))
    axes.set_xlim(0, 1)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), rows, fontsize=7 if small else 8.5)
    for y, text in enumerate(totals):
        axes.text(1.012, y, text, va="center", fontsize=7 if small else 8)
    axes.text(1.012, -0.7, "records", va="bottom", fontsize=7 if small else 8, color=MUTED)
    score_ticks(axes, axis, width)
    axes.set_ylabel(ylabel)
    marks = [Patch(fc=BLUE, alpha=_shade(k), label=_records(most * (k / LEVELS) ** 2))
             for k in (2, 5, 8, LEVELS)]  # fmt: skip
    if len(minus):
        low = max(1, int(depth[cells < 0].max()))
        marks.insert(0, Patch(fc=ORANGE, alpha=_shade(low), label=_records(float(cells.min()))))
    title = "records in a cell" + (
        f"; noise ± {noise:.3g}, a minus marks less than 0" * bool(noise)
    )
    figure.legend(
        handles=marks, title=title, loc="outside upper left", ncols=5, alignment="left",
        title_fontsize=8.5, columnspacing=1.2, handlelength=1.4,
    )  # fmt: skip
    return figure


@style.styled
def coverage_curves(
    alphas: Float64,
    curves: Mapping[str, tuple[int, Float64]],
    points: tuple[Float64, Float64] | None = None,
    *,
    width: float = style.WIDE,
    columns: int = 4,
) -> Figure:
    """Coverage against α, a panel for each site.

    Parameters
    ----------
    alphas
        (A,) levels.
    curves
        By site, its number of records and (A,) shares of them whose label is in the set.
    points
        Levels of thresholds that a site uses, and what they cover; for a site alone.
    columns
        Panels beside each other.
    """
    columns = min(columns, len(curves))
    lines = -(-len(curves) // columns)
    alone = len(curves) == 1
    figure, panels = style.grid(width, 0.8 + (2.2 if alone else 1.35) * lines, lines, columns)
    for panel, (name, (n, covered)) in zip(panels, curves.items(), strict=False):
        chance = 2 * np.sqrt(alphas * (1 - alphas) / n)
        band = np.clip(np.stack([1 - alphas - chance, 1 - alphas + chance]), 0, 1)
        panel.fill_between(alphas, *(100 * band), color=MUTED, alpha=0.22, lw=0)
        _promise(panel, alphas)
        panel.plot(alphas, 100 * covered, color=BLUE, lw=1.8)
        if points is not None:
            panel.plot(points[0], 100 * points[1], zorder=4, **POINT)
        panel.set_title(f"{shortened(name, 22 if width > style.NARROW else 18)} ({n})")
        panel.grid(visible=True)
    for k, panel in enumerate(panels):
        panel.set_visible(k < len(curves))
        panel.tick_params(labelbottom=k + columns >= len(curves))
    _coverage_axes(figure, panels, curves)
    handles = [
        Line2D([], [], color=BLUE, lw=1.8, label="covered"),
        Line2D([], [], color=INK, lw=1, ls=DASHED, label="promise 1-α"),
        Patch(fc=MUTED, alpha=0.22, label="± 2 deviations of so many records"),
    ]
    if points is not None:
        handles.append(Line2D([], [], label="thresholds in use", **POINT))
    figure.legend(handles=handles, loc="outside upper left", ncols=3 if width > 5 else 2)
    return figure


@style.styled
def many_curves(
    alphas: Float64,
    curves: Mapping[str, tuple[int, Float64]],
    *,
    width: float = style.WIDE,
) -> Figure:
    """Coverage against α, all sites in one panel; the lowest and the highest are named.

    Parameters
    ----------
    alphas, curves
        As in `coverage_curves`.
    """
    figure, (panel,) = style.grid(width, 3.6, 1, 1)
    for _, covered in curves.values():
        panel.plot(alphas, 100 * covered, color=MUTED, lw=0.7, alpha=0.6)
    _promise(panel, alphas)
    low, high = extremes(alphas, curves)
    for name, colour, marker in ((low, ORANGE, "v"), (high, GREEN, "^")):
        panel.plot(alphas, 100 * curves[name][1], color=colour, lw=1.8, marker=marker, markevery=4,
                   ms=5)  # fmt: skip
    panel.grid(visible=True)
    _coverage_axes(figure, [panel], curves)
    crop = 30 if width > style.NARROW else 16
    handles = [
        Line2D([], [], color=MUTED, lw=0.9, label=f"{len(curves)} sites"),
        Line2D([], [], color=INK, lw=1, ls=DASHED, label="promise 1-α"),
        Line2D([], [], color=ORANGE, marker="v", ms=5, label=f"lowest, {shortened(low, crop)}"),
        Line2D([], [], color=GREEN, marker="^", ms=5, label=f"highest, {shortened(high, crop)}"),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=4 if width > 5 else 2)
    return figure


def extremes(alphas: Float64, curves: Mapping[str, tuple[int, Float64]]) -> tuple[str, str]:
    """The sites with the lowest and the highest coverage at the level nearest to α = 0.1."""
    at = int(np.argmin(np.abs(alphas - 0.1)))
    order = sorted(curves, key=lambda name: float(curves[name][1][at]))
    return order[0], order[-1]


def score_ticks(axes: Axes, axis: ScoreAxis, width: float) -> None:
    """Scores at ticks of an axis that is even in the bins of a sketch."""
    places, texts = zip(*axis.ticks(width - MARGINS), strict=True)
    axes.set_xticks(places, texts)
    axes.set_xlabel(SCORE)


def _coverage_axes(
    figure: Figure, panels: Sequence[Axes], curves: Mapping[str, tuple[int, Float64]]
) -> None:
    least = min(float(covered.min()) for _, covered in curves.values())
    low = min(40, 20 * int(5 * least))
    panels[0].set_xlim(0, 0.5)
    panels[0].set_ylim(low, 102)
    panels[0].set_xticks([0, 0.1, 0.2, 0.3, 0.4, 0.5], ["0", ".1", ".2", ".3", ".4", ".5"])
    panels[0].set_yticks(range(low, 101, 20))
    figure.supxlabel("error rate α asked for", fontsize=9)
    figure.supylabel("own records covered (%)", fontsize=9)


def _promise(panel: Axes, alphas: Float64) -> None:
    panel.plot(alphas, 100 * (1 - alphas), color=INK, lw=1, ls=DASHED)


def _shade(level: int) -> float:
    return 0.06 + 0.9 * level / LEVELS


def _records(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"


def _boxes(where: NDArray[np.intp], places: Float64) -> Path:
    """One path around all cells of a list of (row, column)."""
    left, right = places[where[:, 1]], places[where[:, 1] + 1]
    top, bottom = where[:, 0] - 0.5, where[:, 0] + 0.5
    corners = np.stack(
        [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], axis=0
    )
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(corners.transpose(2, 0, 1).reshape(-1, 2), np.tile(codes, len(where)))


def _strokes(where: NDArray[np.intp], places: Float64) -> Path:
    """A minus in every cell of a list of (row, column)."""
    left, right = places[where[:, 1]], places[where[:, 1] + 1]
    reach = np.minimum(0.3 * (right - left), 0.008)
    middle = (left + right) / 2
    ends = np.stack([(middle - reach, where[:, 0]), (middle + reach, where[:, 0])], axis=0)
    codes = [Path.MOVETO, Path.LINETO]
    return Path(ends.transpose(2, 0, 1).reshape(-1, 2), np.tile(codes, len(where)))
