"""The numbered results of the paper as functions: what theory promises, in numbers.

The numbers are those printed in "Conformal Prediction for Federated Uncertainty Quantification Under
Label Shift". Formulas are implemented as printed; where a proof does not support one, its docstring
says so. N is the number of calibration records of all sites, N^i that of site i, P* the target's
label distribution, P_cal = Σ_i (N^i/N) P^i the mixture, ŵ_y the likelihood ratio of label y.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.quantile import SmoothQuantileLoss

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Bound:
    """An error bound as the sum of its named terms, so that one sees what dominates."""

    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """The bound itself."""
        return math.fsum(self.terms.values())

    @property
    def dominant(self) -> str:
        """The name of the largest term."""
        return max(self.terms, key=lambda name: self.terms[name])

    @property
    def vacuous(self) -> bool:
        """Whether the bound is at least 1, which says nothing about a probability."""
        return self.total >= 1

    def __float__(self) -> float:
        return self.total

    def __str__(self) -> str:
        parts = sorted(self.terms.items(), key=lambda item: -item[1])
        return f"{self.total:.4g} = " + " + ".join(f"{v:.3g} ({name})" for name, v in parts)


@dataclass(frozen=True)
class CoverageRange:
    """A coverage probability lies in [low, high]."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}]"


def theorem_2_1_exact_weights(alpha: float, largest_weight: ArrayLike) -> CoverageRange:
    """Coverage of the sets with exact weights (Theorem 2.1, eq. 4).

    1-α ≤ P(Y ∈ C(X)) ≤ 1-α + E[max_k p_k]. Needs independent records that share P(X|Y); the upper
    bound also needs scores without ties. The weights are `labelshift.exact_weights`.

    Parameters
    ----------
    alpha : miscoverage level α.
    largest_weight : E[max_k p_k], or the largest weights of several draws, which are averaged.
    """
    alpha = checks.real(alpha, "alpha", 0, 1)
    weights = checks.as_float(checks.array(largest_weight, "largest_weight"), "largest_weight")
    if not weights.size or not ((weights > 0) & (weights <= 1)).all():
        raise FedcoverError(
            f"largest_weight is {largest_weight!r}",
            allowed="a number in (0, 1], or several",
            fix="Give the largest of weights that sum to 1",
        )
    return CoverageRange(1 - alpha, min(1.0, 1 - alpha + float(weights.mean())))


def theorem_2_2_subsampled(sizes: ArrayLike, largest_ratio: float) -> Bound:
    """Coverage error |P(Y ∈ C(X)) - (1-α)| with known ratios on a subsample (Theorem 2.2).

    6/N + (36 + 6 log N) ‖w‖²_∞ / N + (14 log N / N) Σ_{i : N^i/12 < log N} √N^i

    Assumes independent records, no ties, π_i = N^i/N and a multinomial subsample of ⌊N/2⌋ records
    (`labelshift.subsample_sizes`). One step of the proof, Hoeffding's inequality for the records
    that small sites lack, leaves out their mean, so the constants are not established; we know of
    no federation that violates the bound.

    Parameters
    ----------
    sizes : (sites,) numbers of records N^i.
    largest_ratio : ‖w‖_∞ = max_y P*(y)/P_cal(y), at least 1.
    """
    total, small = _small_sites(sizes)
    ratio = checks.real(largest_ratio, "largest_ratio", 1 - 1e-9, np.inf)
    return Bound(
        {
            "finite sample": 6 / total,
            "largest ratio": (36 + 6 * math.log(total)) * ratio**2 / total,
            "small sites": 14 * math.log(total) / total * small,
        }
    )


def lemma_2_3_shift_distance(target: ArrayLike, ratios: ArrayLike, mixture: ArrayLike) -> float:
    """How far the estimated ratios move the target's label distribution (Lemma 2.3, R of eq. 9).

    R = ½ Σ_y |P*(y) - ŵ_y P_cal(y) / Σ_z ŵ_z P_cal(z)|: the total variation distance between P* and
    the label distribution that the ratios stand for. Coverage changes by at most R. Needs only that
    the ratios do not depend on the calibration data.

    Parameters
    ----------
    target : (C,) true label distribution P*, or counts.
    ratios : (C,) ratios ŵ_y in use; their scale does not matter.
    mixture : (C,) true mixture P_cal.
    """
    p_cal = checks.distribution(mixture, None, "mixture")
    wanted = checks.distribution(target, len(p_cal), "target")
    w, mean = _ratios(ratios, p_cal)
    return float(np.abs(wanted - w * p_cal / mean).sum() / 2)


