"""Every numbered result against numbers worked out by hand, its properties, and its refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import fedcover as fc
from fedcover import bounds
from fedcover.bounds import federation_bounds
from fedcover.errors import FedcoverError
from fedcover.quantile import moreau, moreau_gradient, moreau_minimiser, weighted_quantile

quick = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 2**32 - 1)

# Two small sites among 1000 records: log 1000 = 6.907755, so sites below 82.9 records are small.
MIXED = [9, 16, 975]
PRIVACY = {
    "delta": 1e-5,
    "rounds": 200,
    "local_steps": 20,
    "n_sites": 1000,
    "sites_per_round": 10,
    "largest_mixture_weight": 1e-3,
}
RUN = {
    "start_distance": 0.5,
    "rounds": 100,
    "local_steps": 5,
    "gamma": 0.1,
    "noise": 2.0,
    "heterogeneity": 0.5,
}


# --- Bound ---------------------------------------------------------------------------------------


def test_a_bound_adds_its_terms_and_names_the_largest() -> None:
    bound = bounds.Bound({"a": 0.25, "b": 0.5})
    assert bound.total == float(bound) == 0.75
    assert bound.dominant == "b"
    assert not bound.vacuous
    assert str(bound) == "0.75 = 0.5 (b) + 0.25 (a)"
    assert bounds.Bound({"a": 1.0}).vacuous


# --- Theorem 2.1 ---------------------------------------------------------------------------------


def test_theorem_2_1_by_hand() -> None:
    found = bounds.theorem_2_1_exact_weights(0.1, 0.05)
    assert (found.low, found.high) == pytest.approx((0.9, 0.95))
    assert str(found) == "[0.9, 0.95]"
    assert bounds.theorem_2_1_exact_weights(0.25, [0.1, 0.2]).high == pytest.approx(0.9)
    assert bounds.theorem_2_1_exact_weights(0.1, 0.4).high == 1


@given(n=st.integers(1, 500), alpha=st.floats(0.01, 0.99))
@quick
def test_theorem_2_1_holds_for_split_conformal(n: int, alpha: float) -> None:
    # One site: the coverage is known exactly, ⌈(1-α)(N+1)⌉ / (N+1).
    coverage = math.ceil((1 - alpha) * (n + 1) - 1e-9) / (n + 1)
    found = bounds.theorem_2_1_exact_weights(alpha, 1 / (n + 1))
    assert found.low - 1e-9 <= coverage <= found.high + 1e-9


# --- Theorem 2.2 ---------------------------------------------------------------------------------


def test_theorem_2_2_by_hand() -> None:
    found = bounds.theorem_2_2_subsampled([100, 400, 500], 2.0)
    # 6/1000 + (36 + 41.44653)·4/1000, no small site
    assert found.total == pytest.approx(0.315786, abs=1e-6)
    assert found.terms["small sites"] == 0
    assert found.dominant == "largest ratio"
    # 14·6.907755/1000 · (3 + 4)
    assert bounds.theorem_2_2_subsampled(MIXED, 2.0).terms["small sites"] == pytest.approx(0.67696)


def test_theorem_2_2_counts_small_sites_as_the_paper_does() -> None:
    def small(sizes: list[int]) -> float:
        return bounds.theorem_2_2_subsampled(sizes, 1.0).terms["small sites"]

    assert small([45]) > 0
    assert small([46]) == 0  # "n = 1 and N ≥ 46"
    assert small([200] * 86_538) == 0  # "N^i = 200 and n ≤ 86538"
    assert small([200] * 86_539) > 0


@given(sizes=st.lists(st.integers(1, 300), min_size=8, max_size=20), ratio=st.floats(1, 9))
@quick
def test_twice_the_data_make_theorem_2_2_smaller(sizes: list[int], ratio: float) -> None:
    once = bounds.theorem_2_2_subsampled(sizes, ratio)
    twice = bounds.theorem_2_2_subsampled([2 * n for n in sizes], ratio)
    assert twice.total < once.total


# --- Lemma 2.3 -----------------------------------------------------------------------------------


def test_lemma_2_3_by_hand() -> None:
    # ŵ P_cal = (.4, .8, 0) → (1/3, 2/3, 0)
    found = bounds.lemma_2_3_shift_distance([0.5, 0.3, 0.2], [1, 2, 0], [0.4, 0.4, 0.2])
    assert found == pytest.approx(0.3666667)


@given(seed=seeds)
@quick
def test_lemma_2_3_is_zero_for_true_ratios_and_ignores_scale(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, mixture = rng.dirichlet(np.ones(5), size=2)
    true = target / mixture
    assert bounds.lemma_2_3_shift_distance(target, 3 * true, mixture) == pytest.approx(0, abs=1e-12)
    w = rng.uniform(0.1, 4, 5)
    once = bounds.lemma_2_3_shift_distance(target, w, mixture)
    assert 0 <= once <= 1
    assert bounds.lemma_2_3_shift_distance(target, 7 * w, mixture) == pytest.approx(once)


def test_lemma_2_3_is_the_total_variation_distance_to_reweighted_labels() -> None:
    rng = np.random.default_rng(1)
    target, mixture = rng.dirichlet(np.ones(6), size=2)
    w = rng.uniform(0.2, 3, 6)
    n = 400_000
    direct = np.bincount(rng.choice(6, n, p=target), minlength=6) / n
    drawn = np.bincount(rng.choice(6, n, p=mixture), minlength=6) * w
    drawn = drawn / drawn.sum()
    best = max(
        abs(direct[event].sum() - drawn[event].sum())
        for mask in range(1, 63)
        for event in [[y for y in range(6) if mask >> y & 1]]
    )
    # A frequency of n draws is within 5/(2√n) of its mean with probability 1 - 6e-7.
    assert best == pytest.approx(bounds.lemma_2_3_shift_distance(target, w, mixture), abs=0.012)


# --- Equation 11 ---------------------------------------------------------------------------------


def test_equation_11_by_hand() -> None:
    found = bounds.equation_11_expected_shift_distance(400, 10_000, 10, 0.1)
    assert found.terms["target counts"] == pytest.approx(0.3)  # 6/20
    assert found.terms["pooled counts"] == pytest.approx(1.09286, abs=1e-5)  # 12 √(8.29405/1000)
    sound = bounds.expected_shift_distance(400, 10_000, 10, 0.1)
    assert sound.terms["target counts"] == pytest.approx(0.175)  # (3/2 + 2)/20
    assert sound.terms["pooled counts"] == pytest.approx(0.30882, abs=1e-5)  # 3 √(10.59663/1000)


def test_a_label_that_never_occurs_makes_equation_11_infinite() -> None:
    assert bounds.equation_11_expected_shift_distance(10, 100, 3, 0).total == math.inf


@given(m=st.integers(1, 10**6), extra=st.integers(0, 10**9), classes=st.integers(2, 65))
@quick
def test_the_repaired_bound_is_below_equation_11_up_to_65_classes(
    m: int, extra: int, classes: int
) -> None:
    given_ = (m, m + extra, classes, 0.5 / classes)
    printed = bounds.equation_11_expected_shift_distance(*given_).total
    assert bounds.expected_shift_distance(*given_).total <= printed
    more = (m, 2 * (m + extra), *given_[2:])
    assert bounds.equation_11_expected_shift_distance(*more).total < printed


@pytest.mark.parametrize(
    ("classes", "own", "total", "printed_fails"),
    [(1000, 1000, 10**9, True), (10, 200, 2000, False), (50, 500, 10**7, False)],
)
def test_expected_shift_distance_against_simulated_counts(
    classes: int, own: int, total: int, printed_fails: bool
) -> None:
    rng = np.random.default_rng(0)
    p = np.full(classes, 1 / classes)
    found = []
    for _ in range(40):
        mine, others = rng.multinomial(own, p), rng.multinomial(total - own, p)
        ratios = np.divide(mine, mine + others, out=np.zeros(classes), where=mine > 0)
        found.append(bounds.lemma_2_3_shift_distance(p, ratios, p))
    mean = float(np.mean(found))
    assert mean <= bounds.expected_shift_distance(own, total, classes, 1 / classes).total
    printed = bounds.equation_11_expected_shift_distance(own, total, classes, 1 / classes).total
    assert (mean > printed) == printed_fails


# --- Theorem 2.4 ---------------------------------------------------------------------------------


def test_theorem_2_4_by_hand() -> None:
    # ρ² = (2/1.25)² = 2.56; small sites: 7·7 = 49 > 3·2.56
    found = bounds.theorem_2_4_estimated(MIXED, [2, 1], [0.25, 0.75], 0.1)
    assert found.terms == pytest.approx(
        {
            "shift distance": 0.1,
            "finite sample": 0.006,
            "largest ratio": 0.09216,
            "small sites": 0.67696,
        }
    )
    assert found.total == pytest.approx(0.87512)
    assert found.dominant == "small sites"
    # without small sites 36·2.56/1000 + (2·6.907755/1000)·7.68
    large = bounds.theorem_2_4_estimated([500, 500], [2, 1], [0.25, 0.75], 0.0)
    assert large.terms["largest ratio"] == pytest.approx(0.198263, abs=1e-6)
    assert large.terms["small sites"] == 0


@given(sizes=st.lists(st.integers(1, 300), min_size=8, max_size=20), seed=seeds)
@quick
def test_theorem_2_4_shrinks_with_data_and_never_beats_its_shift_distance(
    sizes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    w, mixture = rng.uniform(0.1, 4, 5), rng.dirichlet(np.ones(5))
    once = bounds.theorem_2_4_estimated(sizes, w, mixture, 0.05).total
    twice = bounds.theorem_2_4_estimated([2 * n for n in sizes], w, mixture, 0.05).total
    assert 0.05 < twice < once
    scaled = bounds.theorem_2_4_estimated(sizes, 9 * w, mixture, 0.05).total
    assert scaled == pytest.approx(once)


# --- Theorem 3.1 ---------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 40), alpha=st.floats(0.02, 0.98), gamma=st.floats(1e-4, 0.5))
@quick
def test_theorem_3_1_holds_for_the_smooth_quantile(
    seed: int, n: int, alpha: float, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    v, w = rng.random(n), rng.uniform(0.1, 1, n)
    exact = float(weighted_quantile(v, w, 1 - alpha))
    smooth = moreau_minimiser(v, w, alpha, gamma)
    assert abs(smooth - exact) <= bounds.theorem_3_1_moreau(gamma) + 1e-9
    assert exact - gamma * (1 - alpha) - 1e-9 <= smooth <= exact + gamma * alpha + 1e-9


# --- Heterogeneity -------------------------------------------------------------------------------


def test_heterogeneity_by_hand() -> None:
    # Between .2 and .8 the slopes are α and α-1, their mean is α-½: both differ from it by ½.
    apart = [([0.2], [1.0]), ([0.8], [1.0])]
    assert bounds.heterogeneity(apart, 0.1, 1e-3) == pytest.approx(math.sqrt(0.5))
    # λ = (¾, ¼): the light site is ¾ away
    uneven = [([0.2], [3.0]), ([0.8], [1.0])]
    assert bounds.heterogeneity(uneven, 0.1, 1e-3) == pytest.approx(math.sqrt(0.75))
    same = ([0.1, 0.5], [1.0, 2.0])
    assert bounds.heterogeneity([same, same], 0.1, 0.2) == pytest.approx(0, abs=1e-8)


@given(seed=seeds, alpha=st.floats(0.05, 0.95), gamma=st.floats(1e-3, 0.5))
@quick
def test_heterogeneity_is_the_supremum(seed: int, alpha: float, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    samples = [(rng.random(n), rng.uniform(0.1, 1, n)) for n in rng.integers(1, 6, 3)]
    zeta2 = bounds.heterogeneity(samples, alpha, gamma) ** 2
    q = np.linspace(-0.6, 1.6, 4001)[:, None]
    local = np.array([moreau_gradient(q, v, alpha, gamma) @ w / w.sum() for v, w in samples])
    share = np.array([w.sum() for _, w in samples])
    seen = np.abs(local - share @ local / share.sum()).max()
    # The slopes are 1/γ-Lipschitz, so a grid of step h misses at most 2h/(2γ).
    assert seen - 1e-9 <= zeta2 <= seen + 2.2 / 4000 / gamma + 1e-9


# --- Theorem 4.1 and Corollary 4.2 ---------------------------------------------------------------


def test_theorem_4_1_by_hand() -> None:
    run = RUN | {"rounds": 10}
    found = bounds.theorem_4_1_convergence(**run, step=0.01)  # type: ignore[arg-type]
    # .25/(.01·5·10) and 14·10⁻⁴·5·(4 + 5/4)/.1
    assert found.terms == pytest.approx({"start": 0.5, "drift": 0.3675})
    repaired = bounds.theorem_4_1_convergence(
        **run,  # type: ignore[arg-type]
        step=0.01,
        squared_weights=0.5,
    )
    assert repaired.terms["noise"] == pytest.approx(0.02)  # .01·4·½
    assert repaired.total == pytest.approx(0.8875)


def test_theorem_4_1_refuses_steps_it_says_nothing_about() -> None:
    with pytest.raises(FedcoverError, match=r"step is 0\.001 .*gamma/10 = 1e-07.*smaller step"):
        bounds.theorem_4_1_convergence(1.0, 200, 20, 1e-3, 1e-6, 10.0, 0.5)
    bounds.theorem_4_1_convergence(1.0, 200, 20, 1e-7, 1e-6, 10.0, 0.5)  # η = γ/10 is allowed
    with pytest.raises(FedcoverError):
        bounds.theorem_4_1_convergence(1.0, 200, 20, 1.01e-7, 1e-6, 10.0, 0.5)


def test_theorem_4_1_as_printed_misses_the_noise() -> None:
    # One site with one score, started at the minimiser: 400 runs of Algorithm 1 with K = 1.
    alpha, gamma, eta, sigma, rounds = 0.3, 1.0, 0.005, 20.0, 10_000
    rng = np.random.default_rng(0)
    q, mean = np.zeros(400), np.zeros(400)
    for _ in range(rounds):
        mean += q / rounds
        q -= eta * (moreau_gradient(q, 0.0, alpha, gamma) + sigma * rng.standard_normal(400))
    loss = moreau(mean, 0.0, alpha, gamma)
    excess, error = loss.mean(), loss.std() / 20
    run = (0.0, rounds, 1, eta, gamma, sigma, 0.0)
    assert bounds.theorem_4_1_convergence(*run).total == pytest.approx(0.14)
    assert excess - 6 * error > 0.14
    assert excess <= bounds.theorem_4_1_convergence(*run, squared_weights=1.0).total


def test_corollary_4_2_by_hand() -> None:
    # ∛(.1·.25 / (14·25·100·5.25)) = ∛1.360544e-7
    assert bounds.corollary_4_2_step(**RUN) == pytest.approx(0.0051433, rel=1e-4)  # type: ignore[arg-type]
    few = RUN | {"rounds": 10}
    assert bounds.corollary_4_2_step(**few) == pytest.approx(0.01)  # type: ignore[arg-type]
    found = bounds.corollary_4_2_convergence(**RUN)  # type: ignore[arg-type]
    # 10·.25/(.1·5·100) and 5·∛(5.25·.0625/(.1·5·10⁴))
    assert found.terms == pytest.approx({"start": 0.05, "drift": 0.201678}, rel=1e-4)
    quiet = RUN | {"noise": 0.0, "heterogeneity": 0.0}
    assert bounds.corollary_4_2_step(**quiet) == pytest.approx(0.01)  # type: ignore[arg-type]


@given(
    distance=st.floats(0.01, 1),
    rounds=st.integers(1, 10**6),
    local_steps=st.integers(1, 100),
    gamma=st.floats(1e-6, 1),
    noise=st.floats(0, 100),
    zeta=st.floats(0, 1),
    energy=st.floats(0, 1),
)
@quick
def test_corollary_4_2_is_theorem_4_1_at_its_step(
    distance: float,
    rounds: int,
    local_steps: int,
    gamma: float,
    noise: float,
    zeta: float,
    energy: float,
) -> None:
    run = (distance, rounds, local_steps, gamma, noise, zeta)
    step = bounds.corollary_4_2_step(*run)
    direct = bounds.theorem_4_1_convergence(
        distance, rounds, local_steps, step, gamma, noise, zeta, squared_weights=energy
    )
    short = bounds.corollary_4_2_convergence(*run, squared_weights=energy)
    assert direct.total <= short.total * (1 + 1e-9)
    longer = bounds.corollary_4_2_convergence(distance, 2 * rounds, *run[2:])
    assert longer.total < bounds.corollary_4_2_convergence(*run).total


# --- Theorem 4.3 ---------------------------------------------------------------------------------


def test_theorem_4_3_by_hand() -> None:
    # E ŵ = 1, Var ŵ = 1/3, E ŵ_{Y*} = 4/3, min ŵ = 2/3, m = ½, M = 2
    found = bounds.theorem_4_3_coverage(
        1000, [0.5, 0.5], [2, 2 / 3], [0.25, 0.75], 0.5, 2.0, 0.0009, 0.0001
    )
    assert found.terms == pytest.approx(
        {
            "optimisation": 1.727469,
            "gaps between scores": 0.05526204,
            "variance of the ratios": 0.001333333,
            "query weight": 0.002666667,
            "empty intervals": 3.71912e-5,
        },
        rel=1e-5,
    )
    assert found.dominant == "optimisation"
    assert found.vacuous


def test_theorem_4_3_is_infinite_if_a_ratio_is_zero() -> None:
    found = bounds.theorem_4_3_coverage(100, [1, 0], [2, 0], [0.5, 0.5], 0.5, 2.0, 0.0, 1e-6)
    assert found.total == math.inf


@given(n=st.integers(8, 10**6), gap=st.floats(0, 0.1), gamma=st.floats(1e-8, 0.1), seed=seeds)
@quick
def test_theorem_4_3_grows_with_the_optimisation_error(
    n: int, gap: float, gamma: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    target, mixture = rng.dirichlet(np.ones(4), size=2)
    given_ = (target, rng.uniform(0.1, 4, 4), mixture, 0.5, 2.0)
    base = bounds.theorem_4_3_coverage(n, *given_, gap, gamma)
    assert bounds.theorem_4_3_coverage(n, *given_, gap + 0.01, gamma).total > base.total
    more = bounds.theorem_4_3_coverage(2 * n, *given_, gap, gamma)
    rest = [name for name in base.terms if name != "optimisation"]
    assert all(more.terms[name] <= base.terms[name] for name in rest)


# --- Theorem 4.4 ---------------------------------------------------------------------------------


def test_theorem_4_4_by_hand() -> None:
    # n = S = T = K = λ = ε = 1, δ = ½: δ̄ = ¾ and 2 √(1 + 24 log(4/3))
    assert bounds.theorem_4_4_paper_noise(1.0, 0.5, 1, 1, 1, 1, 1.0) == pytest.approx(
        5.62294, abs=1e-5
    )
    assert bounds.theorem_4_4_paper_noise(8.0, **PRIVACY) == pytest.approx(0.108192, abs=1e-6)  # type: ignore[arg-type]


def test_theorem_4_4_claims_less_than_the_noise_gives() -> None:
    # Two sites, one is sampled once: the exact ε of a Gaussian mechanism seen half of the time.
    noise = bounds.theorem_4_4_paper_noise(0.9, 1e-5, 1, 1, 2, 1, 0.5)
    mu = 1 / noise

    def delta(eps: float) -> float:
        return float(norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu))

    full = brentq(lambda eps: delta(eps) - 2e-5, 0, 20)
    exact = math.log1p(math.expm1(full) / 2)
    assert exact == pytest.approx(1.65, abs=0.01)
    claimed = bounds.theorem_4_4_claimed_epsilon(noise, 1e-5, 1, 1, 2, 1, 0.5)
    assert claimed == pytest.approx(0.9, rel=1e-6)


@given(
    epsilon=st.floats(1e-3, 50),
    delta=st.floats(1e-8, 0.1),
    rounds=st.integers(1, 500),
    local_steps=st.integers(1, 50),
    n_sites=st.integers(1, 200),
    share=st.floats(0.01, 1),
    weight=st.floats(1e-3, 1),
)
@quick
def test_claimed_epsilon_inverts_the_paper_noise(
    epsilon: float,
    delta: float,
    rounds: int,
    local_steps: int,
    n_sites: int,
    share: float,
    weight: float,
) -> None:
    sampled = max(1, round(share * n_sites))
    setting = (delta, rounds, local_steps, n_sites, sampled, weight)
    if delta >= 1 - (1 + math.sqrt(epsilon)) * (1 - sampled / n_sites) ** rounds:
        with pytest.raises(FedcoverError, match="delta is"):
            bounds.theorem_4_4_paper_noise(epsilon, *setting)
    else:
        noise = bounds.theorem_4_4_paper_noise(epsilon, *setting)
        found = bounds.theorem_4_4_claimed_epsilon(noise * (1 + 1e-9), *setting)
        assert found == pytest.approx(epsilon, rel=1e-5)
        more = bounds.theorem_4_4_claimed_epsilon(2 * noise, *setting)
        assert more < found


def test_claimed_epsilon_refuses_where_the_theorem_is_silent() -> None:
    with pytest.raises(FedcoverError, match=r"claims an epsilon \(below 1 here\)"):
        bounds.theorem_4_4_claimed_epsilon(0.5, 1e-5, 1, 1, 2, 1, 0.5)
    with pytest.raises(FedcoverError, match="more rounds"):
        bounds.theorem_4_4_claimed_epsilon(10.0, 0.6, 1, 1, 2, 1, 0.5)
    with pytest.raises(FedcoverError):
        bounds.theorem_4_4_claimed_epsilon(10.0, 1.0, 1, 1, 2, 2, 0.5)


# --- Refusals ------------------------------------------------------------------------------------

two = [0.5, 0.5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.theorem_2_1_exact_weights(1.5, 0.1), "alpha is 1.5"),
        (lambda: bounds.theorem_2_1_exact_weights(0.1, 2.0), "largest_weight is 2.0"),
        (lambda: bounds.theorem_2_1_exact_weights(0.1, []), "largest_weight"),
        (lambda: bounds.theorem_2_2_subsampled([], 1.0), "sizes is"),
        (lambda: bounds.theorem_2_2_subsampled([1.5], 1.0), "sizes is"),
        (lambda: bounds.theorem_2_2_subsampled([10], 0.5), "largest_ratio is 0.5"),
        (lambda: bounds.lemma_2_3_shift_distance(two, [1, 1, 1], two), "ratios has shape"),
        (lambda: bounds.lemma_2_3_shift_distance(two, [0, 0], two), "mean 0"),
        (lambda: bounds.lemma_2_3_shift_distance(two, [-1, 2], two), "negative"),
        (lambda: bounds.lemma_2_3_shift_distance([1, 1, 1], [1, 1], two), "target is"),
        (lambda: bounds.equation_11_expected_shift_distance(0, 9, 2, 0.5), "target_count is 0"),
        (lambda: bounds.equation_11_expected_shift_distance(9, 9, 1, 0.5), "n_classes is 1"),
        (lambda: bounds.equation_11_expected_shift_distance(9, 9, 4, 0.5), "smallest_share is"),
        (lambda: bounds.theorem_2_4_estimated([9], [1, 1], two, -1.0), "shift_distance is"),
        (lambda: bounds.theorem_3_1_moreau(0.0), "gamma is 0.0"),
        (lambda: bounds.heterogeneity([], 0.1, 0.1), "samples is empty"),
        (lambda: bounds.heterogeneity([([0.1], [0.0])], 0.1, 0.1), r"samples\[0\]"),
        (lambda: bounds.heterogeneity([([1.1], [1.0])], 0.1, 0.1), "scores"),
        (lambda: bounds.theorem_4_1_convergence(1, 1, 1, 0.1, 2.0, 0, 0), "gamma is 2.0"),
        (lambda: bounds.theorem_4_1_convergence(1, 0, 1, 0.1, 1.0, 0, 0), "rounds is 0"),
        (lambda: bounds.corollary_4_2_step(1, 1, 1, 0.1, -1.0, 0), "noise is -1.0"),
        (lambda: bounds.corollary_4_2_step(1, 1, 1, 0.1, 0, 1.5), "heterogeneity is 1.5"),
        (
            lambda: bounds.theorem_4_3_coverage(1, two, two, two, 0.5, 2, 0, 0.1),
            "total_count is 1",
        ),
        (
            lambda: bounds.theorem_4_3_coverage(9, two, two, two, 1.5, 2, 0, 0.1),
            "smallest_density is 1.5",
        ),
        (
            lambda: bounds.theorem_4_3_coverage(9, two, two, two, 0.5, 0.9, 0, 0.1),
            "largest_density is 0.9",
        ),
        (
            lambda: bounds.theorem_4_4_paper_noise(1.0, 0.01, 1, 1, 2, 3, 0.5),
            "sites_per_round is 3",
        ),
        (lambda: bounds.theorem_4_4_paper_noise(4.0, 0.01, 1, 1, 2, 1, 0.5), "delta is 0.01"),
        (lambda: bounds.theorem_4_4_paper_noise(4.0, 0.0, 1, 1, 2, 2, 0.5), "delta is 0.0"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(FedcoverError, match=message):
        call()


# --- A federation --------------------------------------------------------------------------------


def federation() -> list[fc.Site]:
    rng = np.random.default_rng(0)
    tables = {"a": [60, 30, 10], "b": [100, 300, 500]}
    return [
        fc.Site(name, rng.random(sum(c)), np.repeat(np.arange(3), c), n_classes=3)
        for name, c in tables.items()
    ]


def test_federation_bounds_by_hand() -> None:
    rows = {r.result: r for r in federation_bounds(federation(), "a", 0.1)}
    # P* = (.6, .3, .1), P_cal = (.16, .33, .51): ŵ = (3.75, .909, .196), Σ_k ŵ_{Y_k} = 1000
    largest = 0.6 * 3.75 / 1003.75 + 0.3 * 3.75 / 1000.909 + 0.1 * 3.75 / 1000.196
    assert rows["Theorem 2.1"].value == pytest.approx(largest, rel=1e-5)
    assert rows["Theorem 2.1"].note == "coverage in [0.9, 0.9037]"
    # 6/1000 + (36 + 41.44653)·3.75²/1000
    assert rows["Theorem 2.2"].value == pytest.approx(1.095092, rel=1e-5)
    assert rows["Theorem 2.2"].vacuous
    assert rows["Equation 11"].dominant == "pooled counts"
    repaired = rows["Equation 11, repaired"].value
    # (√2/2 + 2)/10 + 3 √((2 log 3 + log 100)/160)
    assert repaired == pytest.approx(0.270711 + 0.618648, rel=1e-4)
    # ρ² = 14.0625: R + .006 + .50625 + 2·6.907755/1000·42.1875
    assert rows["Theorem 2.4"].value == pytest.approx(0.889359 + 0.006 + 1.089092, rel=1e-4)
    assert rows["Theorem 3.1"].value == 1e-6
    assert rows["Theorem 4.3"].value is None
    assert not rows["Theorem 4.3"].vacuous
    assert "density" in rows["Theorem 4.3"].note
    assert rows["Theorem 4.1"].value is None
    assert "1e-07" in rows["Theorem 4.1"].note
    assert rows["Corollary 4.2"].vacuous
    assert "not sound" in rows["Theorem 4.4"].note


def test_federation_bounds_of_a_target_from_outside_with_densities() -> None:
    rows = federation_bounds(federation(), [6, 3, 1], 0.1, densities=(0.5, 2.0))
    last = rows[-1]
    assert last.result == "Theorem 4.3"
    # 12 √(6.907755·10⁻⁶ / (.5·.1960784)) and the small terms
    assert last.value == pytest.approx(0.1007 + 0.0553 + 0.0071 + 0.0051, abs=1e-3)
    inside = {r.result: r.value for r in federation_bounds(federation(), "a", 0.1)}
    outside = {r.result: r.value for r in rows}
    assert outside["Theorem 2.2"] == pytest.approx(inside["Theorem 2.2"])
    assert outside["Equation 11"] > inside["Equation 11"]  # type: ignore[operator]


def test_federation_bounds_with_labels_nobody_has() -> None:
    site = fc.Site("a", [0.1, 0.2, 0.3], [0, 1, 1], n_classes=3)
    rows = {r.result: r for r in federation_bounds([site], "a", 0.1, densities=(0.5, 2.0))}
    assert rows["Equation 11"].value == math.inf
    assert rows["Equation 11"].note == "infinite: 1 labels occur at no site"
    assert rows["Theorem 4.3"].note == "infinite: a label with ratio 0"
    assert rows["Theorem 2.4"].value is not None
    assert rows["Theorem 2.4"].value < math.inf
    with pytest.raises(FedcoverError, match="no site has a label that the target has"):
        federation_bounds([site], [0, 0, 1], 0.1)


def test_federation_bounds_flag_equation_11_with_many_classes() -> None:
    site = fc.Site("a", np.linspace(0, 1, 200), np.arange(200) % 100, n_classes=100)
    rows = {r.result: r for r in federation_bounds([site], "a", 0.1)}
    assert "more than 65 classes" in rows["Equation 11"].note
    assert rows["Equation 11, repaired"].note == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "c"}, "target 'c' is not a site"),
        ({"target": [1, 2]}, "target is"),
        ({"alpha": 0.0}, "alpha is 0"),
        ({"gamma": 0.0}, "gamma is 0.0"),
        ({"sites": []}, "sites is"),
        ({"densities": (0.0, 2.0)}, "smallest_density is 0.0"),
    ],
)
def test_federation_bounds_refuse_bad_input(change: dict[str, Any], message: str) -> None:
    given_: dict[str, Any] = {"sites": federation(), "target": "a", "alpha": 0.1}
    with pytest.raises(FedcoverError, match=message):
        federation_bounds(**(given_ | change))
