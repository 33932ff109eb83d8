"""The inner loop of Algorithm 1, compiled: it is sequential, tiny, and runs millions of times.

numba, because no library steps along a sorted sample: from one step to the next q moves past few
scores, so the position is found by walking, and the gradient follows from prefix sums.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


@njit(cache=True)
def _below(values: Float64, at: int, x: float) -> int:
    """How many values lie below x, starting from the guess `at`."""
    # From one step to the next q passes few scores; a long way is left to bisection.
    for _ in range(8):
        if at < len(values) and values[at] < x:
            at += 1
        elif at > 0 and values[at - 1] >= x:
            at -= 1
        else:
            return at
    return int(np.searchsorted(values, x, side="left"))


@njit(cache=True)
def _upto(values: Float64, at: int, x: float) -> int:
    """How many values do not lie above x, of which the first `at` are known not to."""
    for _ in range(8):
        if at == len(values) or values[at] > x:
            return at
        at += 1
    return int(np.searchsorted(values, x, side="right"))


@njit(cache=True)
def prefix_sums(
    scores: Float64, labels: NDArray[np.int64], ratios: Float64
) -> tuple[Float64, Float64, Float64]:
    """Weights w of sorted records, (n,), and sums of w and of w·v over the first k of them, (n+1,).

    ratios : (C,) weight of a record of each label.
    """
    n = len(scores)
    own = np.zeros(n)
    weight = np.zeros(n + 1)
    weighted = np.zeros(n + 1)
    for k in range(n):
        w = ratios[labels[k]]
        own[k] = w
        weight[k + 1] = weight[k] + w
        weighted[k + 1] = weighted[k] + w * scores[k]
    return own, weight, weighted


@njit(cache=True)
def descend(
    scores: Float64,
    own: Float64,
    weight: Float64,
    weighted: Float64,
    point: Float64,
    iterate: Float64,
    alpha: float,
    steps: int,
    step: float,
    gamma: float,
    noise: Float64,
) -> Float64:
    """K gradient steps of some query labels, in place; returns the sum of the iterates.

    own, weight, weighted : of `prefix_sums`; point : their parts of the point mass at 1, positive
    where all weights are 0; iterate : where they stand; noise : (labels, steps), or empty.
    """
    total = weight[len(scores)]
    # Weights of the local loss sum to 1 (eq. 14), for each query label with its own part of the
    # point mass at 1.
    scale = step / (total + point)
    # The Moreau gradient (q - v)/γ leaves [α-1, α] where q - v > γα or v - q > γ(1-α): only scores
    # in between have a slope of their own (eq. 13).
    low, high, curve = gamma * alpha, gamma * (1.0 - alpha), 1.0 / gamma
    summed = np.zeros(len(point))
    below = len(scores) // 2
    for i in range(len(point)):
        q = iterate[i]
        for k in range(steps):
            below = _below(scores, below, q - low)
            upto = _upto(scores, below, q + high)
            # Scores below have the slope α, those above α - 1.
            gradient = alpha * weight[below] - (1.0 - alpha) * (total - weight[upto])
            gradient += point[i] * min(max((q - 1.0) * curve, alpha - 1.0), alpha)
            if upto > below:
                if upto - below <= 16:
                    # Few scores: their differences one by one. Prefix sums of w·v would lose digits
                    # here, and γ magnifies what is left.
                    near = 0.0
                    for j in range(below, upto):
                        near += own[j] * (q - scores[j])
                else:
                    near = q * (weight[upto] - weight[below]) - (weighted[upto] - weighted[below])
                gradient += near * curve
            # Noise goes onto the gradient of the scaled loss, whose range is 1 (eq. 15): its
            # sensitivity.
            q -= scale[i] * gradient
            if noise.size:
                q -= step * noise[i, k]
            summed[i] += q
        iterate[i] = q
    return summed


@njit(cache=True)
def local_steps(
    scores: Float64,
    labels: NDArray[np.int64],
    ratios: Float64,
    start: Float64,
    alphas: Float64,
    share: float,
    steps: int,
    step: float,
    gamma: float,
    noise: Float64,
) -> tuple[Float64, Float64]:
    """K gradient steps on S^{i,γ} for every (target, α, query label).

    scores, labels : (n,) records sorted by score; ratios : (targets, C); start : (targets, A, C).
    share : N^i/N, this site's part of the point mass ŵ_y at 1 (eq. 14).
    noise : (targets, A, C, steps) noise on the gradients, or empty.

    Returns the last iterate and the mean of the K iterates, both (targets, A, C).
    """
    end, mean = start.copy(), start.copy()
    drawn = np.zeros((0, 0))
    for t in range(start.shape[0]):
        own, weight, weighted = prefix_sums(scores, labels, ratios[t])
        point = share * ratios[t]
        # A loss without weight has no gradient: q stays where it is, instead of 0/0.
        heard = np.flatnonzero(weight[len(scores)] + point > 0.0)
        point = point[heard]
        for a in range(start.shape[1]):
            iterate = start[t, a][heard]
            if noise.size:
                drawn = noise[t, a][heard]
            summed = descend(
                scores, own, weight, weighted, point, iterate, alphas[a], steps, step, gamma, drawn
            )
            for i in range(len(heard)):
                end[t, a, heard[i]] = iterate[i]
                mean[t, a, heard[i]] = summed[i] / steps
    return end, mean
