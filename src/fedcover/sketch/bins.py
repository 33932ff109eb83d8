"""Score bins chosen from public quantities, even in a public monotone transform of the score.

Scores crowd: those of deterministic APS near 1, those of rank scores near 0. Bins that are even in
a logarithm of the distance to that end give the crowd as many bins as the rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.scores import APS, LAC, RAPS, SAPS, Margin, Score, TopK

Float64 = NDArray[np.float64]

WARPS = ("even", "upper", "lower")

NEAREST = {"upper": 1e-6, "lower": 1e-2}
"""Distance to the end of [0, 1] below which bins get no finer, unless said: "lower:0.001"."""

EXACT_BINS = 1024
"""Bins without privacy: a threshold is then less than 1e-3 above the exact quantile."""

MOST_BINS = 4096

MOST_CELLS = 1 << 26
"""Largest table, labels × bins: half a gigabyte."""


def warp_for(score: Score | None, n_classes: int) -> str:
    """The transform that spreads the scores of a kind over [0, 1]."""
    if isinstance(score, APS) and score.u != "uniform" and score.u > 0:
        return "upper"
    if isinstance(score, (LAC, Margin)):
        return "lower"
    if isinstance(score, (RAPS, SAPS, TopK)):
        # Divided by the largest value they could have; those that occur are that much smaller.
        divisor = score.divisor(n_classes)
        return "even" if divisor < 2 else f"lower:{0.1 / divisor:.3g}"
    return "even"


def checked_warp(warp: str) -> str:
    """A transform by name, with or without its nearest distance."""
    name, _, given = str(warp).partition(":")
    checks.choice(name, "warp", WARPS)
    if given or ":" in str(warp):
        try:
            nearest = float(given)
        except ValueError:
            nearest = np.nan
        if name == "even" or not 1e-12 <= nearest <= 1:
            raise FedcoverError(
                f"warp is {warp!r}",
                allowed="'even', 'upper' or 'lower', the latter two with a distance in [1e-12, 1]",
                fix="warp='upper:1e-6', for example",
            )
    return str(warp)


def _parts(warp: str) -> tuple[str, float]:
    name, _, given = warp.partition(":")
    return name, float(given) if given else NEAREST[name]


def to_even(values: Float64, warp: str) -> Float64:
    """The transform t: [0, 1] → [0, 1] in which bins are even."""
    if warp == "even":
        return values
    name, s = _parts(warp)
    end = values if name == "lower" else 1 - values
    t = np.log1p(end / s) / np.log1p(1 / s)
    return t if name == "lower" else 1 - t


def from_even(t: Float64, warp: str) -> Float64:
    """The inverse of `to_even`."""
    if warp == "even":
        return t
    name, s = _parts(warp)
    end = s * np.expm1((t if name == "lower" else 1 - t) * np.log1p(1 / s))
    return np.clip(end if name == "lower" else 1 - end, 0, 1)


def even_edges(bins: int, warp: str) -> Float64:
    """Edges of bins that are even in a transform, from 0 to 1."""
    edges = from_even(np.arange(bins + 1) / bins, warp)
    edges[[0, -1]] = 0, 1
    return edges


def checked_edges(given: ArrayLike) -> tuple[float, ...]:
    """Edges given by the user: from 0 to 1, strictly increasing."""
    edges = checks.as_float(checks.array(given, "bins"), "bins").astype(np.float64)
    ordered = edges.ndim == 1 and len(edges) >= 3 and bool((np.diff(edges) > 0).all())
    if not ordered or edges[0] != 0 or edges[-1] != 1 or len(edges) > MOST_BINS + 1:
        raise FedcoverError(
            f"bins has shape {edges.shape}, or is not an increasing list from 0 to 1",
            allowed=f"a number of bins up to {MOST_BINS}, or their edges from 0 to 1 in order",
            fix="bins=[0, .5, .8, .9, 1], for example",
        )
    return tuple(edges.tolist())
