"""Figures of single results: thresholds of a calibration, coverage by group, sizes of sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedcover.diagnostics import Coverage
from fedcover.report.figures import style
from fedcover.report.figures.charts import LOOKS
from fedcover.report.figures.style import BLUE, INK, ORANGE, PAPER, key

Float64 = NDArray[np.float64]

NAMED = 40
"""Most labels that get a row of their own."""

MOST_LEVELS = 6
"""Most levels whose thresholds are drawn: so many looks can be told apart."""

BARS = 40
"""Most labels up to which every set size has a bar."""


@style.styled
def thresholds(
    limits: Float64,
    names: Sequence[str],
    levels: Sequence[str],
    title: str,
    *,
    width: float = style.WIDE,
) -> Figure:
    """How unusual may a label look and still be in the set? A threshold for each label.

    Parameters
    ----------
    limits
        (A, C) thresholds.
    names, levels
        Names of the labels, and what each level is called.
    title
        Whose thresholds these are.
    """
    named = len(names) <= NAMED
    figure, axes = style.single(width, 1.2 + 0.24 * len(names) if named else 4.2)
    labels = np.arange(len(names))
    for k, row in enumerate(limits):
        colour, _, marker = LOOKS[k % len(LOOKS)]
        look: Any = {"color": colour, "marker": marker, "ls": "", "mec": PAPER, "mew": 0.5}
        axes.plot(row, labels, ms=6 if named else 2.5, **look)
    if named:
        crop = 28 if width > style.NARROW else 14
        style.named_rows(axes, [style.shortened(name, crop) for name in names])
    else:
        axes.set_ylabel("number of the label")
        axes.invert_yaxis()
    axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x")
    short, long = "threshold: largest score in the set", "the largest score with which a label is"
    axes.set_xlabel(short if width <= style.NARROW else f"threshold: {long} in the set")
    keys = [
        key(text, LOOKS[k % len(LOOKS)][0], marker=LOOKS[k % len(LOOKS)][2], ls="", ms=5)
        for k, text in enumerate(levels)
    ]
    style.legend(figure, keys, 4, 2, title=style.shortened(title, 60), alignment="left")
    return figure


@style.styled
def bands(
    levels: Mapping[str, Sequence[Coverage | None]],
    names: Sequence[str],
    targets: Sequence[float],
    *,
    width: float = style.WIDE,
) -> Figure:
    """How often is each group covered? A panel for each level, a point and a band for each group.

    Parameters
    ----------
    levels
        By level, the coverage of every group; None where a group has no record.
    names
        Names of the groups.
    targets
        The promise 1-α of each level.
    """
    figure, panels = style.panels(len(levels), 3, width, 0.95, 0.5 + 0.24 * len(names))
    lows = [c.low for groups in levels.values() for c in groups if c is not None and c.n]
    left = 10 * np.floor(10 * min([*lows, *targets]) - 0.2)
    for panel, (title, groups), target in zip(panels, levels.items(), targets, strict=True):
        panel.set_title(title)
        panel.axvline(100 * target, color=INK, lw=1, ls=style.DASHED, zorder=1)
        for y, c in enumerate(groups):
            if c is None or not c.n:
                continue
            missed = c.high < target
            colour, marker = (ORANGE, "v") if missed else (BLUE, "o")
            panel.plot([100 * c.low, 100 * c.high], [y, y], color=colour, lw=1.4, zorder=2)
            look: Any = {"color": colour, "mec": PAPER, "mew": 0.6, "zorder": 3}
            panel.plot(100 * c.value, y, marker, ms=6, **look)
        panel.set_xlim(max(-2, left), 102)
        panel.grid(axis="x")
        crop = 24 if width > style.NARROW else 14
        style.named_rows(panel, [style.shortened(name, crop) for name in names])
    figure.supxlabel("records whose label is in the set (%)")
    keys = [
        style.promise("the promise"),
        key("band reaches it", BLUE, marker="o", ms=5),
        key("band lies below it", ORANGE, marker="v", ms=5),
    ]
    style.legend(figure, keys, 3, 2)
    return figure


@style.styled
def sizes(
    levels: Mapping[str, NDArray[np.int64]], n_classes: int, *, width: float = style.WIDE
) -> Figure:
    """How big are the sets? A panel for each level, a bar for each size.

    Parameters
    ----------
    levels
        By level, (n,) how many labels each set holds.
    n_classes
        How many there are.
    """
    figure, panels = style.panels(len(levels), 3, width, 0.75, 1.9)
    most = max(int(values.max()) for values in levels.values())
    edges = np.arange(-0.5, most + 1) if most <= BARS else np.linspace(-0.5, most + 0.5, BARS)
    for panel, (name, values) in zip(panels, levels.items(), strict=True):
        heights = 100 * np.histogram(values, edges)[0] / len(values)
        middle = (edges[1:] + edges[:-1]) / 2
        panel.bar(middle, heights, width=0.86 * np.diff(edges), color=BLUE)
        panel.axvline(float(values.mean()), color=ORANGE, lw=1.4, ls=style.DASHED)
        panel.set_title(f"{name}: mean {values.mean():.2f}")
        panel.grid(axis="y")
    if most <= 12:
        panels[0].set_xticks(range(most + 1))
    n = len(next(iter(levels.values())))
    figure.supxlabel(f"labels in the set, of {n_classes:,}; dashed: the mean")
    figure.supylabel(f"of {n:,} sets (%)")
    return figure
