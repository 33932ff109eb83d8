"""Theorem 4.4 as the paper claims it; the proof is not sound, and nothing here uses it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.errors import FedcoverError

Float64 = NDArray[np.float64]


def theorem_4_4_paper_noise(
    epsilon: float,
    delta: float,
    rounds: int,
    local_steps: int,
    n_sites: int,
    sites_per_round: int,
    largest_mixture_weight: float,
) -> float:
    """The noise σ_g at which the paper claims (ε, δ)-privacy of Algorithm 1: not a guarantee.

    σ_g = 2 √(K max_i λ^i / ε · (1 + 24 S √T log(1/δ̄) / (εn))),
    δ̄ = (n/S) (1 - ((1-δ)/(1+√ε))^{1/T})     (Theorem 4.4)

    The proof is not sound; never state a privacy guarantee with this number. Among its errors: it
    divides the loss of round t by t+1, although averaging scales signal and noise alike; puts
    max_i λ^i where (λ^i)²/Σ_j(λ^j)² belongs; reverses an inequality of subsampling; and spends more
    than δ in its composition. For n = 2, S = 1, T = K = 1, λ = ½ and δ = 10⁻⁵, the noise claimed to
    give ε = .9 really gives 1.65. Kept to reproduce and compare.

    Parameters
    ----------
    epsilon, delta
        ε > 0 and δ in (0, 1 - (1+√ε)(1-S/n)^T).
    rounds, local_steps
        T and K.
    n_sites, sites_per_round
        n and S.
    largest_mixture_weight
        Max_i λ^i, in (0, 1].
    """
    epsilon = checks.real(epsilon, "epsilon", 0, np.inf, open_low=True)
    delta, run = _privacy_run(
        delta, rounds, local_steps, n_sites, sites_per_round, largest_mixture_weight
    )
    # Beyond, δ̄ would exceed 1 and its logarithm change sign.
    limit = 1 - (1 + math.sqrt(epsilon)) * run.all_miss
    if not delta < limit:
        raise FedcoverError(
            f"delta is {delta:g} with epsilon {epsilon:g}",
            allowed=f"0 < delta < 1 - (1+√epsilon)(1-S/n)^T = {limit:.4g}",
            fix="Take a smaller epsilon, more rounds or more sites per round",
        )
    return run.noise(epsilon, delta)


def theorem_4_4_claimed_epsilon(
    noise: float,
    delta: float,
    rounds: int,
    local_steps: int,
    n_sites: int,
    sites_per_round: int,
    largest_mixture_weight: float,
) -> float:
    """The smallest ε that the paper claims for a given noise σ_g: not a guarantee.

    The inverse of `theorem_4_4_paper_noise`, with the same warning and parameters. Raises where the
    theorem claims nothing: its δ range caps ε, so small noise with few rounds has no claim.
    """
    from scipy.optimize import brentq

    noise = checks.real(noise, "noise", 0, 1e100, open_low=True)
    delta, run = _privacy_run(
        delta, rounds, local_steps, n_sites, sites_per_round, largest_mixture_weight
    )
    # The δ range of the theorem, 1 - (1+√ε)(1-S/n)^T > δ, solved for ε.
    root = (1 - delta) / run.all_miss - 1 if run.all_miss > 0 else math.inf
    largest = root * root if root > 0 and delta < 1 else 0.0
    if largest == 0 or (largest < math.inf and noise <= run.noise(largest, delta)):
        raise FedcoverError(
            f"noise is {noise:g} with delta {delta:g}",
            allowed=f"settings for which Theorem 4.4 claims an epsilon (below {largest:.4g} here)",
            fix="Take more noise, more rounds or more sites per round",
        )
    low, high = min(1.0, largest), min(1.0, largest)
    # The claimed noise falls with ε: a bracket around the ε at which it is the noise given.
    while run.noise(low, delta) < noise:
        low /= 4
    while run.noise(high, delta) > noise:
        high = min(high * 4, largest)
    # In logarithms, because ε spans many powers of ten.
    log_epsilon = brentq(
        lambda x: math.log(run.noise(math.exp(x), delta) / noise),
        math.log(low) - 1e-9,
        math.log(high) + 1e-9,
        xtol=1e-13,
    )
    return math.exp(log_epsilon)


@dataclass(frozen=True)
class _PrivacyRun:
    rounds: int
    n_sites: int
    sites_per_round: int
    strength: float
    """K max_i λ^i."""

    @property
    def all_miss(self) -> float:
        """(1 - S/n)^T, the chance that a site is never sampled."""
        return float((1 - self.sites_per_round / self.n_sites) ** self.rounds)

    def noise(self, epsilon: float, delta: float) -> float:
        share = self.sites_per_round / self.n_sites
        # δ̄ = (n/S)(1 - ((1-δ)/(1+√ε))^(1/T)); the T-th root is near 1 and its distance to it would
        # round.
        log_ratio = (math.log1p(-delta) - math.log1p(math.sqrt(epsilon))) / self.rounds
        delta_bar = min(1.0, -math.expm1(log_ratio) / share)
        growth = 24 * share * math.sqrt(self.rounds) * -math.log(delta_bar) / epsilon
        return 2 * math.sqrt(self.strength / epsilon * (1 + growth))


def _privacy_run(
    delta: float,
    rounds: int,
    local_steps: int,
    n_sites: int,
    sites_per_round: int,
    largest_mixture_weight: float,
) -> tuple[float, _PrivacyRun]:
    delta = checks.real(delta, "delta", 0, 1, open_low=True)
    n = checks.whole(n_sites, "n_sites", 1)
    s = checks.whole(sites_per_round, "sites_per_round", 1)
    if s > n:
        raise FedcoverError(
            f"sites_per_round is {s}", allowed=f"at most n_sites = {n}", fix="Take fewer per round"
        )
    weight = checks.real(largest_mixture_weight, "largest_mixture_weight", 0, 1, open_low=True)
    k = checks.whole(local_steps, "local_steps", 1)
    return delta, _PrivacyRun(checks.whole(rounds, "rounds", 1), n, s, k * weight)
