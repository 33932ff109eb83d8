"""Figures of a sketch: its table, the coverage it gives, and a site's thresholds from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from fedcover.report.figures import style
from fedcover.report.figures.style import BLUE, DASHED, GREEN, INK, MUTED, ORANGE, PAPER, key
from fedcover.report.score_axis import ScoreAxis

Float64 = NDArray[np.float64]

LEVELS = 12
"""Shades of a heat map; cells of one shade are one path, which keeps the page small."""

SCORE = "score of the true label (0 expected, 1 surprising)"
POINT: Any = {"marker": "o", "ms": 5.5, "mec": PAPER, "mew": 0.7, "ls": ""}
OWN: Any = {"lw": 1.1, "ls": (0, (3, 1.5))}

MARGINS = 1.7
"""Inches beside the score axis, at most: names of rows at the left, totals at the right."""

MARKERS = "os^Dv*Pp"
"""One for each threshold that is marked."""

SHORT = 18
"""Letters of a threshold up to which keys fit beside each other."""


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
    figure, axes = style.single(width, 1.15 + (0.17 if small else 0.26) * len(rows))
    most = max(float(np.abs(cells).max()), 1e-300)
    depth = np.ceil(LEVELS * np.sqrt(np.abs(cells) / most)).astype(int)
    for colour, side in ((BLUE, cells > 0), (ORANGE, cells < 0)):
        for level in range(1, LEVELS + 1):
            where = np.argwhere(side & (depth == level))
            if len(where):
                shade = {"fc": colour, "alpha": _shade(level), "lw": 0}
                axes.add_patch(PathPatch(_boxes(where, places), **shade))
    minus = np.argwhere(cells < 0)
    if len(minus):
        axes.add_patch(PathPatch(_strokes(minus, places), fill=False, ec=INK, lw=0.7))
    axes.set_xlim(0, 1)
    style.named_rows(axes, rows, fontsize=7 if small else 8.5)
    for y, text in enumerate(totals):
        axes.text(1.012, y, text, va="center", fontsize=7 if small else 8)
    axes.text(1.012, -0.7, "records", va="bottom", fontsize=7 if small else 8, color=MUTED)
    _score_ticks(axes, axis, width)
    axes.set_ylabel(ylabel)
    marks = [Patch(fc=BLUE, alpha=_shade(k), label=_records(most * (k / LEVELS) ** 2))
             for k in (2, 5, 8, LEVELS)]  # fmt: skip
    if len(minus):
        low = max(1, int(depth[cells < 0].max()))
        marks.insert(0, Patch(fc=ORANGE, alpha=_shade(low), label=_records(float(cells.min()))))
    title = "records in a cell" + (
        f"; noise ± {noise:.3g}, a minus marks less than 0" * bool(noise)
    )
    look = {"title_fontsize": 8.5, "columnspacing": 1.2, "handlelength": 1.4}
    style.legend(figure, marks, 5, 5, title=title, alignment="left", **look)
    return figure


@style.styled
def coverage_curves(
    alphas: Float64,
    curves: Mapping[str, tuple[int, Float64]],
    points: tuple[Float64, Float64] | None = None,
    *,
    width: float = style.WIDE,
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
    """
    line = 2.2 if len(curves) == 1 else 1.35
    figure, panels = style.panels(len(curves), 4, width, 0.8, line)
    for panel, (name, (n, covered)) in zip(panels, curves.items(), strict=True):
        chance = 2 * np.sqrt(alphas * (1 - alphas) / n)
        band = np.clip(np.stack([1 - alphas - chance, 1 - alphas + chance]), 0, 1)
        panel.fill_between(alphas, *(100 * band), color=MUTED, alpha=0.22, lw=0)
        _promise(panel, alphas)
        panel.plot(alphas, 100 * covered, color=BLUE, lw=1.8)
        if points is not None:
            panel.plot(points[0], 100 * points[1], color=INK, zorder=4, **POINT)
        panel.set_title(f"{style.shortened(name, 22 if width > style.NARROW else 18)} ({n})")
        panel.grid(visible=True)
    _coverage_axes(figure, panels, curves)
    keys = [
        key("covered", BLUE, lw=1.8),
        style.promise("promise 1-α"),
        Patch(fc=MUTED, alpha=0.22, label="± 2 deviations of so many records"),
    ]
    if points is not None:
        keys.append(key("thresholds in use", **POINT))
    style.legend(figure, keys, 3, 2)
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
    figure, panel = style.single(width, 3.6)
    for _, covered in curves.values():
        panel.plot(alphas, 100 * covered, color=MUTED, lw=0.7, alpha=0.6)
    _promise(panel, alphas)
    low, high = extremes(alphas, curves)
    for name, colour, marker in ((low, ORANGE, "v"), (high, GREEN, "^")):
        look: Any = {"color": colour, "marker": marker, "ms": 5}
        panel.plot(alphas, 100 * curves[name][1], lw=1.8, markevery=4, **look)
    panel.grid(visible=True)
    _coverage_axes(figure, [panel], curves)
    crop = 30 if width > style.NARROW else 16
    keys = [
        key(f"{len(curves)} sites", MUTED, lw=0.9),
        style.promise("promise 1-α"),
        key(f"lowest, {style.shortened(low, crop)}", ORANGE, marker="v", ms=5),
        key(f"highest, {style.shortened(high, crop)}", GREEN, marker="^", ms=5),
    ]
    style.legend(figure, keys, 4, 2)
    return figure


