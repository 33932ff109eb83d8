"""Figures about one site's calibration from a sketch: its score distribution, and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from fedcover.report import style
from fedcover.report.score_axis import ScoreAxis
from fedcover.report.sketch_figures import score_ticks
from fedcover.report.style import BLUE, GREEN, INK, MUTED, PAPER

Float64 = NDArray[np.float64]

MARKERS = "os^Dv*Pp"
"""One for each threshold that is marked."""

SHORT = 18
"""Letters of a threshold up to which keys fit beside each other."""


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
    figure, (axes,) = style.grid(width, 2.9 + 0.2 * lines, 1, 1)
    band = np.clip(np.stack([values - 2 * deviation, values + 2 * deviation]), 0, 1)
    axes.fill_between(places, *(100 * band), color=BLUE, alpha=0.2, lw=0)
    axes.plot(places, 100 * values, color=BLUE, lw=1.8)
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=BLUE, lw=1.8, label="from the sketch"),
        Patch(fc=BLUE, alpha=0.2, label="± 2 deviations"),
    ]
    if own is not None:
        axes.step(own[0], 100 * own[1], where="post", color=GREEN, lw=1.1, ls=(0, (3, 1.5)))
        look = {"color": GREEN, "lw": 1.1, "ls": (0, (3, 1.5))}
        handles.append(Line2D([], [], label="own scores", **look))  # type: ignore[arg-type]
    for marker, mark in zip(MARKERS, marks, strict=False):
        level, middle = 100 * (1 - mark.alpha), (mark.low + mark.high) / 2
        axes.plot([0, middle, middle], [level, level, 0], color=MUTED, lw=0.7, ls=(0, (1, 2)))
        axes.plot([mark.low, mark.high], [level, level], color=INK, lw=2.2, solid_capstyle="butt")
        look = {"color": INK, "marker": marker, "ms": 6.5, "mec": PAPER, "mew": 0.7}
        axes.plot(middle, level, zorder=4, ls="", **look)  # type: ignore[arg-type]
        text = f"α = {mark.alpha:g}: {mark.text}"
        handles.append(Line2D([], [], ls="", label=text, **look))  # type: ignore[arg-type]
    axes.set_xlim(0, 1.01)
    axes.set_ylim(0, 103)
    axes.set_yticks([0, 20, 40, 60, 80, 100])
    axes.set_ylabel("records with at most this score (%)")
    score_ticks(axes, axis, width)
    axes.grid(axis="y")
    figure.legend(handles=handles, loc="outside upper left", ncols=columns)
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
    figure, (axes,) = style.grid(width, 0.75 + 0.27 * len(rows), 1, 1)
    most = max(100 * max(rows.values()), 1e-9)
    for y, (name, deviation) in enumerate(rows.items()):
        together = name in totals
        axes.barh(y, 100 * deviation, height=0.62, fc=INK if together else BLUE,
                  alpha=0.85 if together else 0.6)  # fmt: skip
        axes.text(100 * deviation + 0.015 * most, y, f"{100 * deviation:.2f}", va="center",
                  fontsize=8)  # fmt: skip
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_xlim(0, 1.14 * most)
    figure.supxlabel("standard deviation of the coverage (points)", fontsize=9)
    return figure
