"""Algorithm 1 as published, fast enough to be repeated thousands of times, and the ε it really has.

All rounds and sites run in one compiled loop. Its steps are those that sites take when
`methods.DPFedCP.paper()` asks them; without noise the thresholds are the same to the last bit. What
is left out is the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fedcover import checks
from fedcover.experiments.federations import Draw
from fedcover.labelshift.weights import likelihood_ratio, oracle_ratio, subsample_sizes
from fedcover.methods.base import Target, Task
from fedcover.methods.dp_fedcp.algorithm1 import AlgorithmOne, imagenet_mixture
from fedcover.methods.dp_fedcp.steps import descend, prefix_sums
from fedcover.methods.replies import Counts, target_ratios, weighted_fit
from fedcover.position import scores_at
from fedcover.privacy import accounting
from fedcover.site import Site

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


ROUNDS, LOCAL_STEPS, STEP, GAMMA = 200, 20, 1e-3, 1e-6
"""T, K, η and γ of the paper's experiments."""

DELTA = 1e-5


@dataclass(frozen=True)
class Published:
    """`methods.DPFedCP.paper(start)` without the messages, for experiments that repeat it often.

    start : q₀; noise : σ_g on the gradients; subsample : use N̄ ∧ N records, as the paper does.
    common : one run, for the label of largest weight, serves all labels, noise and all; otherwise
    each label has its own run, as published.
    """

    start: float
    noise: float = 0.0
    subsample: bool = True
    common: bool = False

    def thresholds(self, draw: Draw, alpha: float, seed: int) -> Float64:
        """(C,) thresholds of the draw's target; without noise the method's to the last bit."""
        problem, full = _problem(draw, alpha, seed, self.subsample, self.common)
        rng = checks.generator(seed, "gradient noise") if self.noise else SILENT
        per_round = averages(
            problem,
            alpha,
            start=self.start,
            rounds=ROUNDS,
            local_steps=LOCAL_STEPS,
            step=STEP,
            gamma=GAMMA,
            noise=self.noise,
            rng=rng,
        )
        return np.where(full, 1.0, np.clip(per_round[-1], 0.0, 1.0))


@lru_cache(maxsize=2)
def _problem(
    draw: Draw, alpha: float, seed: int, subsample: bool, common: bool
) -> tuple[Problem, NDArray[np.bool_]]:
    """What all starts share: the problem, and which labels go into every set."""
    sites, target = draw.sites, Target(draw.target, (draw.target,))
    task = Task(tuple(s.name for s in sites), sites[0].n_classes, (alpha,), (target,))
    counts = Counts(
        np.stack([s.label_counts for s in sites]),
        np.stack([s.calibration_counts for s in sites]),
        np.array([len(s) for s in sites]),
    )
    rng = checks.generator(seed, "dp-fedcp")
    used = subsample_sizes(counts.sizes, rng) if subsample else counts.sizes
    drawn, everyone = int(rng.integers(2**31)), counts.sizes.sum()
    records = []
    for site, size in zip(sites, used, strict=True):
        at, labels = site.sorted_records(int(size), drawn)
        records.append((scores_at(at), labels, len(site) / everyone))
    ratios = target_ratios(task, counts, None)[0]
    total = sum(float(ratios @ np.bincount(y, minlength=len(ratios))) for _, y, _ in records)
    zero = np.zeros((1, len(ratios)), dtype=np.int64)
    fit = weighted_fit(task, target, zero, ratios, total, counts, used)
    queries = np.array([ratios.argmax()]) if common else np.arange(len(ratios))
    problem = Problem.of(records, ratios, queries)
    return problem, fit.positions[0] > 0


def expected_mixture(priors: Float64, sizes: Sequence[int], target: int) -> tuple[float, ...]:
    """λ^i (eq. 14) of a federation with these label distributions, on average."""
    totals = np.asarray(sizes) * (priors @ oracle_ratio(priors, sizes, target))
    return tuple((totals / totals.sum()).tolist())


def true_epsilons(noise: float, mixture: tuple[float, ...], labels: int) -> dict[str, float | None]:
    """ε of a whole site's data at δ = 10⁻⁵ for a noise σ_g, by what is seen; None: nothing claimed.

    Parameters
    ----------
    noise
        σ_g.
    mixture
        λ^i of the federation.
    labels
        |Y|: the published algorithm runs once for each.
    """
    one = AlgorithmOne(noise, mixture, ROUNDS, LOCAL_STEPS)
    every = AlgorithmOne(noise, mixture, ROUNDS, LOCAL_STEPS, runs=labels)
    paper = AlgorithmOne(noise, imagenet_mixture(), ROUNDS, LOCAL_STEPS)
    return {
        "server": accounting.epsilon(one.server_events(), DELTA),
        "secure sum": accounting.epsilon(one.secure_sum_events(), DELTA),
        "secure sum, all labels": accounting.epsilon(every.secure_sum_events(), DELTA),
        "secure sum, ImageNet": accounting.epsilon(paper.secure_sum_events(), DELTA),
        "claimed, ImageNet": paper.claimed_epsilon(DELTA),
    }


def record_noise(sites: Sequence[Site], target: int, epsilon: float) -> float:
    """σ_g at which Algorithm 1 hides the score of one record, its label being public.

    Replacing a score moves Σ_i λ^i ∇S^i by at most p = max_y ŵ_y / (W + ŵ_y'), under the noise
    σ_g ‖λ‖₂ of a secure sum; T·K steps of |Y| runs compose. Replacing the label, too, would move
    the counts and weight totals that the algorithm sends exactly: for that unit no noise on the
    gradients gives a finite ε.

    Parameters
    ----------
    sites, target
        The federation, of which all records are used, and the number of the target in it.
    epsilon
        ε at δ = 10⁻⁵, secure-sum view.
    """
    counts = np.stack([s.label_counts for s in sites])
    sizes = np.array([len(s) for s in sites])
    ratios = likelihood_ratio(counts, target)
    totals = np.stack([s.calibration_counts for s in sites]) @ ratios
    own = totals[:, None] + (sizes / sizes.sum())[:, None] * ratios
    mixture = own / own.sum(axis=0)
    reach = ratios.max() / own.sum(axis=0) / np.linalg.norm(mixture, axis=0)
    steps = ROUNDS * LOCAL_STEPS * len(ratios)
    return accounting.noise_multiplier(epsilon, DELTA, steps) * float(reach.max())