def equation_11_expected_shift_distance(
    target_count: int, total_count: int, n_classes: int, smallest_share: float
) -> Bound:
    """The paper's bound on E[R] for ratios from label counts (eq. 11).

    6/√M* + 12 √((log|Y| + log M*) / (M min_y P_cal(y)))

    Assumes label counts drawn from P^i, with M^i/M = N^i/N. The appendix states the bound for the
    sum without the factor ½ of R, so half of it would hold, too. But its proof takes
    E Σ_y |P*(y) - P̂*(y)| ≤ 1.4/√M* for any number of classes, where √((|Y|-1)/M*) is right. The bound
    is safe up to 65 classes, because `expected_shift_distance` is smaller there, and half of it up
    to 5. Beyond, it can fail: 1000 equally likely labels, M* = 1000, M = 10⁹ give E[R] = .37 and a
    bound of .23.

    Parameters
    ----------
    target_count : M*, records behind the target's label counts.
    total_count : M, records behind the label counts of all sites.
    n_classes : |Y|.
    smallest_share : min_y P_cal(y); the bound is infinite if a label never occurs.
    """
    m, spread = _label_counts(target_count, total_count, n_classes, smallest_share)
    logs = math.log(n_classes) + math.log(m)
    return Bound(
        {"target counts": 6 / math.sqrt(m), "pooled counts": 12 * math.sqrt(logs) * spread}
    )


def expected_shift_distance(
    target_count: int, total_count: int, n_classes: int, smallest_share: float
) -> Bound:
    """A bound on E[R] like eq. 11, but sound for any number of classes (not in the paper).

    ½ √((|Y|-1)/M*) + 2/√M* + 3 √((2 log|Y| + log M*) / (M min_y P_cal(y)))

    The paper's proof with E Σ_y |P* - P̂*| ≤ √((|Y|-1)/M*) and its other constants kept instead of
    rounded up. Assumptions and parameters are those of `equation_11_expected_shift_distance`.
    """
    m, spread = _label_counts(target_count, total_count, n_classes, smallest_share)
    logs = 2 * math.log(n_classes) + math.log(m)
    return Bound(
        {
            "target counts": (math.sqrt(n_classes - 1) / 2 + 2) / math.sqrt(m),
            "pooled counts": 3 * math.sqrt(logs) * spread,
        }
    )


