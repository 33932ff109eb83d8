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
def _seek(values: Float64, at: int, x: float, strict: bool) -> int:
    """How many values lie below x (strict) or not above x, starting from the guess `at`."""
    n = len(values)
    for _ in range(8):
        if at < n and (values[at] < x or (not strict and values[at] == x)):
            at += 1
        elif at > 0 and (values[at - 1] > x or (strict and values[at - 1] == x)):
            at -= 1
        else:
            return at
    if strict:
        return int(np.searchsorted(values, x, side="left"))
    return int(np.searchsorted(values, x, side="right"))


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
    n = len(scores)
    end, mean = start.copy(), start.copy()
    weight = np.zeros(n + 1)
    weighted = np.zeros(n + 1)
    for t in range(start.shape[0]):
        for k in range(n):
            w = ratios[t, labels[k]]
            weight[k + 1] = weight[k] + w
            weighted[k + 1] = weighted[k] + w * scores[k]
        total = weight[n]
        for a in range(start.shape[1]):
            alpha = alphas[a]
            below = upto = n // 2
            for y in range(start.shape[2]):
                point = share * ratios[t, y]
                mass = total + point
                if mass <= 0.0:  # a site without weight has no say
                    continue
                q = start[t, a, y]
                summed = 0.0
                for k in range(steps):
                    below = _seek(scores, below, q - gamma * alpha, True)
                    upto = _seek(scores, upto, q + gamma * (1.0 - alpha), False)
                    near = q * (weight[upto] - weight[below]) - (weighted[upto] - weighted[below])
                    slope = min(max((q - 1.0) / gamma, alpha - 1.0), alpha)
                    gradient = (
                        alpha * weight[below]
                        + near / gamma
                        - (1.0 - alpha) * (total - weight[upto])
                        + point * slope
                    ) / mass
                    if noise.size:
                        gradient += noise[t, a, y, k]
                    q -= step * gradient
                    summed += q
                end[t, a, y] = q
                mean[t, a, y] = summed / steps
    return end, mean
