"""Algorithm 1 with all rounds and sites in one compiled loop, to repeat it thousands of times.

Its steps are those that sites take when `methods.DPFedCP.paper()` asks them; without noise the
thresholds are the same to the last bit. What is left out is the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedcover.methods.dp_fedcp.steps import descend, prefix_sums

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

Records = tuple[Float64, Int64, float]
"""What a site calibrates with: scores in increasing order, their labels, and the share N^i/N."""

SILENT = np.random.default_rng(0)
"""Stands where noise would come from; nothing is drawn from it."""


class Problem(NamedTuple):
    """All that Algorithm 1 needs to know of a federation, for some query labels.

    scores, labels, ends : records of all sites one after the other, and where each site's end.
    ratios : (C,) weights ŵ_y; points, mixture : (sites, queries) masses at 1 and λ^i (eq. 14).
    """

    scores: Float64
    labels: Int64
    ends: Int64
    ratios: Float64
    points: Float64
    mixture: Float64

    @classmethod
    def of(cls, sites: Sequence[Records], ratios: Float64, queries: Int64) -> Problem:
        """From the records of every site, the label weights, and the query labels."""
        scores, labels, shares = zip(*sites, strict=True)
        points = np.outer(shares, ratios[queries])
        totals = np.array([ratios @ np.bincount(y, minlength=len(ratios)) for y in labels])
        own, everyone = totals[:, None] + points, totals.sum() + ratios[queries]
        mixture = np.divide(own, everyone, out=np.zeros_like(own), where=everyone > 0)
        ends = np.cumsum([len(v) for v in scores])
        joined = np.concatenate(scores), np.concatenate(labels)
        return cls(*joined, ends, ratios, points, mixture)


def averages(
    problem: Problem,
    alpha: float,
    *,
    start: float,
    rounds: int,
    local_steps: int,
    step: float,
    gamma: float,
    noise: float = 0.0,
    rng: np.random.Generator = SILENT,
) -> Float64:
    """q̄_t (eq. 16) after every round t, (rounds, queries); not cut off at 0 and 1.

    Parameters
    ----------
    problem
        The federation; all sites take part in every round.
    alpha, start, rounds, local_steps, step, gamma, noise
        α, q₀, T, K, η, γ and σ_g.
    rng
        Where noise comes from, if there is any.
    """
    return _loop(*problem, alpha, start, (rounds, local_steps, step, gamma, noise), rng)


@njit(cache=True)
def _loop(
    scores: Float64,
    labels: Int64,
    ends: Int64,
    ratios: Float64,
    points: Float64,
    mixture: Float64,
    alpha: float,
    start: float,
    settings: tuple[int, int, float, float, float],
    rng: np.random.Generator,
) -> Float64:
    """The rounds; records of site i end at ends[i]; points and mixture: (sites, queries)."""
    rounds, local_steps, step, gamma, sigma = settings
    n_sites, n = points.shape
    starts = np.append(0, ends)
    sums = [
        prefix_sums(scores[starts[i] : ends[i]], labels[starts[i] : ends[i]], ratios)
        for i in range(n_sites)
    ]
    heard = [np.flatnonzero(sums[i][1][-1] + points[i] > 0.0) for i in range(n_sites)]
    heard_points = [points[i][heard[i]] for i in range(n_sites)]
    q, averaged, drawn = np.full(n, start), np.zeros(n), np.zeros((0, 0))
    move, mean = np.zeros(n), np.zeros(n)
    out = np.zeros((rounds, n))
    for t in range(rounds):
        move[:], mean[:] = 0.0, 0.0
        for i in range(n_sites):
            chosen, (own, weight, weighted) = heard[i], sums[i]
            if sigma > 0.0:
                drawn = rng.normal(0.0, sigma, (len(chosen), local_steps))
            iterate = q[chosen]
            summed = descend(
                scores[starts[i] : ends[i]],
                own,
                weight,
                weighted,
                heard_points[i],
                iterate,
                alpha,
                local_steps,
                step,
                gamma,
                drawn,
            )
            for j, y in enumerate(chosen):
                move[y] += mixture[i, y] * (iterate[j] - q[y])
                mean[y] += mixture[i, y] * (summed[j] / local_steps)
        q += move
        averaged += (mean - averaged) / (t + 1)
        out[t] = averaged
    return out
