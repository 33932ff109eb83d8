"""From events to ε and back: reference values, an independent accountant, and properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm

from fedcover.errors import FedcoverError
from fedcover.privacy.accounting import epsilon, gaussian_epsilon, noise_multiplier, split_noise
from fedcover.privacy.events import ExactRelease, GaussianRelease

DELTAS = st.sampled_from([1e-9, 1e-5, 1e-3])


def gaussian_delta(z: float, eps: float) -> float:
    """δ(ε) of a Gaussian mechanism with noise z times the sensitivity."""
    mu = 1 / z
    return norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)


def test_four_thousand_gaussians():
    assert gaussian_epsilon(10.0, 4000, 1e-5) == pytest.approx(46.211, abs=0.01)


def test_agrees_with_the_numerical_accountant():
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(10.0), 4000))
    assert gaussian_epsilon(10.0, 4000, 1e-5) == pytest.approx(
        accountant.get_epsilon(1e-5), abs=0.02
    )


@given(st.floats(0.2, 50), DELTAS)
def test_agrees_with_the_formula(z, delta):
    eps = gaussian_epsilon(z, 1, delta)
    assume(0 < eps < 30)
    assert gaussian_delta(z, eps) == pytest.approx(delta, rel=1e-5)


@given(st.floats(0.01, 40), DELTAS, st.integers(1, 10_000))
def test_noise_multiplier_round_trip(eps, delta, count):
    z = noise_multiplier(eps, delta, count)
    assert gaussian_epsilon(z, count, delta) == pytest.approx(eps, rel=1e-6)
    assert gaussian_epsilon(0.999 * z, count, delta) > eps


@given(st.floats(0.05, 20), DELTAS, st.lists(st.floats(0.1, 10), min_size=1, max_size=5))
def test_split_noise_spends_the_budget(eps, delta, shares):
    events = [GaussianRelease("x", z, 1.0) for z in split_noise(eps, delta, shares)]
    assert epsilon(events, delta) == pytest.approx(eps, rel=1e-6)
    alone = [epsilon([e], delta) for e in events]
    assert all(a <= eps * (1 + 1e-6) for a in alone)
    order = sorted(range(len(shares)), key=shares.__getitem__)
    assert [alone[i] for i in order] == sorted(alone)


@given(st.floats(0.3, 20), st.floats(1.01, 3), st.integers(1, 500), DELTAS)
def test_monotone(z, factor, count, delta):
    base = gaussian_epsilon(z, count, delta)
    assert gaussian_epsilon(z * factor, count, delta) <= base
    assert gaussian_epsilon(z, count + 1, delta) >= base
    assert gaussian_epsilon(z, count, min(0.5, delta * factor)) <= base
    one = GaussianRelease("x", z, 1.0, count)
    assert epsilon([one, GaussianRelease("y", factor, 1.0)], delta) >= base
    scaled = GaussianRelease("x", z * factor, factor, count)
    assert epsilon([scaled], delta) == pytest.approx(base, rel=1e-9)


def test_exact_releases_and_nothing():
    noisy = GaussianRelease("x", 1.0, 1.0)
    assert epsilon([noisy, ExactRelease("sizes")], 1e-5) == math.inf
    assert epsilon([GaussianRelease("x", 0.0, 1.0)], 1e-5) == math.inf
    assert epsilon([], 1e-5) == 0
    assert epsilon([GaussianRelease("x", 0.0, 0.0)], 1e-5) == 0
    for delta in (0, 1, -1, math.nan):
        with pytest.raises(FedcoverError):
            epsilon([noisy], delta)


def test_one_hidden_draw_is_exact():
    """n = 2, S = T = K = 1 with the noise for which the paper claims .9."""
    z = 1.7356945
    eps = epsilon([GaussianRelease("move", z, 1.0, 1, (1, 2))], 1e-5)
    assert eps == pytest.approx(1.647, abs=0.003)
    # ½N(0) + ½N(1) against N(0): where their ratio is e^ε, by hand
    at = z * z * math.log(2 * math.exp(eps) - 1) + 0.5
    above = [norm.sf(at, shift, z) for shift in (0.0, 1.0)]
    assert (above[0] + above[1]) / 2 - math.exp(eps) * above[0] == pytest.approx(1e-5, rel=1e-4)


@pytest.mark.parametrize(("sample", "count"), [(1, 1), (1, 50), (5, 50), (9, 50), (10, 50)])
def test_sampling_never_costs(sample, count):
    drawn = GaussianRelease("x", 8.0, 1.0, count, (sample, 10))
    plain = GaussianRelease("x", 8.0, 1.0, count)
    assert epsilon([drawn], 1e-5) <= epsilon([plain], 1e-5) * (1 + 1e-9)
