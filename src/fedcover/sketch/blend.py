"""A site's own scores beside the sketch: which of the two to trust, and how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover.position import TOP
from fedcover.quantile import rounding_slack
from fedcover.sketch.grid import upper_edges
from fedcover.sketch.personal import Personal

Float64 = NDArray[np.float64]
Positions = NDArray[np.int64]

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

    positions: Positions
    share: Float64
    error: Float64
    disagree: float


def blend(personal: Personal, own: Positions, in_sketch: bool) -> Blend:
    """The distribution function λ F_own + (1-λ) G, with λ by the errors of both.

    Own scores have errors of their own sample alone: α(1-α)/n. Where the label mix was counted from
    the same records, its error is in both, and only the part within labels sets them apart. Records
    that are in the sketch too make the two errors alike: their covariance is α(1-α) Σ_y P*(y) c_y.

    Parameters
    ----------
    personal
        The target's thresholds from the sketch alone.
    own
        (n,) positions of the site's own scores.
    in_sketch
        Whether the own records are in the sketch.
    """
    mixed, errors, row = personal.mixed, personal.errors, personal.table.layout.row_of
    own, n = np.sort(own), len(own)
    edges = upper_edges(personal.table.layout.cut_array)[::-1]
    points = np.unique(np.concatenate([own, edges]))
    f_own = np.searchsorted(own, points, side="right") / n
    common = float(mixed.weights @ mixed.shares) if in_sketch else 0.0
    out, shares, total, apart = [], [], [], 0.0
    for a, (alpha, q) in enumerate(zip(personal.alphas, personal.quantiles, strict=True)):
        # Bins are counted from the top: above the upper edge of bin i lie the misses of i - 1.
        covered = 1 - np.append(0.0, q.misses[:-1])[::-1] - mixed.unseen.sum()
        f_sketch = np.interp(points.astype(np.float64), edges.astype(np.float64), covered)
        shared = errors.mix[a] ** 2 if personal.mix.counted == n else 0.0
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
        level = (1 - alpha) * (1 + share / n + (1 - share) * q.shares[row])
        values = share * f_own + (1 - share) * f_sketch
        k = np.searchsorted(values, level - rounding_slack(1.0, n))
        out.append(q.positions if share == 0 else np.append(points, TOP)[k])
        shares.append(share)
        squares = share**2 * mine + (1 - share) ** 2 * theirs + 2 * share * (1 - share) * both
        total.append(np.sqrt(squares + shared))
    return Blend(np.array(out), np.array(shares), np.array(total), float(apart))
