"""Weighted quantiles, exact levels, and the Moreau envelope of the pinball loss."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import fedcover as fc
from fedcover.errors import FedcoverError
from fedcover.position import TOP, positions, scores_at
from fedcover.quantile import (
    SmoothQuantileLoss,
    WeightedSample,
    conformal_positions,
    moreau,
    moreau_gradient,
    moreau_minimiser,
    pinball,
)

# Whole numbers as weights and halves as levels: sums and products are exact, so that the
# definition can be checked without any tolerance.
weight_lists = st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any)
levels = st.integers(0, 64).map(lambda k: k / 64)


def by_definition(values, weights, level):
    """inf{q : Σ_k w_k 1{v_k ≤ q} ≥ level·Σ_k w_k}, among the values of positive weight."""
    total = sum(weights)
    return min(
        q
        for q, own in zip(values, weights, strict=True)
        if own > 0
        and sum(w for v, w in zip(values, weights, strict=True) if v <= q) >= level * total
    )


@given(weight_lists, levels, st.data())
def test_is_the_infimum_of_its_definition(weights, level, data):
    values = data.draw(st.lists(st.integers(-3, 3), min_size=len(weights), max_size=len(weights)))
    assert fc.weighted_quantile(values, weights, level) == by_definition(values, weights, level)


@given(weight_lists, levels, st.sampled_from([1e-9, 0.37, 1e12]), st.randoms())
def test_order_and_scale_do_not_matter(weights, level, scale, random):
    """A peer sorts scores but not their weights: permuted data then give another quantile."""
    values = list(range(len(weights)))
    pairs = list(zip(values, weights, strict=True))
    random.shuffle(pairs)
    shuffled, moved = (np.array(x, dtype=float) for x in zip(*pairs, strict=True))
    expected = fc.weighted_quantile(values, weights, level)
    assert fc.weighted_quantile(shuffled, moved * scale, level) == expected


def test_ends_ignore_values_without_weight():
    values, weights = [5, 1, 2, 9], [1, 0, 3, 0]
    assert fc.weighted_quantile(values, weights, 0) == 2
    assert fc.weighted_quantile(values, weights, 1) == 5
    assert fc.weighted_quantile(values, weights, [0.75, 0.76]).tolist() == [2, 5]


def test_equal_weights_by_default():
    assert fc.weighted_quantile([3, 1, 2], None, 2 / 3) == 2
    assert isinstance(fc.weighted_quantile([3, 1, 2], None, 0.5), float)


@pytest.mark.parametrize(
    ("values", "weights", "level"),
    [
        ([1, 2], [1], 0.5),
        ([], [], 0.5),
        ([1, np.nan], [1, 1], 0.5),
        ([1, 2], [1, -1], 0.5),
        ([1, 2], [0, 0], 0.5),
        ([1, 2], [1, np.inf], 0.5),
        ([1, 2], [1e308, 1e308], 0.5),
        ([1, 2], [1, 1], 1.1),
        ([1, 2], [1, 1], np.nan),
        ([1, 2], [1, 1], "x"),
        ([[1, 2]], [[1, 1]], 0.5),
    ],
)
def test_bad_input_is_refused(values, weights, level):
    with pytest.raises(FedcoverError):
        fc.weighted_quantile(values, weights, level)


def exact_rank(alpha: float, n: int) -> int:
    """⌈(1-α)(n+1)⌉ with α the decimal number the user wrote."""
    return ceil((1 - Fraction(str(alpha))) * (n + 1))


@pytest.mark.parametrize("n", [*range(1, 130), 199, 499, 999, 1999, 9_999, 99_999, 999_999])
def test_levels_are_exact(n):
    """Peers round the level to a percentile, or take floating-point products at their word."""
    alphas = (*(k / 100 for k in range(1, 100)), 0.001, 0.005, 0.025, 0.975, 0.999)
    scores = np.arange(1, n + 1) / (n + 1)
    sample = WeightedSample(positions(scores), np.ones(n))
    found = scores_at(conformal_positions(sample, alphas, np.ones(1)))[:, 0]
    ranks = [exact_rank(a, n) for a in alphas]
    expected = [1.0 if r > n else r / (n + 1) for r in ranks]
    assert found.tolist() == expected


def test_thresholds_of_a_weightless_sample_are_one():
    sample = WeightedSample(positions([0.2, 0.3]), np.zeros(2))
    assert (conformal_positions(sample, (0.1, 0.5), np.array([0.0, 2.0])) == TOP).all()


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("gamma", [0.02, 0.5])
def test_moreau_envelope_is_the_minimum_of_its_definition(alpha, gamma):
    for q in np.linspace(-0.5, 1.5, 41):

        def inner(x, q=q):
            return float(pinball(x, 0.4, alpha)) + (x - q) ** 2 / (2 * gamma)

        # Slopes lie in [-1, 1], so the minimiser is within γ of q.
        best = minimize_scalar(
            inner, bounds=(q - gamma, q + gamma), method="bounded", options={"xatol": 1e-9}
        )
        assert float(moreau(q, 0.4, alpha, gamma)) == pytest.approx(best.fun, abs=1e-8)


def test_pinball_by_hand():
    assert pinball([0.2, 0.5, 0.9], 0.5, 0.1) == pytest.approx([0.27, 0.0, 0.04])


@pytest.mark.parametrize("alpha", [0.1, 0.7])
def test_moreau_gradient_is_the_derivative(alpha):
    q, h, gamma = np.linspace(-0.2, 1.2, 113), 1e-6, 0.11
    slope = (moreau(q + h, 0.5, alpha, gamma) - moreau(q - h, 0.5, alpha, gamma)) / (2 * h)
    assert moreau_gradient(q, 0.5, alpha, gamma) == pytest.approx(slope, abs=2e-5)


@pytest.mark.parametrize(("gamma", "tolerance"), [(0.2, 1e-11), (1e-3, 1e-9), (1e-6, 1e-6)])
def test_sorted_loss_equals_the_sum_over_records(gamma, tolerance):
    rng = np.random.default_rng(0)
    v = np.concatenate([rng.random(60), [0.5] * 5, [0, 1]])
    w = rng.exponential(size=len(v)) * (rng.random(len(v)) < 0.8)
    loss = SmoothQuantileLoss(v, w)
    for alpha in (0.1, 0.45):
        q = np.concatenate([np.linspace(-0.3, 1.3, 50), v, v + gamma * alpha, v - gamma / 3])
        value = (w * moreau(q[:, None], v, alpha, gamma)).sum(axis=1)
        slope = (w * moreau_gradient(q[:, None], v, alpha, gamma)).sum(axis=1)
        assert loss.value(q, alpha, gamma) == pytest.approx(value, abs=tolerance * w.sum())
        assert loss.gradient(q, alpha, gamma) == pytest.approx(slope, abs=tolerance * w.sum())


@pytest.mark.parametrize("gamma", [1e-6, 1e-3, 0.05, 0.5])
def test_moreau_minimiser_is_within_gamma_of_the_quantile(gamma):
    """Theorem 3.1; random weights keep 1-α off the jumps, as it asks for."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        n = int(rng.integers(1, 30))
        v, w = rng.random(n), rng.exponential(size=n)
        alpha = float(rng.uniform(0.02, 0.98))
        found = moreau_minimiser(v, w, alpha, gamma)
        assert abs(found - fc.weighted_quantile(v, w, 1 - alpha)) <= gamma * (1 + 1e-9)
        around = found + gamma * np.array([-0.2, -0.01, 0, 0.01, 0.2])
        loss = (w * moreau(around[:, None], v, alpha, gamma)).sum(axis=1)
        assert loss[2] <= loss.min() + 1e-9 * w.sum() * gamma
