"""Lower bounds on ε: right as often as they say, near the truth, sharp at a middle threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedcover.audit import lower_bound
from fedcover.audit.bounds import Middle, epsilon_of, gaussian_bound, mu_of, runs_to_refute
from fedcover.errors import FedcoverError
from fedcover.privacy import gaussian_epsilon, noise_multiplier


def test_threshold_bound_of_known_laws():
    """Randomised response with e^ε = 3, and identical laws; the bound may fail once in 20."""
    rng = np.random.default_rng(0)
    answers = [(rng.random((40, 4000)) < p).astype(float) for p in (0.75, 0.25)]
    found = np.array([lower_bound(*pair, 0.0, seed=1) for pair in zip(*answers, strict=True)])
    assert (found > math.log(3)).sum() <= 5  # P(more) < 1 % at 1/20 each
    assert found.mean() > 0.85 * math.log(3)
    same = [lower_bound(rng.normal(size=4000), rng.normal(size=4000), 1e-5) for _ in range(40)]
    assert (np.array(same) > 0).sum() <= 5


def test_threshold_bound_counts_delta_and_direction():
    first, second = np.zeros(1000), np.ones(1000)
    assert lower_bound(first, second, 1e-5) > 4
    assert lower_bound(second, first, 1e-5) > 4
    assert lower_bound(first, second, 1.0) == 0
    assert lower_bound(first, first, 1e-5) == 0
    for wrong in ({"delta": -1}, {"delta": 0.1, "confidence": 1.0}):
        with pytest.raises(FedcoverError):
            lower_bound(first, second, **wrong)
    with pytest.raises(FedcoverError):
        lower_bound(first[:5], second, 1e-5)


def test_seed_decides_the_split():
    rng = np.random.default_rng(1)
    first, second = rng.normal(1, 1, 3000), rng.normal(0, 1, 3000)
    assert lower_bound(first, second, 1e-5, seed=3) == lower_bound(first, second, 1e-5, seed=3)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_bound_is_wrong_as_often_as_it_says(mu):
    """2000 audits of N(0, 1) against N(μ, 1) at 5 %: between 3 % and 7 %, but once in 10⁴ times."""
    rng = np.random.default_rng(2)
    n = 3000
    errors = rng.binomial(2 * n, stats.norm.cdf(-mu / 2), 2000)
    found = np.array([gaussian_bound(int(e), 2 * n, 0.05) for e in errors])
    assert 0.03 < (found > mu).mean() < 0.07
    # At p = Φ(-μ/2), 1.645 standard errors for the bound, as much by chance, and a tenth to spare.
    p, slope = stats.norm.cdf(-mu / 2), stats.norm.pdf(mu / 2) / 2
    assert np.quantile(found, 0.05) > mu - 3.6 * np.sqrt(p * (1 - p) / (2 * n)) / slope


def test_unequal_error_rates_are_no_excuse():
    """A shifted threshold errs more on one side: the pooled bound must not gain by it.

    2000 audits of μ = 1 with a threshold far off: never beyond μ, as the sum of errors is larger.
    """
    rng = np.random.default_rng(3)
    for place in (0.0, 0.5, 1.0, 1.4):
        alpha, beta = stats.norm.sf(place), stats.norm.cdf(place - 1.0)
        errors = rng.binomial(2000, alpha, 2000) + rng.binomial(2000, beta, 2000)
        found = np.array([gaussian_bound(int(e), 4000, 0.05) for e in errors])
        assert (found > 1.0).mean() < 0.07


def test_gaussian_bound_at_its_ends():
    assert gaussian_bound(0, 2000, 0.05) == pytest.approx(-2 * stats.norm.ppf(1 - 0.05**0.0005))
    assert gaussian_bound(1000, 2000, 0.05) == 0
    assert gaussian_bound(2000, 2000, 0.05) == 0


@pytest.mark.parametrize("epsilon", [0.1, 1, 4, 20])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_the_curve_agrees_with_the_accountant(epsilon, delta):
    """Two independent formulas; the audit's own does not use the accountant's."""
    z = noise_multiplier(epsilon, delta)
    assert epsilon_of(1 / z, delta) == pytest.approx(epsilon, rel=1e-6)
    assert mu_of(epsilon, delta) == pytest.approx(1 / z, rel=1e-6)
    assert epsilon_of(0.5 / z, delta) == pytest.approx(gaussian_epsilon(2 * z, 1, delta), abs=1e-6)
    assert epsilon_of(0.0, delta) == 0


def test_the_middle_lies_between_the_medians_in_either_direction():
    rng = np.random.default_rng(4)
    low, high = rng.normal(0, 1, 4000), rng.normal(4, 1, 4000)
    for pair in ((low, high), (high, low)):
        wrong = Middle.between(*pair).errors(*pair)
        # 8000 · Φ(-2) = 182, sd 13
        assert 110 < wrong < 260
    assert Middle.between(np.zeros(9), np.ones(9)).errors(np.zeros(9), np.ones(9)) == 0


def test_so_many_runs_refute():
    few, many = runs_to_refute(1, 1e-5, 0.01), runs_to_refute(6, 1e-5, 0.01)
    assert few < many
    for claim, runs in ((1, few), (6, many)):
        found = lower_bound(np.zeros(2 * runs), np.ones(2 * runs), 1e-5, 0.98)
        assert found > claim
