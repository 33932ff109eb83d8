"""Figures of coverage, set sizes, scores and label mixes by site, from plain arrays and names.

Every function takes `width` in inches (`style.WIDE` or `style.NARROW`) and arranges its panels
for it. None of them touches pyplot or the user's settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from fedcover.report.estimate import Estimate
from fedcover.report.figures import style
from fedcover.report.figures.style import BLUE, DASHED, GREEN, INK, MUTED, ORANGE, PAPER, key

Float64 = NDArray[np.float64]

VERDICTS = {
    "below": (ORANGE, "v", "below the promise"),
    "on": (BLUE, "o", "as promised"),
    "above": (GREEN, "^", "above it"),
}


@style.styled
def coverage(
    panels: Mapping[str, Sequence[Estimate]],
    rows: Sequence[str],
    target: float,
    *,
    width: float = style.WIDE,
) -> Figure:
    """Does every site get its 1-α? One panel per method, one row per site.

    Marker: mean over repetitions, by verdict against `target`. Thick bar: confidence interval of
    the mean. Thin line: middle 90% of repetitions.

    Parameters
    ----------
    panels
        By method, one estimate per site.
    rows
        Names of the sites.
    target
        The promise 1-α.
    """
    figure, axes = _panels_of_rows(len(panels), len(rows), width)
    least = min(e.least for estimates in panels.values() for e in estimates)
    left = max(0.0, np.floor(20 * (least - 0.005)) / 20)
    for panel, (name, estimates) in zip(axes, panels.items(), strict=True):
        panel.set_title(name)
        panel.axvline(100 * target, color=INK, lw=1, ls=DASHED, zorder=1)
        for y, e in enumerate(estimates):
            colour, marker, _ = VERDICTS[e.verdict(target)]
            panel.plot([100 * e.least, 100 * e.most], [y, y], color=colour, lw=1, zorder=2)
            thick: Any = {"lw": 4.5, "alpha": 0.45, "solid_capstyle": "butt", "zorder": 3}
            panel.plot([100 * e.low, 100 * e.high], [y, y], color=colour, **thick)
            panel.plot(100 * e.mean, y, marker, color=colour, ms=6, mec=PAPER, mew=0.6, zorder=4)
        panel.set_xlim(100 * left, 100.5)
        panel.set_xticks(np.arange(100, 100 * left - 1e-9, -10 if left < 0.85 else -5))
        panel.grid(axis="x")
        style.named_rows(panel, rows)
    figure.supxlabel("coverage: records whose true label is in the set (%)")
    verdicts = [key(text, c, marker=m, ls="", ms=5) for c, m, text in VERDICTS.values()]
    style.legend(figure, [style.promise(f"promise {_percent(target)}"), *verdicts], 4, 2)
    return figure


@style.styled
def set_sizes(
    panels: Mapping[str, Float64],
    means: Mapping[str, Sequence[float]],
    rows: Sequence[str],
    levels: Sequence[str],
    *,
    width: float = style.WIDE,
) -> Figure:
    """How big are the sets? One panel per site, one stacked bar per method.

    Parameters
    ----------
    panels
        By site, (methods, levels) shares of sets of each size class; rows sum to 1.
    means
        By site, mean size per method, written beside the bars.
    rows
        Names of the methods.
    levels
        Names of the size classes, smallest first; the stronger the colour, the larger.
    """
    figure, axes = _panels_of_rows(len(panels), len(rows), width)
    looks = [_level_look(k, len(levels)) for k in range(len(levels))]
    for panel, (name, shares) in zip(axes, panels.items(), strict=True):
        panel.set_title(name)
        starts = np.cumsum(shares, axis=1) - shares
        for k, look in enumerate(looks):
            bars, left = 100 * shares[:, k], 100 * starts[:, k]
            panel.barh(np.arange(len(rows)), bars, left=left, height=0.72, **look)
        for y, mean in enumerate(means[name]):
            panel.text(103, y, f"{mean:.1f}", va="center", fontsize=8)
        panel.set(xlim=(0, 118), xticks=[0, 50, 100])
        style.named_rows(panel, rows)
    figure.supxlabel("share of sets (%); at the right, mean number of labels per set")
    patches = [Patch(label=text, **look) for text, look in zip(levels, looks, strict=True)]
    title = {"title": "labels in the set", "alignment": "left"}
    style.legend(figure, patches, len(levels), 3, **title)
    return figure


@style.styled
def score_curves(
    scores: Mapping[str, Float64],
    threshold: float,
    target: float,
    *,
    width: float = style.WIDE,
) -> Figure:
    """Do labels differ in difficulty? Distribution of the scores of each label, one panel each.

    Parameters
    ----------
    scores
        By label, the scores of records of that label, in the order of the panels.
    threshold
        One score for all labels; a dot marks the share of each label at or below it.
    target
        The promise 1-α.
    """
    figure, axes = style.panels(len(scores), 5, width, 0.55, 1.25)
    everything = np.concatenate(list(scores.values()))
    for panel, (name, values) in zip(axes, scores.items(), strict=True):
        share = float((values <= threshold).mean())
        colour = ORANGE if share < target else BLUE
        panel.axhline(100 * target, color=MUTED, lw=0.8, ls=(0, (1, 2)))
        panel.axvline(threshold, color=INK, lw=1, ls=DASHED)
        panel.plot(*_steps(everything), color=MUTED, lw=0.9)
        panel.plot(*_steps(values), color=colour, lw=1.8)
        dot: Any = {"marker": "v" if share < target else "o", "mec": PAPER, "mew": 0.6, "ls": ""}
        panel.plot(threshold, 100 * share, color=colour, ms=5.5, zorder=4, **dot)
        panel.set_title(f"{name}: {share:.0%}", color=INK)
        panel.set(xlim=(0, 1), ylim=(0, 104), yticks=[0, 50, 100])
        panel.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
        panel.grid(visible=True)
    figure.supxlabel("score of the true label (0 expected, 1 surprising)")
    figure.supylabel("records with at most this score (%)")
    keys = [
        key("this label", BLUE, lw=1.8, marker="o", ms=5),
        key(f"covered less than {_percent(target)}", ORANGE, lw=1.8, marker="v", ms=5),
        key("all labels", MUTED, lw=0.9),
        style.promise("one threshold for all"),
    ]
    style.legend(figure, keys, 4, 2)
    return figure


@style.styled
def label_mix(
    shares: Float64,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    xlabel: str,
    ylabel: str,
    width: float = style.WIDE,
) -> Figure:
    """How different are the sites? Shares (sites, labels) in percent."""
    figure, axes = style.single(width, 0.75 + 0.34 * len(rows))
    top = float(shares.max())
    for i, j in np.ndindex(*shares.shape):
        depth = float(shares[i, j]) / top
        shade: Any = {"fc": BLUE, "alpha": 0.04 + 0.92 * depth, "lw": 0}
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **shade))
        centred: Any = {"ha": "center", "va": "center", "color": PAPER if depth > 0.55 else INK}
        axes.text(j, i, f"{100 * shares[i, j]:.0f}", fontsize=8.5, **centred)
    axes.set_xticks(range(len(columns)), columns)
    axes.set(xlim=(-0.5, len(columns) - 0.5), xlabel=xlabel, ylabel=ylabel)
    axes.tick_params(axis="x", length=0)
    axes.spines[:].set_visible(False)
    style.named_rows(axes, rows)
    return figure


def _panels_of_rows(n: int, rows: int, width: float) -> tuple[Figure, list[Axes]]:
    """Panels with named rows, below a legend."""
    legend = 0.62 if width > style.NARROW else 0.84
    ragged = n % style.beside(n, 3, width) > 0  # numbers of an axis inside the figure, too
    return style.panels(n, 3, width, legend + 0.2 * ragged, 0.42 + 0.21 * rows)


def _percent(share: float) -> str:
    return f"{round(100 * share, 6):g}%"


def _level_look(k: int, n: int) -> dict[str, Any]:
    """Fill of the k-th of n ordered classes: from pale to full blue."""
    return {"fc": (*to_rgb(BLUE), 0.12 + 0.88 * k / max(1, n - 1)), "ec": PAPER, "lw": 0.7}


def _steps(values: Float64) -> tuple[Float64, Float64]:
    """Empirical distribution function in percent, thinned to at most 120 points."""
    at = np.sort(values)
    share = 100 * np.arange(1, len(at) + 1) / len(at)
    keep = np.unique(np.linspace(0, len(at) - 1, min(len(at), 120)).astype(int))
    return np.concatenate([[0.0], at[keep], [1.0]]), np.concatenate([[0.0], share[keep], [100.0]])
