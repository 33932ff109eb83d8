"""Weighted quantiles and the pinball loss whose minimiser they are.

The quantile of the paper is Q_β(F) = inf{z : F(z) ≥ β}. It minimises the expected pinball loss
(eq. 12); the Moreau envelope of that loss with parameter γ (eq. 13) is smooth and moves the
minimiser by at most γ (Theorem 3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.position import TOP, Positions

Float64 = NDArray[np.float64]


def rounding_slack(total: float | Float64, n: int) -> float | Float64:
    """How far a sum of n weights may fall short of a level and still count as reaching it.

    Levels such as (1 - 0.3)·10 are not exact in floating point, and neither are sums of weights in
    different orders. A level within rounding error of a jump is taken as reached.
    """
    return total * (4 * (n + 1) * float(np.finfo(np.float64).eps))


def weighted_quantile(
    values: ArrayLike, weights: ArrayLike | None, level: ArrayLike
) -> float | Float64:
    """The smallest value at which the weighted distribution function reaches `level`.

    inf{q : Σ_k w_k 1{v_k ≤ q} ≥ level·Σ_k w_k}. Values of weight zero are never returned; level 1
    gives the largest value of positive weight, level 0 the smallest.

    Parameters
    ----------
    values
        (n,) finite numbers.
    weights
        (n,) numbers ≥ 0, not all zero (None: equal weights).
    level
        One number in [0, 1], or an array of them.

    Returns
    -------
    A number for one level, else an array of the shape of `level`.
    """
    v = checks.as_float(checks.array(values, "values"), "values").astype(np.float64)
    w = np.ones(v.shape) if weights is None else checks.array(weights, "weights")
    w = checks.as_float(w, "weights").astype(np.float64)
    if v.ndim != 1 or v.shape != w.shape or not len(v):
        raise FedcoverError(
            f"values has shape {v.shape} and weights {w.shape}",
            allowed="two vectors of one length, not empty",
            fix="Give one weight per value",
        )
    if not np.isfinite(v).all():
        raise FedcoverError(
            "values has a NaN or infinite entry", allowed="finite numbers", fix="Remove it"
        )
    with np.errstate(over="ignore"):
        total = w.sum()
    if not (w >= 0).all() or not 0 < total < np.inf:
        raise FedcoverError(
            "weights has a negative or non-finite entry, or is all zero",
            allowed="finite numbers ≥ 0 with a positive sum",
            fix="Look at how the weights were made",
        )
    levels = checks.as_float(checks.array(level, "level"), "level").astype(np.float64)
    if not ((levels >= 0) & (levels <= 1)).all():
        raise FedcoverError(
            f"level is {level!r}", allowed="numbers in [0, 1]", fix="A level is 1 - alpha"
        )
    result = WeightedSample(v, w).quantile(levels * total)
    return float(result) if result.ndim == 0 else result


class WeightedSample:
    """A sample sorted once, which then gives G(q) = Σ_k w_k 1{v_k ≤ q} and its inverse quickly.

    values : (n,) numbers, or positions of scores; weights : (n,).
    """

    def __init__(self, values: Float64 | Positions, weights: Float64) -> None:
        # A value without weight is no jump of G; the slack below could otherwise return it.
        keep = weights > 0
        values, weights = values[keep], weights[keep]
        order = np.argsort(values, kind="stable")
        self.values = values[order]
        self.cumulative = np.cumsum(weights[order])
        self.total = float(self.cumulative[-1]) if len(order) else 0.0

    def quantile(self, mass: Float64) -> NDArray[Any]:
        """inf{q : G(q) ≥ mass}; infinite, or beyond TOP, where even the total falls short."""
        # inf{…} is the first value whose sum reaches the level: side="left" takes equality, the
        # slack equality up to rounding. Without it thresholds would depend on the order of
        # summation.
        slack = rounding_slack(self.total, len(self.values))
        index = np.searchsorted(self.cumulative, mass - slack, side="left")
        beyond = TOP + 1 if self.values.dtype == np.int64 else np.inf
        return np.append(self.values, beyond)[index]


def conformal_positions(
    sample: WeightedSample, alphas: tuple[float, ...], query_weights: Float64
) -> Positions:
    """Positions of Q_{1-α}(μ̂_y) of positions with weights and mass w_y at 1, (A, C) (eq. 6 and 8).

    The query label y only moves the level (1-α)(W + w_y). Where the level exceeds W the
    quantile sits in the point mass at 1: that label is in every set. A sample without any weight
    says nothing, so all its thresholds are 1.
    """
    if sample.total == 0:
        return np.full((len(alphas), len(query_weights)), TOP)
    # Normalised weights p = w/(W + w_y) (eq. 5) with both sides multiplied by W + w_y: then one
    # sorted sample serves all labels.
    keep = 1 - np.asarray(alphas)[:, None]
    return np.minimum(sample.quantile(keep * (sample.total + query_weights)), TOP)


def pinball(q: ArrayLike, v: ArrayLike, alpha: ArrayLike) -> Float64:
    """Pinball loss S_{α,v}(q) = (1-α)(v-q)₊ + α(q-v)₊, whose mean the (1-α)-quantile minimises."""
    gap = np.asarray(q, dtype=np.float64) - np.asarray(v, dtype=np.float64)
    a = np.asarray(alpha)
    # Of two lines through 0 with slopes α > 0 > α - 1 the upper one is the active one.
    return np.maximum(a * gap, (a - 1) * gap)


def moreau(q: ArrayLike, v: ArrayLike, alpha: ArrayLike, gamma: float) -> Float64:
    """Moreau envelope S^γ_{α,v}(q) of the pinball loss: quadratic near v, linear beyond."""
    gap = np.asarray(q, dtype=np.float64) - np.asarray(v, dtype=np.float64)
    slope = moreau_gradient(q, v, alpha, gamma)
    return slope * gap - gamma * slope**2 / 2


def moreau_gradient(q: ArrayLike, v: ArrayLike, alpha: ArrayLike, gamma: float) -> Float64:
    """Derivative of the envelope in q: (q-v)/γ clipped to [α-1, α]."""
    gap = np.asarray(q, dtype=np.float64) - np.asarray(v, dtype=np.float64)
    a = np.asarray(alpha)
    return np.clip(gap / gamma, a - 1, a)


def moreau_minimiser(values: ArrayLike, weights: ArrayLike, alpha: float, gamma: float) -> float:
    """The q that minimises Σ_k w_k S^γ_{α,v_k}(q): Q^γ_{1-α} of eq. 13, smallest if several.

    The derivative is piecewise linear and grows in q, with kinks at v + γα and v - γ(1-α); the zero
    lies on the first piece whose right end is not negative.
    """
    v, w = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    kinks = np.sort(np.concatenate([v - gamma * (1 - alpha), v + gamma * alpha]))
    objective = SmoothQuantileLoss(v, w)
    slopes = objective.gradient(kinks, alpha, gamma)
    slack = rounding_slack(float(w.sum()), len(w))
    # Without slack, a slope of zero that rounding made negative would send the minimiser to the far
    # end of a flat piece.
    k = int(np.argmax(slopes >= -slack))
    if k == 0 or slopes[k] <= slack or slopes[k] == slopes[k - 1]:
        return float(kinks[k])
    # Between two kinks the derivative is a line: its zero by interpolation is exact.
    share = -slopes[k - 1] / (slopes[k] - slopes[k - 1])
    return float(kinks[k - 1] + share * (kinks[k] - kinks[k - 1]))


class SmoothQuantileLoss:
    """Σ_k w_k S^γ_{α,v_k}(q) for a fixed sample: sorted once, then O(log n) for any q, α and γ.

    With n₀ the scores below q - γα (slope α), n₁ those above q + γ(1-α) (slope α-1) and the few in
    between (slope (q-v)/γ), value and gradient need only prefix sums of w, w·v and w·v².

    Parameters
    ----------
    values
        (n,) scores.
    weights
        (n,) weights of one target, or (targets, n) of several. With several, the first axis of q
        is the target; its other axes can be levels and query labels, with `alpha` to match.
    """

    def __init__(self, values: ArrayLike, weights: ArrayLike) -> None:
        v, w = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
        order = np.argsort(v, kind="stable")
        self.values = v[order]
        self._several = w.ndim == 2
        # Extended precision, because differences of these sums are divided by γ.
        w, x = np.atleast_2d(w)[:, order].astype(np.longdouble), self.values.astype(np.longdouble)
        self._sums = [
            np.concatenate([np.zeros((len(w), 1)), np.cumsum(w * x**power, axis=1)], axis=1)
            for power in (0, 1, 2)
        ]

    def value(
        self, q: ArrayLike, alpha: ArrayLike, gamma: float, at_one: float | Float64 = 0.0
    ) -> Float64:
        """The loss at q; `at_one` adds the point mass at score 1. All broadcast."""
        # Outside the window the envelope is a line: the pinball loss less γ·slope²/2.
        x, a, (w0, w1, w2), (s0, s1, s2), (_, squares, _) = self._parts(q, alpha, gamma)
        left = a * (x * w0 - s0) - gamma * a**2 / 2 * w0
        middle = (x**2 * w1 - 2 * x * s1 + squares) / (2 * gamma)
        right = (1 - a) * (s2 - x * w2) - gamma * (1 - a) ** 2 / 2 * w2
        point = at_one * moreau(x, 1.0, a, gamma)
        return np.asarray(left + middle + right + point, dtype=np.float64)

    def gradient(
        self, q: ArrayLike, alpha: ArrayLike, gamma: float, at_one: float | Float64 = 0.0
    ) -> Float64:
        """The derivative at q; `at_one` adds the point mass at score 1. All broadcast."""
        x, a, (below, near, above), (_, sums, _), _ = self._parts(q, alpha, gamma)
        point = at_one * moreau_gradient(x, 1.0, a, gamma)
        slope = a * below + (x * near - sums) / gamma - (1 - a) * above + point
        return np.asarray(slope, dtype=np.float64)

    def _parts(self, q: ArrayLike, alpha: ArrayLike, gamma: float) -> tuple[Any, ...]:
        """q, α, and each prefix sum split into the scores below, inside and above the window."""
        x, a = np.asarray(q, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
        below = np.searchsorted(self.values, x - gamma * a, side="left")
        upto = np.searchsorted(self.values, x + gamma * (1 - a), side="right")
        row = np.arange(len(self._sums[0])).reshape(-1, *[1] * (below.ndim - 1))
        row = row if self._several else np.array(0)
        split = [
            (s[row, below], s[row, upto] - s[row, below], s[row, -1] - s[row, upto])
            for s in self._sums
        ]
        return x, a, *split
