"""Algorithm 1 (DP-FedAvgQE): federated averaging on the Moreau envelope of the pinball loss.

Each round, the chosen sites take K gradient steps from the common q_t and send the step Δq and
their mean iterate; the server adds them up with the mixture weights λ (eq. 14), scaled by n/|S_t|.
All targets, levels and query labels run side by side in arrays of shape (targets, A, C).
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.methods.base import Float64, Message, Round, Task
from fedcover.methods.queries import (
    LARGEST,
    bounded,
    read_floats,
    read_real,
    read_whole,
    used_records,
)
from fedcover.methods.replies import read_array
from fedcover.position import Positions, positions, scores_at
from fedcover.privacy import noise as privacy_noise
from fedcover.privacy.randomness import Randomness
from fedcover.site import Site

MOST_STEPS = 1_000_000
"""Most local steps K that a site takes for one query."""

TINIEST = 5e-324
"""Least γ: what is divided by is not 0."""


def thresholds(
    task: Task,
    ratios: Float64,
    sizes: NDArray[np.int64],
    used: NDArray[np.int64],
    seed: int,
    rng: np.random.Generator,
    *,
    rounds: int,
    local_steps: int,
    step: float,
    gamma: float,
    participation: float,
    sites_per_round: int | None,
    start: float | Float64,
    average: str,
    noise: float,
) -> Generator[Round, Round, tuple[Positions, Float64]]:
    """Server half: positions (targets, A, C) of the mean iterate Q̂^γ_{1-α,T} (eq. 16), and W."""
    n_sites = len(task.sites)
    share = sizes / sizes.sum()
    subset = [{"size": int(u), "seed": seed} for u in used]
    replies = yield {
        name: Message("totals", {"ratios": ratios}, subset[i]) for i, name in enumerate(task.sites)
    }
    per_target = (len(ratios),)
    totals = np.stack([read_array(replies, s, "totals", per_target, least=0) for s in task.sites])
    mixture = _mixture_weights(totals, share, ratios)

    shape = (len(task.targets), len(task.alphas), task.n_classes)
    q = np.full(shape, start)
    averaged, kept = np.zeros(shape), 0
    settings = {"local_steps": local_steps, "step": step, "gamma": gamma, "noise": noise}
    for t in range(rounds):
        chosen = _participants(rng, n_sites, participation, sites_per_round)
        if not len(chosen):  # a round that nobody joins moves nothing
            continue
        arrays = {"ratios": ratios, "q": q, "alphas": np.asarray(task.alphas)}
        replies = yield {
            task.sites[i]: Message("steps", arrays, {**settings, **subset[i], "share": share[i]})
            for i in chosen
        }
        move, mean = np.zeros(shape), np.zeros(shape)
        for i in chosen:
            # n/|S_t| makes the sum over a random choice of sites right on average.
            weight = mixture[i][:, None, :] * (n_sites / len(chosen))
            with np.errstate(over="ignore"):  # a run that flies apart ends at the check below
                move += weight * read_array(replies, task.sites[i], "move", shape)
                mean += weight * read_array(replies, task.sites[i], "mean", shape)
        # With λ, as in Algorithm 1; the update printed in the text lacks it.
        q = q + move
        if not (np.abs(q) < 1e100).all() or not (np.abs(mean) < 1e100).all():
            raise FedcoverError(
                f"Algorithm 1 flies apart with step={step:g} and gradient_noise={noise:g}",
                allowed="settings under which the iterates stay near [0, 1]",
                fix="Lower step or gradient_noise",
            )
        if average == "all" or (average == "tail" and 2 * t >= rounds - 1):
            kept += 1
            # A running mean of the rounds that moved: eq. (16), or its second half.
            averaged += (mean - averaged) / kept
    # Scores lie in [0, 1], and so does their quantile; noise may carry q beyond.
    quantile = np.clip(averaged if kept else q, 0.0, 1.0)
    return positions(quantile), totals.sum(axis=0)


def _mixture_weights(totals: Float64, share: Float64, ratios: Float64) -> Float64:
    """λ^i_y (eq. 14) of every site, target and query label, (sites, targets, C)."""
    # The part N^i/N of the point mass at 1 belongs to site i, so that Σ_i λ^i is 1.
    own = totals[:, :, None] + share[:, None, None] * ratios
    everyone = totals.sum(axis=0)[:, None] + ratios
    return np.divide(own, everyone, out=np.zeros_like(own), where=everyone > 0)


def _participants(
    rng: np.random.Generator, n: int, rate: float, fixed: int | None
) -> NDArray[np.intp]:
    """S_{t+1}: everyone, a fixed number, or each site by chance (perhaps nobody)."""
    if fixed is not None:
        return np.sort(rng.choice(n, size=fixed, replace=False))
    if rate >= 1:
        return np.arange(n)
    return np.flatnonzero(rng.random(n) < rate)


def answer_totals(query: Message, site: Site) -> Message:
    """Site half, once: Σ_k ŵ_{Y_k} of the records used, per target."""
    ratios = read_floats(query, "ratios", None, site.n_classes)
    _, labels = used_records(query, site)
    counts = np.bincount(labels, minlength=site.n_classes)
    return Message("totals", {"totals": ratios @ counts})


def answer_steps(query: Message, site: Site, source: Randomness) -> Message:
    """Site half, every round: K gradient steps on the local loss (eq. 15) from q_t."""
    from fedcover.methods.dp_fedcp.steps import local_steps

    # Compiled code reads where it is told to: shapes are checked before.
    ratios = read_floats(query, "ratios", None, site.n_classes)
    alphas = read_floats(query, "alphas", None)
    q = read_floats(query, "q", len(ratios), len(alphas), site.n_classes)
    steps = read_whole(query, "local_steps", 1, MOST_STEPS)
    share = read_real(query, "share", 0, 1)
    step, gamma = read_real(query, "step", 0, LARGEST), read_real(query, "gamma", TINIEST, 1)
    sigma = read_real(query, "noise", 0, LARGEST)
    at, labels = used_records(query, site)
    drawn = np.zeros((0, 0, 0, 0))
    if sigma:
        bounded(query, "noise", q.size, steps)
        drawn = privacy_noise.gaussian(sigma, (*q.shape, steps), source)
    end, mean = local_steps(
        scores_at(at),
        labels,
        ratios,
        q,
        alphas,
        share,
        steps,
        step,
        gamma,
        drawn,
    )
    return Message("steps", {"move": end - q, "mean": mean})
