"""Algorithm 1 (DP-FedAvgQE): federated averaging on the Moreau envelope of the pinball loss.

Each round, the chosen sites take K gradient steps from the common q_t and send the step Δq and
their mean iterate; the server adds them up with the mixture weights λ (eq. 14), scaled by n/|S_t|.
All targets, levels and query labels run side by side in arrays of shape (targets, A, C).

With noise, `AlgorithmOne` says what a run releases, as events, under each view; the unit is a whole
site. A site's gradient lies in an interval of length 1, so replacing all of its data moves each
noisy step by at most 1: (a) a server that sees each site's messages meets T·K steps with noise σ_g;
(b) one that sees sums only meets λ^i of the step under the noise σ_g ‖λ‖₂ of all sites. Separate
runs (one per label in the paper) repeat all of it. Only `privacy.accounting` turns events into ε.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
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
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease
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


IMAGENET_SIZES = (*(3950,) * 10, 500)
"""Calibration records N^i of the paper's ImageNet federation."""

IMAGENET_SHIFT = 0.9
"""Ten sites take this share of their records from one half of the labels, the last from the other.
The last is the target."""


@dataclass(frozen=True)
class AlgorithmOne:
    """A run of Algorithm 1 with noise on its gradients, and what it releases.

    Attributes
    ----------
    noise
        σ_g, standard deviation of the noise on every gradient.
    mixture
        λ^i of every site; only their proportions matter.
    rounds, local_steps
        T and K.
    sites_per_round
        S, a fixed number of sites drawn for each round; None for all of them.
    runs
        How many separate runs on the same data: labels × levels × targets.
    conspirators
        How many sites tell who sees the sums their own noise. The paper has none.
    """

    noise: float
    mixture: tuple[float, ...]
    rounds: int = 200
    local_steps: int = 20
    sites_per_round: int | None = None
    runs: int = 1
    conspirators: int = 0

    def __post_init__(self) -> None:
        checks.real(self.noise, "noise", 0, math.inf, open_low=True)
        if not self.mixture:
            raise FedcoverError(
                "mixture is empty", allowed="a weight of every site", fix="Give their sizes"
            )
        for weight in self.mixture:
            checks.real(weight, "mixture", 0, math.inf, open_low=True)
        for name in ("rounds", "local_steps", "runs"):
            checks.whole(getattr(self, name), name, 1)
        checks.whole(self.conspirators, "conspirators", 0)
        if self.sites_per_round is not None:
            checks.whole(self.sites_per_round, "sites_per_round", 1, len(self.mixture))

    @property
    def largest_weight(self) -> float:
        """Max_i λ^i, of weights that sum to 1."""
        return max(self.mixture) / math.fsum(self.mixture)

    @property
    def amplified(self) -> bool:
        """Whether a hidden draw of sites helps in the secure-sum view: only with equal weights.

        With unequal λ the noise of the sum tells which sites were drawn, and the known theorem on
        sampling, which swaps one site for another under the same noise, does not apply. Sites that
        conspire know whether they were drawn.
        """
        few = self.sites_per_round is not None and self.sites_per_round < len(self.mixture)
        few = few and not self.conspirators
        return few and max(self.mixture) <= min(self.mixture) * (1 + 1e-9)

    def server_events(self) -> tuple[Event, ...]:
        """View (a): the server sees each site's messages, and who was drawn. No amplification."""
        # Who was drawn is seen, so a site that takes part in all rounds is the worst case.
        steps = self.rounds * self.local_steps * self.runs
        return (GaussianRelease("noisy gradient steps of one site", self.noise, 1.0, steps),)

    def secure_sum_events(self) -> tuple[Event, ...]:
        """View (b): only λ-weighted sums over the sites are seen, never who was drawn.

        For K > 1 this treats the steps of a round as if each were a sum of its own; a site's later
        steps also react to its own earlier noise, an effect of order 1/σ_g that is left out.
        """
        weights = np.sort(np.asarray(self.mixture, dtype=np.float64))
        sample = self.sites_per_round or len(weights)
        # The site of largest weight beside the lightest others, of which those conspire that add
        # most: the least noise a sum can have.
        others = weights[: max(0, sample - 1 - self.conspirators)]
        sigma = self.noise * float(np.linalg.norm(np.append(others, weights[-1])))
        what, reach = "sums of noisy gradient steps", float(weights[-1])
        # λ-weighted noise of independent sites has σ_g‖λ‖; one site moves the sum by its own λ.
        rounds = self.rounds * self.runs
        if not self.amplified:
            return (GaussianRelease(what, sigma, reach, rounds * self.local_steps),)
        reach *= math.sqrt(self.local_steps)  # a site that is drawn takes part in all K steps
        return (GaussianRelease(what, sigma, reach, rounds, (sample, len(weights))),)

    def exact_events(self) -> tuple[Event, ...]:
        """What Algorithms 1 and 2 send without noise, in either view, unless count noise is on."""
        return (
            ExactRelease("label counts M^i of every site"),
            ExactRelease("numbers of records N^i"),
            ExactRelease("weight totals Σ_k ŵ of every site, hence λ^i"),
        )

    def claimed_epsilon(self, delta: float) -> float | None:
        """What Theorem 4.4 claims for one run; None where it claims nothing. Not a guarantee."""
        from fedcover.bounds import theorem_4_4_claimed_epsilon

        n = len(self.mixture)
        sample = self.sites_per_round or n
        run = (self.rounds, self.local_steps, n, sample, self.largest_weight)
        delta = checks.real(delta, "delta", 0, 1, open_low=True)
        try:
            return theorem_4_4_claimed_epsilon(self.noise, delta, *run)
        except FedcoverError:
            return None


def imagenet_mixture() -> tuple[float, ...]:
    """λ^i (eq. 14) of the paper's ImageNet federation, for its target, the last site.

    The small target's own labels weigh about eight times the others', which makes its λ the
    largest: the λ are far from the sizes.
    """
    shift, sizes = IMAGENET_SHIFT, np.array(IMAGENET_SIZES, dtype=np.float64)
    mixes = np.array([[shift, 1 - shift]] * (len(sizes) - 1) + [[1 - shift, shift]])
    pooled = sizes @ mixes / sizes.sum()
    # λ^i ∝ Σ_k ŵ_{Y_k}, whose mean is N^i Σ_y P^i(y) w_y.
    totals = sizes * (mixes @ (mixes[-1] / pooled))
    return tuple((totals / totals.sum()).tolist())


def size_mixture(sizes: Sequence[int]) -> tuple[float, ...]:
    """λ^i ∝ N^i: the weights without label shift."""
    whole = [checks.whole(n, "sizes", 1, checks.MOST_RECORDS) for n in sizes]
    return tuple(n / sum(whole) for n in whole)
