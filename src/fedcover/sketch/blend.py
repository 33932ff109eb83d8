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

FALSE_ALARMS = 1e-3
"""How often own scores and sketch that agree are said to disagree, by chance."""


def disagreement(levels: int) -> float:
    """Standard deviations from which own scores and sketch disagree, at one of several levels."""
    from scipy.special import ndtri

    return float(-ndtri(FALSE_ALARMS / (2 * levels)))


def _apart(own: float, sketch: float, size: float) -> float:
    """Deviations between two shares, one of which was counted among `size`: by binomial tails.

    The share of a small sample is skewed, and none of it may lie beyond a high level by chance.
    """
    from scipy.special import betainc, ndtri

    count, share = own * size, float(np.clip(sketch, 1e-12, 1 - 1e-12))
    above = betainc(count, size - count + 1, share) if count > 0 else 1.0
    below = betainc(size - count, count + 1, 1 - share) if count < size else 1.0
    return float(-ndtri(np.clip(min(above, below), 1e-300, 0.5)))


@dataclass(frozen=True)
class Blend:
    """Thresholds from both, (A, C), the share of the own scores in them, (A,), and the error, (A,).

    disagree : how many deviations own scores and sketch are apart, at most; see `disagreement`.
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
    for a, alpha in enumerate(alphas):
        shared = errors.mix[a] ** 2 if same_data else 0.0
        theirs = float(errors.total[a] ** 2 - shared)
        mine = max(alpha * (1 - alpha) / n - shared, 1e-300)
        both = min(alpha * (1 - alpha) * common, theirs, mine)
        difference = max(theirs + mine - 2 * both, 1e-300)
        share = (theirs - both) / difference
        share = 0.0 if share < HARDLY else 1.0 if share > 1 - HARDLY else share
        at = int(np.argmin(np.abs(f_sketch - (1 - alpha))))
        # As many records would know as much as the difference of the two is known.
        worth = min(alpha * (1 - alpha) / difference, 1e15)
        apart = max(apart, _apart(f_own[at], f_sketch[at], worth))
        level = (1 - alpha) * (1 + share / n + (1 - share) * mixed.shares)
        level = level + MARGIN[mode] * (1 - share) * errors.systematic[a]
        values = np.append(share * f_own + (1 - share) * f_sketch, np.inf)
        found = np.append(points, 1.0)[np.searchsorted(values, level - rounding_slack(1.0, n))]
        out.append(sketch_thresholds[a] if share == 0 else found)
        shares.append(share)
        squares = share**2 * mine + (1 - share) ** 2 * theirs + 2 * share * (1 - share) * both
        total.append(np.sqrt(squares + shared))
    return Blend(np.array(out), np.array(shares), np.array(total), float(apart))
