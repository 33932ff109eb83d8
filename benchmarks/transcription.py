"""Algorithm 1 (DP-FedAvgQE) line by line in NumPy, as one would write it from the paper.

One query label per call and an O(N) gradient. No noise, and all sites in every round, as in the run
it is compared with. Nothing here is shared with fedcover.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Gradient = Callable[[float, Array, float, float], Array]


def gradient_as_printed(q: float, v: Array, alpha: float, gamma: float) -> Array:
    """∇S^γ_{α,v}(q) with the three indicators of the appendix."""
    return (
        -(1 - alpha) * (q < v - gamma * (1 - alpha))
        + alpha * (q > v + gamma * alpha)
        + (q - v) / gamma * ((v - gamma * (1 - alpha) < q) & (q < v + gamma * alpha))
    )


def gradient_clipped(q: float, v: Array, alpha: float, gamma: float) -> Array:
    """The same in one line, for those who notice: fewer passes over the scores."""
    return np.clip((q - v) / gamma, alpha - 1, alpha)


def algorithm_1(
    scores: Sequence[Array],
    labels: Sequence[NDArray[np.int64]],
    ratios: Array,
    query: int,
    gradient: Gradient,
    *,
    alpha: float = 0.1,
    rounds: int = 200,
    local_steps: int = 20,
    step: float = 1e-3,
    gamma: float = 1e-6,
    start: float = 0.5,
) -> float:
    """Q̂^γ_{1-α,T}(μ̂_y) for one query label y (eq. 16).

    scores, labels : of every site; ratios : (C,) likelihood ratios ŵ_y of the target (eq. 10).
    """
    n_sites = len(scores)
    sizes = np.array([len(v) for v in scores])
    everything = sum(ratios[y].sum() for y in labels) + ratios[query]
    p = ratios / everything  # p̂_{y, query} (eq. 8)

    mixture, values, weights = [], [], []  # λ^i and μ̂^i (eq. 14)
    for v, y, n in zip(scores, labels, sizes, strict=True):
        own = np.append(p[y], n / sizes.sum() * p[query])
        mixture.append(own.sum())
        values.append(np.append(v, 1.0))
        weights.append(own / own.sum())

    q, average = start, 0.0
    for t in range(rounds):
        move, mean = 0.0, 0.0
        for i in range(n_sites):
            local, iterates = q, 0.0
            for _ in range(local_steps):
                g = weights[i] @ gradient(local, values[i], alpha, gamma)
                local = local - step * g
                iterates += local
            move += mixture[i] * (local - q)
            mean += mixture[i] * iterates / local_steps
        q = q + move
        average = t / (t + 1) * average + mean / (t + 1)
    return average


def simulated_repetition(
    scores: Sequence[Array],
    labels: Sequence[NDArray[np.int64]],
    priors: Array,
    starts: Sequence[float],
    gradient: Gradient,
    alpha: float = 0.1,
) -> dict[str, Array]:
    """Thresholds by query label of every method of Figure 1, for the second of two agents.

    The agents use all of their records, and their own labels as counts.
    """
    classes = range(priors.shape[1])
    sizes = np.array([len(y) for y in labels])
    counts = np.array([[np.sum(y == k) for k in classes] for y in labels])
    pooled, everyone = np.concatenate(scores), np.concatenate(labels)
    estimated = counts.sum() * counts[1] / (counts[1].sum() * counts.sum(axis=0))  # eq. 10
    oracle = priors[1] / (sizes @ priors / sizes.sum())
    flat = np.ones(len(classes))
    found = {
        "Local": [_weighted_quantile(scores[1], flat[labels[1]], 1.0, alpha) for _ in classes],
        "Global": [_weighted_quantile(pooled, flat[everyone], 1.0, alpha) for _ in classes],
        "Oracle": [_weighted_quantile(pooled, oracle[everyone], oracle[k], alpha) for k in classes],
        "Estimated": [
            _weighted_quantile(pooled, estimated[everyone], estimated[k], alpha) for k in classes
        ],
    }
    for q in starts:
        found[f"published, q₀ = {q:g}"] = [
            algorithm_1(scores, labels, estimated, k, gradient, alpha=alpha, start=q)
            for k in classes
        ]
    return {name: np.array(values) for name, values in found.items()}


def _weighted_quantile(v: Array, weights: Array, query: float, alpha: float) -> float:
    """Q_{1-α} of Σ_k w_k δ_{v_k} + w δ_1 (eq. 8)."""
    order = np.argsort(v)
    values, w = np.append(v[order], 1.0), np.append(weights[order], query)
    reached = np.cumsum(w) / w.sum() >= 1 - alpha - 1e-12
    return float(values[np.argmax(reached)])