def extremes(alphas: Float64, curves: Mapping[str, tuple[int, Float64]]) -> tuple[str, str]:
    """The sites with the lowest and the highest coverage at the level nearest to α = 0.1."""
    at = int(np.argmin(np.abs(alphas - 0.1)))
    order = sorted(curves, key=lambda name: float(curves[name][1][at]))
    return order[0], order[-1]


@dataclass(frozen=True)
class Mark:
    """Thresholds of one level: where they are on the axis, from the lowest to the highest label.

    alpha : the level; text : the thresholds in words; low, high : their places from 0 to 1.
    """

    alpha: float
    text: str
    low: float
    high: float


@style.styled
def distribution(
    axis: ScoreAxis,
    places: Float64,
    values: Float64,
    deviation: Float64,
    marks: Sequence[Mark],
    own: tuple[Float64, Float64] | None = None,
    *,
    width: float = style.WIDE,
) -> Figure:
    """A site's distribution function with its uncertainty, and the thresholds on it.

    Parameters
    ----------
    axis, places
        The score axis, and (K,) points on it.
    values, deviation
        (K,) share of the site's records with at most this score, and its standard deviation.
    marks
        Thresholds, at most as many as there are `MARKERS`.
    own
        The same from the site's own scores: places and shares.
    """
    long = max(len(mark.text) for mark in marks) > SHORT
    columns = 3 - long if width > style.NARROW else 1 + (len(marks) < 4 and not long)
    lines = -(-(len(marks) + 2 + (own is not None)) // columns)
    figure, axes = style.single(width, 2.9 + 0.2 * lines)
    band = np.clip(np.stack([values - 2 * deviation, values + 2 * deviation]), 0, 1)
    axes.fill_between(places, *(100 * band), color=BLUE, alpha=0.2, lw=0)
    axes.plot(places, 100 * values, color=BLUE, lw=1.8)
    keys: list[Artist] = [key("from the sketch", BLUE, lw=1.8)]
    keys.append(Patch(fc=BLUE, alpha=0.2, label="± 2 deviations"))
    if own is not None:
        axes.step(own[0], 100 * own[1], where="post", color=GREEN, **OWN)
        keys.append(key("own scores", GREEN, **OWN))
    for marker, mark in zip(MARKERS, marks, strict=False):
        level, middle = 100 * (1 - mark.alpha), (mark.low + mark.high) / 2
        axes.plot([0, middle, middle], [level, level, 0], color=MUTED, lw=0.7, ls=(0, (1, 2)))
        axes.plot([mark.low, mark.high], [level, level], color=INK, lw=2.2, solid_capstyle="butt")
        look = {**POINT, "marker": marker, "ms": 6.5}
        axes.plot(middle, level, color=INK, zorder=4, **look)
        keys.append(key(f"α = {mark.alpha:g}: {mark.text}", **look))
    axes.set(xlim=(0, 1.01), ylim=(0, 103), yticks=[0, 20, 40, 60, 80, 100])
    axes.set_ylabel("records with at most this score (%)")
    _score_ticks(axes, axis, width)
    axes.grid(axis="y")
    style.legend(figure, keys, columns, columns)
    return figure


@style.styled
def error_parts(
    parts: Mapping[str, float], totals: Mapping[str, float], *, width: float = style.WIDE
) -> Figure:
    """Where the error of the coverage comes from: a bar for each part, and for all together.

    Parameters
    ----------
    parts
        Standard deviations of the coverage by where they come from.
    totals
        Those of everything together, by how the thresholds are found.
    """
    rows = {**parts, **totals}
    figure, axes = style.single(width, 0.75 + 0.27 * len(rows))
    most = max(100 * max(rows.values()), 1e-9)
    for y, (name, deviation) in enumerate(rows.items()):
        length, text = 100 * deviation, f"{100 * deviation:.2f}"
        look: Any = {"fc": INK, "alpha": 0.85} if name in totals else {"fc": BLUE, "alpha": 0.6}
        axes.barh(y, length, height=0.62, **look)
        axes.text(length + 0.015 * most, y, text, va="center", fontsize=8)
    style.named_rows(axes, list(rows))
    axes.set_xlim(0, 1.14 * most)
    figure.supxlabel("standard deviation of the coverage (points)")
    return figure


def _score_ticks(axes: Axes, axis: ScoreAxis, width: float) -> None:
    """Scores at ticks of an axis that is even in the bins of a sketch."""
    places, texts = zip(*axis.ticks(width - MARGINS), strict=True)
    axes.set_xticks(places, texts)
    axes.set_xlabel(SCORE)


def _coverage_axes(
    figure: Figure, panels: Sequence[Axes], curves: Mapping[str, tuple[int, Float64]]
) -> None:
    least = min(float(covered.min()) for _, covered in curves.values())
    low = min(40, 20 * int(5 * least))
    panels[0].set(xlim=(0, 0.5), ylim=(low, 102), yticks=range(low, 101, 20))
    panels[0].set_xticks([0, 0.1, 0.2, 0.3, 0.4, 0.5], ["0", ".1", ".2", ".3", ".4", ".5"])
    figure.supxlabel("error rate α asked for")
    figure.supylabel("own records covered (%)")


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
