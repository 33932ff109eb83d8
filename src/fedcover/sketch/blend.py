"""A site's own scores beside the sketch: which of the two to trust, and how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover.protocols.noisy_curve import MARGIN
from fedcover.quantile import rounding_slack
from fedcover.sketch.mixture import Mixture
from fedcover.sketch.personal import Errors

Float64 = NDArray[np.float64]

HARDLY = 0.05
"""A share of one of the two below this is taken as none."""

DISAGREE = 3.5
"""Standard deviations between own scores and sketch from which they are said to disagree."""


@dataclass(frozen=True)
class Blend:
    """Thresholds from both, (A, C), the share of the own scores in them, (A,), and the error, (A,).

    disagree : how many deviations own scores and sketch are apart, at the α nearest to 1/2.
    """

    thresholds: Float64
    share: Float64
    error: Float64
    disagree: float


def blend(
    mixed: Mixture,
    errors: Errors,
    even_scores: Float64,
    scores: Float64,
    alphas: tuple[float, ...],
    same_data: bool,
    sketch_thresholds: Float64,
    common: float = 0.0,
    mode: str = "balanced",
) -> Blend:
    """The distribution function λ F_own + (1-λ) G, with λ by the errors of both.

    Own scores have errors of their own sample alone: α(1-α)/n. Where the label mix was counted from
    the same records, its error is in both, and only the part within labels sets them apart. Records
    that are in the sketch too make the two errors alike: their covariance is α(1-α) Σ_y P*(y) c_y.

    Parameters
    ----------
    mixed, errors
        The sketch's distribution function for this site, and its errors.
    even_scores
        (B + 1,) scores at its edges.
    scores
        (n,) the site's own scores.
    alphas
        Levels.
    same_data
        Whether the label mix was counted from the records of `scores`.
    sketch_thresholds
        (A, C) thresholds of the sketch alone, kept where λ is next to nothing.
    common
        Σ_y P*(y) c_y if the own records are in the sketch, else 0.
    mode
        "guaranteed" raises the level by the sketch's part of the error, and takes its function at
        the edge below.
    """
    own, n = np.sort(scores), len(scores)
    points = np.unique(np.concatenate([own, even_scores]))
    f_own = np.searchsorted(own, points, side="right") / n
    f_sketch = np.interp(points, mixed.curve.scores, mixed.curve.values)
    if mode == "guaranteed":
        edge = np.searchsorted(mixed.curve.scores, points, side="right") - 1
        f_sketch = np.maximum.accumulate(mixed.curve.values)[edge]
    out, shares, total, apart = [], [], [], 0.0
    # Compared where shares of a few records are nearest to normal: many looks, or looks far out,
    # would raise false alarms.
    middle = int(np.argmin(np.abs(np.asarray(alphas) - 0.5)))
    for a, alpha in enumerate(alphas):
        shared = errors.mix[a] ** 2 if same_data else 0.0
        theirs = float(errors.total[a] ** 2 - shared)
        mine = max(alpha * (1 - alpha) / n - shared, 1e-300)
        both = min(alpha * (1 - alpha) * common, theirs, mine)
        difference = max(theirs + mine - 2 * both, 1e-300)
        share = (theirs - both) / difference
        share = 0.0 if share < HARDLY else 1.0 if share > 1 - HARDLY else share
        at = int(np.argmin(np.abs(f_sketch - (1 - alpha))))
        if a == middle:
            apart = abs(f_own[at] - f_sketch[at]) / np.sqrt(difference)
        level = (1 - alpha) * (1 + share / n + (1 - share) * mixed.shares)
        level = level + MARGIN[mode] * (1 - share) * errors.systematic[a]
        values = np.append(share * f_own + (1 - share) * f_sketch, np.inf)
        found = np.append(points, 1.0)[np.searchsorted(values, level - rounding_slack(1.0, n))]
        out.append(sketch_thresholds[a] if share == 0 else found)
        shares.append(share)
        squares = share**2 * mine + (1 - share) ** 2 * theirs + 2 * share * (1 - share) * both
        total.append(np.sqrt(squares + shared))
    return Blend(np.array(out), np.array(shares), np.array(total), float(apart))