def theorem_2_4_estimated(
    sizes: ArrayLike, ratios: ArrayLike, mixture: ArrayLike, shift_distance: float
) -> Bound:
    """Coverage error |P(Y ∈ C(X)) - (1-α)| with estimated ratios, the main result (Theorem 2.4).

    R + 6/N + 36 ρ²/N + (2 log N / N) max(3 ρ², 7 Σ_{i : N^i/12 < log N} √N^i)

    with ρ = ‖ŵ‖_∞ / E ŵ_{Y_cal}. Assumptions, and the gap in the proof, as in Theorem 2.2.

    Parameters
    ----------
    sizes : (sites,) numbers of records N^i.
    ratios : (C,) ratios ŵ_y; mixture : (C,) P_cal.
    shift_distance : R of Lemma 2.3, or a bound on it.
    """
    total, small = _small_sites(sizes)
    w, mean = _ratios(ratios, checks.distribution(mixture, None, "mixture"))
    rho2 = (float(w.max()) / mean) ** 2
    factor = 2 * math.log(total) / total
    weights_win = 3 * rho2 >= 7 * small
    return Bound(
        {
            "shift distance": checks.real(shift_distance, "shift_distance", 0, np.inf),
            "finite sample": 6 / total,
            "largest ratio": 36 * rho2 / total + (factor * 3 * rho2 if weights_win else 0.0),
            "small sites": 0.0 if weights_win else factor * 7 * small,
        }
    )


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
    samples : (scores, weights) of every site, both (N^i,). The point mass at 1 of eq. 14 is
        one more score, to be added by the caller.
    alpha, gamma : level α and smoothing parameter γ.
    """
    alpha = checks.real(alpha, "alpha", 0, 1)
    gamma = checks.real(gamma, "gamma", 0, np.inf, open_low=True)
    pairs = [_weighted(v, w, f"samples[{i}]") for i, (v, w) in enumerate(samples)]
    if not pairs:
        raise FedcoverError(
            "samples is empty", allowed="one (scores, weights) per site", fix="Add the sites"
        )
    values, weights = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    kinks = np.unique(np.concatenate([values - gamma * (1 - alpha), values + gamma * alpha]))
    pooled = SmoothQuantileLoss(values, weights / weights.sum()).gradient(kinks, alpha, gamma)
    worst = 0.0
    for v, w in pairs:
        own = SmoothQuantileLoss(v, w / w.sum()).gradient(kinks, alpha, gamma)
        worst = max(worst, float(np.abs(own - pooled).max()))
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
    start_distance : |q₀ - q*|, as root mean square if random; D is its square. At most 1 for
        scores and q₀ in [0, 1].
    rounds, local_steps : T and K.
    step : η; gamma : γ in (0, 1]; noise : σ_g; heterogeneity : ζ (see `heterogeneity`).
    squared_weights : Σ_i (λ^i)², in [1/n, 1], for the repaired bound; 0 for the printed one.
    """
    distance2, t, k, gamma, noise, spread = _run(
        start_distance, rounds, local_steps, gamma, noise, heterogeneity
    )
    eta = checks.real(step, "step", 0, np.inf, open_low=True)
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
    if spread == 0:
        return gamma / 10
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
    given = (start_distance, rounds, local_steps, gamma, noise, heterogeneity)
    distance2, t, k, gamma, noise, spread = _run(*given)
    terms = {
        "start": 10 * distance2 / (gamma * k * t),
        "drift": 5 * math.cbrt(spread * distance2**2 / (gamma * k * t**2)),
    }
    return Bound(terms | _lost_noise(corollary_4_2_step(*given), noise, squared_weights))


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
    total_count : N, at least 2.
    target, ratios, mixture : (C,) P*, ŵ and P_cal.
    smallest_density, largest_density : m in (0, 1] and M ≥ 1.
    optimisation_error : ε_optim, from Corollary 4.2 or measured; 0 for the exact minimiser.
    gamma : γ.
    """
    n = checks.whole(total_count, "total_count", 2)
    p_cal = checks.distribution(mixture, None, "mixture")
    wanted = checks.distribution(target, len(p_cal), "target")
    w, mean = _ratios(ratios, p_cal)
    low = checks.real(smallest_density, "smallest_density", 0, 1, open_low=True)
    high = checks.real(largest_density, "largest_density", 1, np.inf)
    gap = checks.real(optimisation_error, "optimisation_error", 0, np.inf)
    gap += checks.real(gamma, "gamma", 0, np.inf, open_low=True)
    log_n, least = math.log(n), float(w.min())
    inside = log_n * mean * gap / (low * least) if least > 0 else math.inf
    return Bound(
        {
            "optimisation": 6 * high * math.sqrt(inside),
            "gaps between scores": 2 * high * log_n / (low * n),
            "variance of the ratios": 4 * float(p_cal @ (w - mean) ** 2) / (n * mean**2),
            "query weight": 2 * float(wanted @ w) / (n * mean),
            "empty intervals": low / (2 * n * log_n) + 1 / n**2,
        }
    )


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
    epsilon, delta : ε > 0 and δ in (0, 1 - (1+√ε)(1-S/n)^T).
    rounds, local_steps : T and K.
    n_sites, sites_per_round : n and S.
    largest_mixture_weight : max_i λ^i, in (0, 1].
    """
    epsilon = checks.real(epsilon, "epsilon", 0, np.inf, open_low=True)
    delta, run = _privacy_run(
        delta, rounds, local_steps, n_sites, sites_per_round, largest_mixture_weight
    )
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

    noise = checks.real(noise, "noise", 0, np.inf, open_low=True)
    delta, run = _privacy_run(
        delta, rounds, local_steps, n_sites, sites_per_round, largest_mixture_weight
    )
    root = (1 - delta) / run.all_miss - 1 if run.all_miss > 0 else math.inf
    largest = root**2 if root > 0 and delta < 1 else 0.0
    if largest == 0 or (largest < math.inf and noise <= run.noise(largest, delta)):
        raise FedcoverError(
            f"noise is {noise:g} with delta {delta:g}",
            allowed=f"settings for which Theorem 4.4 claims an epsilon (below {largest:.4g} here)",
            fix="Take more noise, more rounds or more sites per round",
        )
    low, high = min(1.0, largest), min(1.0, largest)
    while run.noise(low, delta) < noise:
        low /= 4
    while run.noise(high, delta) > noise:
        high = min(high * 4, largest)
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


def _small_sites(sizes: ArrayLike) -> tuple[int, float]:
    """N and Σ √N^i over the sites with N^i/12 < log N."""
    n = checks.counts(sizes, None, "sizes").astype(np.float64)
    total = int(n.sum())
    return total, float(np.sqrt(n[n / 12 < math.log(total)]).sum())


def _ratios(values: ArrayLike, mixture: Float64) -> tuple[Float64, float]:
    """Checked ratios and their mean under the mixture."""
    w = checks.as_float(checks.array(values, "ratios"), "ratios").astype(np.float64)
    valid = w.shape == mixture.shape and bool((np.isfinite(w) & (w >= 0)).all())
    mean = float(w @ mixture) if valid else 0.0
    if mean <= 0:
        raise FedcoverError(
            f"ratios has shape {w.shape}, or a negative or non-finite entry, or mean 0",
            allowed=f"{len(mixture)} finite numbers ≥ 0, positive for a label of the mixture",
            fix="Make them with labelshift.likelihood_ratio",
        )
    return w, mean


def _label_counts(
    target_count: int, total_count: int, n_classes: int, smallest_share: float
) -> tuple[int, float]:
    """M* and 1/√(M min P_cal)."""
    m = checks.whole(target_count, "target_count", 1)
    total = checks.whole(total_count, "total_count", 1)
    classes = checks.whole(n_classes, "n_classes", 2)
    share = checks.real(smallest_share, "smallest_share", 0, 1 / classes * (1 + 1e-9))
    return m, 1 / math.sqrt(total * share) if share > 0 else math.inf


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
