"""From the exact quantile to Algorithm 1: Theorems 3.1, 4.1, 4.3 and 4.4, Corollary 4.2.

Theorem 4.4 stands here as the paper claims it; its proof is not sound, and nothing here uses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.bounds.coverage import Bound, checked_ratios
from fedcover.errors import FedcoverError
from fedcover.quantile import SmoothQuantileLoss

Float64 = NDArray[np.float64]


def theorem_3_1_moreau(gamma: float) -> float:
    """How far the Moreau envelope moves the quantile: at most γ (Theorem 3.1).

    |Q^γ_{1-α} - Q_{1-α}| ≤ γ if no partial sum of the weights equals 1-α. The proof gives more: the
    smooth quantile lies in [Q - γ(1-α), Q + γα].
    """
    return checks.real(gamma, "gamma", 0, np.inf, open_low=True)


def heterogeneity(
    samples: Sequence[tuple[ArrayLike, ArrayLike]], alpha: float, gamma: float
) -> float:
    """How much the sites' losses differ: ζ = max_i ‖∇S^i - ∇S‖_∞^{1/2} (section 4), in [0, 1].

    S^i is the smoothed loss of site i with weights scaled to sum to 1 and S = Σ_i λ^i S^i, with λ^i
    the site's share of the weight. The gradients are piecewise linear, so the supremum is found
    exactly at their kinks. As γ → 0, ζ² becomes the largest Kolmogorov distance to the pool.

    Parameters
    ----------
    samples
        (scores, weights) of every site, both (N^i,). The point mass at 1 of eq. 14 is one more
        score, to be added by the caller.
    alpha, gamma
        Level α and smoothing parameter γ.
    """
    alpha = checks.real(alpha, "alpha", 0, 1)
    gamma = checks.real(gamma, "gamma", 0, np.inf, open_low=True)
    pairs = [_weighted(v, w, f"samples[{i}]") for i, (v, w) in enumerate(samples)]
    if not pairs:
        raise FedcoverError(
            "samples is empty", allowed="one (scores, weights) per site", fix="Add the sites"
        )
    values, weights = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    # Between kinks both gradients are lines, so their difference is largest at a kink.
    kinks = np.unique(np.concatenate([values - gamma * (1 - alpha), values + gamma * alpha]))
    pooled = SmoothQuantileLoss(values, weights / weights.sum()).gradient(kinks, alpha, gamma)
    worst = 0.0
    for v, w in pairs:
        own = SmoothQuantileLoss(v, w / w.sum()).gradient(kinks, alpha, gamma)
        worst = max(worst, float(np.abs(own - pooled).max()))
    # Gradients lie in [α-1, α], so no two differ by more than 1: beyond is rounding.
    return math.sqrt(min(worst, 1.0))


def theorem_4_1_convergence(
    start_distance: float,
    rounds: int,
    local_steps: int,
    step: float,
    gamma: float,
    noise: float,
    heterogeneity: float,
    *,
    squared_weights: float = 0.0,
) -> Bound:
    """Excess loss E S(q̄_T) - S(q*) of Algorithm 1 with a fixed step (Theorem 4.1).

    D/(ηKT) + 14 η² K (σ_g² + K ζ²) / γ,  for η ≤ γ/10 and all sites in every round

    With noise the printed bound is wrong: its proof divides η²σ_g²Σ_i(λ^i)² by η and goes on with
    η² where η is left. One site, α = .3, γ = 1, η = .005, σ_g = 20, q₀ = q* and T = 20,000 give an
    excess loss of about .4, the bound is .14. `squared_weights` adds the lost term ησ_g²Σ_i(λ^i)².

    Parameters
    ----------
    start_distance
        |q₀ - q*|, as root mean square if random; D is its square. At most 1 for scores and q₀ in
        [0, 1].
    rounds, local_steps
        T and K.
    step
        η.
    gamma
        γ in (0, 1].
    noise
        σ_g.
    heterogeneity
        ζ (see `heterogeneity`).
    squared_weights
        Σ_i (λ^i)², in [1/n, 1], for the repaired bound; 0 for the printed one.
    """
    distance2, t, k, gamma, noise, spread = _run(
        start_distance, rounds, local_steps, gamma, noise, heterogeneity
    )
    eta = checks.real(step, "step", 0, np.inf, open_low=True)
    # The envelope is 1/γ-smooth, and the proof takes steps of at most a tenth of γ. A little room
    # for rounding, as η* itself may be γ/10.
    if eta > gamma / 10 * (1 + 1e-9):
        raise FedcoverError(
            f"step is {eta:g} with gamma {gamma:g}",
            allowed=f"at most gamma/10 = {gamma / 10:g}; beyond, the theorem says nothing",
            fix="Take a smaller step or a larger gamma",
        )
    terms = {"start": distance2 / (eta * k * t), "drift": 14 * eta**2 * k * spread / gamma}
    return Bound(terms | _lost_noise(eta, noise, squared_weights))


def corollary_4_2_step(
    start_distance: float,
    rounds: int,
    local_steps: int,
    gamma: float,
    noise: float,
    heterogeneity: float,
) -> float:
    """The step η* that balances both terms of Theorem 4.1 (Corollary 4.2).

    η* = min(γ/10, (γ D / (14 K² T (σ_g² + ζ² K)))^{1/3})

    The main text prints 13 where the appendix has 14, which is used here; eq. (17) follows from
    either. Parameters are those of `theorem_4_1_convergence`.
    """
    distance2, t, k, gamma, _, spread = _run(
        start_distance, rounds, local_steps, gamma, noise, heterogeneity
    )
    # Without noise and heterogeneity no term grows with the step: the largest allowed is best.
    if spread == 0:
        return gamma / 10
    # Where D/(ηKT) = 14η²K(σ_g²+Kζ²)/γ: a smaller step starts too slowly, a larger one drifts.
    return min(gamma / 10, math.cbrt(gamma * distance2 / (14 * k**2 * t * spread)))


def corollary_4_2_convergence(
    start_distance: float,
    rounds: int,
    local_steps: int,
    gamma: float,
    noise: float,
    heterogeneity: float,
    *,
    squared_weights: float = 0.0,
) -> Bound:
    """Excess loss ε_optim of Algorithm 1 with the step η* (Corollary 4.2, eq. 17).

    10 D/(γKT) + 5 (σ_g² + ζ²K)^{1/3} D^{2/3} / (γ K T²)^{1/3}

    With noise it inherits the flaw of Theorem 4.1; `squared_weights` adds the lost η*σ_g²Σ_i(λ^i)².
    Parameters are those of `theorem_4_1_convergence`.
    """
    run = (start_distance, rounds, local_steps, gamma, noise, heterogeneity)
    distance2, t, k, gamma, noise, spread = _run(*run)
    terms = {
        "start": 10 * distance2 / (gamma * k * t),
        "drift": 5 * math.cbrt(spread * distance2**2 / (gamma * k * t**2)),
    }
    return Bound(terms | _lost_noise(corollary_4_2_step(*run), noise, squared_weights))


def theorem_4_3_coverage(
    total_count: int,
    target: ArrayLike,
    ratios: ArrayLike,
    mixture: ArrayLike,
    smallest_density: float,
    largest_density: float,
    optimisation_error: float,
    gamma: float,
) -> Bound:
    """How far DP-FedCP's coverage is from that of the exact estimated-weights sets (Theorem 4.3).

    6M √(log N · E ŵ_{Y_cal} (ε_optim + γ) / (m min_y ŵ_y)) + 2M log N / (mN)
    + 4 Var(ŵ_{Y_cal}) / (N (E ŵ_{Y_cal})²) + 2 E ŵ_{Y*} / (N E ŵ_{Y_cal}) + m/(2N log N) + 1/N²

    Assumes score densities m ≤ f^i ≤ M on [0, 1] at every site and an irrational α. Add Theorem 2.4
    for the distance to 1-α. The proof treats the threshold as independent of the target's
    label, on which it depends, and counts N records although Theorem 2.4 keeps about N/2: read the
    value as an order of magnitude. A label with ŵ_y = 0 makes it infinite.

    Parameters
    ----------
    total_count
        N, at least 2.
    target, ratios, mixture
        (C,) P*, ŵ and P_cal.
    smallest_density, largest_density
        m in (0, 1] and M ≥ 1.
    optimisation_error
        ε_optim, from Corollary 4.2 or measured; 0 for the exact minimiser.
    gamma
        γ.
    """
    n = checks.whole(total_count, "total_count", 2)
    p_cal = checks.distribution(mixture, None, "mixture")
    target_shares = checks.distribution(target, len(p_cal), "target")
    w, mean = checked_ratios(ratios, p_cal)
    low = checks.real(smallest_density, "smallest_density", 0, 1, open_low=True)
    high = checks.real(largest_density, "largest_density", 1, np.inf)
    gap = checks.real(optimisation_error, "optimisation_error", 0, np.inf)
    gap += checks.real(gamma, "gamma", 0, np.inf, open_low=True)
    log_n, least = math.log(n), float(w.min())
    # The proof divides by the smallest ratio, so one label without weight leaves no bound.
    inside = log_n * mean * gap / (low * least) if least > 0 else math.inf
    return Bound(
        {
            "optimisation": 6 * high * math.sqrt(inside),
            "gaps between scores": 2 * high * log_n / (low * n),
            "variance of the ratios": 4 * float(p_cal @ (w - mean) ** 2) / (n * mean**2),
            "query weight": 2 * float(target_shares @ w) / (n * mean),
            "empty intervals": low / (2 * n * log_n) + 1 / n**2,
        }
    )


def _weighted(values: ArrayLike, weights: ArrayLike, what: str) -> tuple[Float64, Float64]:
    v = checks.unit_scores(values, f"{what} scores")
    w = checks.as_float(checks.array(weights, what), what).astype(np.float64)
    if w.shape != v.shape or not (np.isfinite(w) & (w >= 0)).all() or not w.sum() > 0:
        raise FedcoverError(
            f"{what} has {v.shape} scores and weights of shape {w.shape}, or bad weights",
            allowed="one finite weight ≥ 0 per score, not all zero",
            fix="Leave out sites without weight",
        )
    return v, w


def _run(
    start_distance: float,
    rounds: int,
    local_steps: int,
    gamma: float,
    noise: float,
    heterogeneity: float,
) -> tuple[float, int, int, float, float, float]:
    """D, T, K, γ, σ_g and σ_g² + K ζ², checked."""
    distance = checks.real(start_distance, "start_distance", 0, np.inf)
    t, k = checks.whole(rounds, "rounds", 1), checks.whole(local_steps, "local_steps", 1)
    gamma = checks.real(gamma, "gamma", 0, 1, open_low=True)
    noise = checks.real(noise, "noise", 0, np.inf)
    zeta = checks.real(heterogeneity, "heterogeneity", 0, 1)
    return distance**2, t, k, gamma, noise, noise**2 + k * zeta**2


def _lost_noise(step: float, noise: float, squared_weights: float) -> dict[str, float]:
    """The term ησ_g²Σ(λ^i)² that the proof of Theorem 4.1 loses, where asked for."""
    energy = checks.real(squared_weights, "squared_weights", 0, 1)
    return {"noise": step * noise**2 * energy} if energy > 0 else {}


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
