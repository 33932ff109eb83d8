"""Charts from plain arrays and names: for any experiment, and coverage, sizes and mixes by site.

Every function takes `width` in inches (`style.WIDE` or `style.NARROW`) and arranges its panels
for it. None of them touches pyplot or the user's settings. All can be read in grey.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from fedcover.report.estimate import Estimate
from fedcover.report.figures import style
from fedcover.report.figures.style import BLUE, DASHED, GREEN, GRID, INK, MUTED, ORANGE, PAPER, key

Float64 = NDArray[np.float64]

LOOKS = (
    (BLUE, "-", "o"),
    (ORANGE, "--", "s"),
    (GREEN, "-.", "^"),
    (INK, ":", "D"),
    (MUTED, (0, (5, 1)), "v"),
    (BLUE, (0, (1, 1)), "P"),
)
"""Colour, line and marker of the first, second, … thing drawn; told apart without colour too."""

FEW = 6
"""Most points of a curve that are each named on a logarithmic axis."""

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

HATCHES = ("", "/////", "....", "xxxxx", "-----", "\\\\\\\\\\")
"""What fills the first, second, … violin of a group."""


@dataclass(frozen=True)
class Line:
    """A curve with an optional band: x, y, and low and high around y."""

    x: Float64
    y: Float64
    low: Float64 | None = None
    high: Float64 | None = None


@style.styled
def violins(
    groups: Mapping[str, Mapping[str, Float64]],
    target: float,
    xlabel: str,
    ylabel: str,
    *,
    width: float = style.WIDE,
) -> Figure:
    """Distributions side by side: a group of violins per name, in each one violin per method.

    White mark: median; thick bar: middle half.
    """
    kinds = list(next(iter(groups.values())))
    narrow = width <= style.NARROW
    columns, step = 2 if narrow else 5, 0.8 / len(kinds)
    figure, axes = style.single(width, 3.2 + 0.17 * -(-len(kinds) // columns))
    for k, kind in enumerate(kinds):
        values = [group[kind] for group in groups.values()]
        places = [i + (k - (len(kinds) - 1) / 2) * step for i in range(len(groups))]
        _violin(axes, values, places, step * 0.9, k)
    axes.axhline(target, color=MUTED, lw=1, ls="--", zorder=1)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.tick_params(axis="x", labelsize=7 if narrow else 8)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(axis="y")
    keys = [Patch(label=kind, **_filling(k)) for k, kind in enumerate(kinds)]
    figure.legend(handles=keys, loc="outside lower center", ncols=columns, fontsize=7.5)
    return figure


def _filling(k: int) -> dict[str, Any]:
    """Look of the k-th violin: filled, or else hatched, because SVG fades both together."""
    colour, hatch = LOOKS[k % len(LOOKS)][0], HATCHES[k % len(HATCHES)]
    face = "none" if hatch else (*to_rgb(colour), 0.3)
    return {"edgecolor": colour, "facecolor": face, "hatch": hatch, "linewidth": 0.8}


def _violin(
    axes: Axes,
    values: Sequence[Float64],
    place: Sequence[float],
    width: float,
    k: int,
    side: Literal["vertical", "horizontal"] = "vertical",
) -> None:
    spread = [v if np.ptp(v) > 1e-9 else v + np.linspace(-1e-6, 1e-6, len(v)) for v in values]
    parts = axes.violinplot(
        spread, positions=place, widths=width, showextrema=False, orientation=side
    )
    for body in parts["bodies"]:  # type: ignore[attr-defined]
        body.set(alpha=None, **_filling(k))
    for x, v in zip(place, values, strict=True):
        low, middle, high = np.quantile(v, [0.25, 0.5, 0.75])
        bar, dot = ([x, x], [low, high]), ([x], [middle])
        if side == "horizontal":
            bar, dot = bar[::-1], dot[::-1]
        axes.plot(*bar, color=INK, lw=2.2, solid_capstyle="butt")
        axes.plot(*dot, marker="o", ms=3.2, color=PAPER, mec=INK, mew=0.8)


@style.styled
def sideways(
    rows: Mapping[str, Float64], xlabel: str, *, width: float = style.WIDE, log: bool = False
) -> Figure:
    """One lying violin per method, for long names; white mark: median; thick bar: middle half."""
    figure, axes = style.single(width, 0.8 + 0.3 * len(rows))
    if log:
        axes.set_xscale("log")
    _violin(axes, list(rows.values()), range(len(rows)), 0.8, 0, "horizontal")
    if log:
        _plain_ticks(axes.xaxis)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8 if width > style.NARROW else 7)
    axes.set_xlabel(xlabel)
    axes.grid(axis="x")
    return figure


@style.styled
def histograms(
    panels: Mapping[str, Float64],
    target: float,
    xlabel: str,
    limits: tuple[float, float],
    *,
    width: float = style.WIDE,
) -> Figure:
    """One histogram per method, on common axes; dashed: the target, solid: the mean."""
    line = 1.25 if width > style.NARROW else 1.37
    figure, axes = style.panels(len(panels), 3, width, 0.7, line, sharey=False)
    low, high = limits
    bins = np.linspace(low, high, 41).tolist()
    for panel, (name, values) in zip(axes, panels.items(), strict=True):
        mean = float(values.mean())
        seen = values[(values >= low) & (values <= high)]
        heights, _, _ = panel.hist(seen, bins=bins, color=BLUE, alpha=0.75, histtype="stepfilled")
        panel.set_ylim(0, 1.1 * max(float(np.max(heights)), 1.0))
        panel.axvline(target, color=INK, lw=1, ls="--")
        if low <= mean <= high:
            panel.axvline(mean, color=ORANGE, lw=1.6)
        if (share := 1 - len(seen) / len(values)) >= 0.005:
            words, at = f"{share:.0%} below {low:g}", 0.02 if share > 0.5 else 0.42
            panel.text(at, 0.85, words, transform=panel.transAxes, fontsize=7, color=ORANGE)
        gap = ": " if width > style.NARROW else "\n"
        panel.set_title(f"{name}{gap}{mean:.3f} ± {values.std():.3f}", fontsize=7.5)
        panel.set_yticks([])
    figure.supxlabel(xlabel)
    several = len(panels) > style.beside(len(panels), 3, width)
    figure.supylabel(f"repetitions{' (each panel to its own height)' * several}")
    return figure


@style.styled
def lines(
    curves: Mapping[str, Line],
    xlabel: str,
    ylabel: str,
    *,
    width: float = style.WIDE,
    target: float | None = None,
    log: str = "",
    marks: bool = True,
) -> Figure:
    """Curves with bands. `log` names the axes that are logarithmic: "", "x", "y" or "xy"."""
    columns = 1 if width <= style.NARROW else 3
    figure, axes = style.single(width, 3.1 + 0.17 * -(-len(curves) // columns))
    for k, (name, line) in enumerate(curves.items()):
        colour, dash, marker = LOOKS[k % len(LOOKS)]
        look: Any = {"color": colour, "ls": dash, "marker": marker if marks else "", "ms": 4}
        axes.plot(line.x, line.y, label=name, **look)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.13, lw=0)
    if target is not None:
        axes.axhline(target, color=MUTED, lw=1, ls="--")
    if "x" in log:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis)
        at = np.unique(np.concatenate([line.x for line in curves.values()]))
        if len(at) <= FEW:
            axes.set_xticks(at)
    if "y" in log:
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(color=GRID)
    figure.legend(loc="outside lower center", fontsize=7.5, ncols=columns)
    return figure


def _plain_ticks(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis of few decades, where 10⁰ says too little; else powers.

    Both as plain text, as everything in a figure.
    """
    low, high = axis.get_view_interval()
    if high / low <= 1000:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_formatter(FuncFormatter(lambda x, _: _power(x)))
        axis.set_minor_formatter(NullFormatter())


def _power(x: float) -> str:
    """A power of ten as 10 with its exponent."""
    return f"10{str(round(math.log10(x))).translate(RAISED)}" if x > 0 else ""


@style.styled
def points(
    panels: Mapping[str, tuple[Float64, NDArray[np.int64]]],
    names: Sequence[str],
    xlabel: str,
    ylabel: str,
    *,
    width: float = style.WIDE,
) -> Figure:
    """Records in the plane, by label, one panel per site."""
    columns = len(panels) if width > style.NARROW else 1
    figure, axes = style.panels(len(panels), columns, width, 0.6, 2.6)
    for panel, (title, (x, y)) in zip(axes, panels.items(), strict=True):
        for k, name in enumerate(names):
            colour, _, marker = LOOKS[k]
            look: Any = {"c": colour, "marker": marker, "alpha": 0.6, "lw": 0}
            across, up = x[y == k].T
            panel.scatter(across, up, s=9, label=name, **look)
        panel.set_title(title)
        panel.set(xlabel=xlabel, ylabel=ylabel)
    axes[0].legend(fontsize=7.5, loc="upper left")
    return figure


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
