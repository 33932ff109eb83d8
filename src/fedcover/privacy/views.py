"""What Algorithm 1 as published releases, as events, under each view: the unit is a whole site.

A site's gradient lies in an interval of length 1, so replacing all of its data moves each noisy
step by at most 1: (a) a server that sees each site's messages meets T·K steps with noise σ_g;
(b) one that sees sums only meets λ^i of the step under the noise σ_g ‖λ‖₂ of all sites. Separate
runs (one per label in the paper) repeat all of it. Only `accounting` turns the events into ε.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease

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
