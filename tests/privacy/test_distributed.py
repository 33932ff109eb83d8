"""Noise shares give the promised sum, and its ε is computed from the law of the sum."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from fedcover.errors import FedcoverError
from fedcover.privacy import accounting, distributed
from fedcover.privacy.distributed import NoiseShares

DELTA = 1e-5
REPLACE = (1, -1)  # a replaced record moves two counts
SIGMA = accounting.noise_multiplier(1.0, DELTA) * math.sqrt(2)  # ε = 1 for continuous noise
FALSE_ALARM = 1e-6


def test_scaled_shares_keep_the_target_with_dropout():
    shares = NoiseShares(SIGMA, sites=1000, survivors=700)
    assert shares.share_sigma >= 2
    assert 0.99 < shares.true_epsilon(REPLACE, DELTA) <= 1.01
    assert shares.true_epsilon(REPLACE, DELTA, survivors=1000) < 0.85


def test_unscaled_shares_break_the_promise():
    """σ/√n = .167 on raw counts: a share is nearly always 0. NOTES: 22.4."""
    shares = NoiseShares(SIGMA, sites=1000, scale=1)
    assert shares.true_epsilon(REPLACE, DELTA) == pytest.approx(22.42, abs=0.05)


@pytest.mark.parametrize("scale", [None, 1])
def test_skellam_is_fine_with_or_without_scaling(scale):
    shares = NoiseShares(SIGMA, 1000, 700, kind="skellam", scale=scale)
    assert 0.95 < shares.true_epsilon(REPLACE, DELTA) <= 1.01


def reference(law, move, cells):
    """ε by dp-accounting's own construction from two probability mass functions."""
    known = {z: math.log(p) for z, p in law.items()}
    moved = {z + move: p for z, p in known.items()}
    one = pld.from_two_probability_mass_functions(
        moved, known, value_discretization_interval=1e-4 / cells
    )
    return one.self_compose(cells).get_epsilon_for_delta(DELTA)


@pytest.mark.parametrize("sigma", [0.85, 1.53, 5.28])
def test_one_discrete_gaussian_as_dp_accounting_has_it(sigma):
    shares = NoiseShares(sigma, sites=1, scale=1)
    z = np.arange(-int(12 * sigma) - 2, int(12 * sigma) + 3)
    weights = np.exp(-(z**2) / (2 * float(shares.share_sigma) ** 2))
    law = dict(zip(z.tolist(), weights / weights.sum(), strict=True))
    ours = shares.true_epsilon(REPLACE, DELTA)
    assert ours == pytest.approx(reference(law, 1, 2), rel=2e-3)


def test_a_sum_of_few_shares_as_dp_accounting_has_it():
    """Five shares of σ = .7, enumerated by plain convolution; one cell moved by 2."""
    shares = NoiseShares(0.7 * math.sqrt(5), sites=5, scale=1)
    z = np.arange(-15, 16)
    one = np.exp(-(z**2) / (2 * float(shares.share_sigma) ** 2))
    law = np.ones(1)
    for _ in range(5):
        law = np.convolve(law, one / one.sum())
    places = range(-75, 76)
    law = {k: p for k, p in zip(places, law, strict=True) if abs(k) <= 20}
    ours = shares.true_epsilon((2,), DELTA)
    assert ours == pytest.approx(reference(law, 2, 1), rel=2e-3)


def test_skellam_as_dp_accounting_has_it():
    shares = NoiseShares(4.0, sites=7, kind="skellam", scale=1)
    half = 7 * float(shares.share_sigma) ** 2 / 2
    law = {z: stats.skellam.pmf(z, half, half) for z in range(-45, 46)}
    assert shares.true_epsilon(REPLACE, DELTA) == pytest.approx(reference(law, 1, 2), rel=2e-3)


@pytest.mark.parametrize("kind", distributed.KINDS)
@pytest.mark.parametrize("scale", [None, 1])
def test_epsilon_is_never_below_the_truth(kind, scale):
    """Summed over all pairs of two cells, δ holds at the ε returned, and not just below it."""
    shares = NoiseShares(3.0, 20, 12, kind=kind, scale=scale)
    found = shares.true_epsilon(REPLACE, DELTA)
    law = distributed.law_of_sum(kind, shares.share_sigma, 12, 9.0)
    here, there = law[: -shares.scale], law[shares.scale :]
    both, moved = np.outer(here, here), np.outer(there, there)

    def delta(epsilon):
        return np.maximum(both - math.exp(epsilon) * moved, 0).sum()

    assert delta(found) <= DELTA < delta(found - 2e-3)


def test_wide_sums_agree_with_convolution():
    """Just below the widest sum that is convolved, and just above, to the 1e-4 of the grid."""
    most = distributed.MOST_CONVOLVED
    unit = round(most / SIGMA)
    exact, bound = (
        NoiseShares(most * factor, 2000, scale=1).true_epsilon((unit, -2 * unit), DELTA)
        for factor in (1 - 1e-6, 1 + 1e-6)
    )
    assert 1.5 < exact - 1e-4 < bound < exact + 2e-3


@pytest.mark.parametrize(("sigma", "count"), [(0.8, 2), (0.8, 16), (1.0, 9)])
def test_the_sum_is_near_a_discrete_gaussian(sigma, count):
    """Largest |log ratio| to N_Z(0, mσ²) is below τ, which `_losses_of_wide` relies on."""
    law = distributed.law_of_sum("discrete-gaussian", Fraction(sigma), count, 12)
    z = np.arange(len(law)) - len(law) // 2
    near = np.exp(-(z**2) / (2 * count * sigma**2))
    middle = np.abs(z) <= 4 * sigma * math.sqrt(count)
    ratio = np.abs(np.log(law[middle] / (near / near.sum())[middle])).max()
    assert 0 < ratio <= 10 * count * math.exp(-((math.pi * sigma) ** 2))


def test_large_weights_need_no_scaling():
    shares = NoiseShares(SIGMA * 1e6, 1000, 700)
    assert shares.scale == 1
    assert 1.0 <= shares.true_epsilon((10**6, -(10**6)), DELTA) <= 1.01


def test_epsilon_moves_the_right_way():
    shares = NoiseShares(4.0, 50, 30)
    base = shares.true_epsilon((1,), DELTA)
    assert shares.true_epsilon((2,), DELTA) > shares.true_epsilon((1, 1), DELTA) > base
    assert shares.true_epsilon((1,), 1e-7) > base > shares.true_epsilon((1,), DELTA, survivors=50)
    assert shares.true_epsilon((0, -1, 0), DELTA) == base
    assert shares.true_epsilon((), DELTA) == 0
    assert NoiseShares(0.01, 1, scale=1).true_epsilon((1,), DELTA) == math.inf


@pytest.mark.parametrize("kind", distributed.KINDS)
def test_the_sum_of_survivors_has_the_promised_spread(kind):
    """Variance of 40,000 sums; a right sampler fails with probability 1e-6."""
    shares = NoiseShares(3.0, sites=10, survivors=7, kind=kind)
    values = np.tile(np.array([5, -2, 0, 1000]), (10_000, 1))
    total = sum(shares.encode(values) for _ in range(7))
    error = shares.decode(total) - 7 * values
    z = (error.var() / 9.0 - 1) * math.sqrt(error.size / 2)
    assert abs(z) < stats.norm.isf(FALSE_ALARM / 2)
    assert 2 <= shares.share_sigma < 4


def test_variance_of_the_sum_is_never_below_the_target():
    for sigma, m in ((0.3, 3), (5.28, 700), (1e3, 11), (math.pi, 1)):
        shares = NoiseShares(sigma, 2 * m, m)
        assert m * float(shares.share_sigma) ** 2 >= (sigma * shares.scale) ** 2


@pytest.mark.parametrize(
    "call",
    [
        lambda: NoiseShares(0.0, 10),
        lambda: NoiseShares(1.0, 0),
        lambda: NoiseShares(1.0, 10, 11),
        lambda: NoiseShares(1.0, 10, kind="laplace"),
        lambda: NoiseShares(1.0, 10, scale=0),
        lambda: NoiseShares(1.0, 10).encode([0.5]),
        lambda: NoiseShares(1.0, 10).encode([2**62]),
        lambda: NoiseShares(1.0, 10).true_epsilon((0.5,), DELTA),
        lambda: NoiseShares(1.0, 10).true_epsilon((1,), 0.0),
        lambda: NoiseShares(1.0, 10).true_epsilon((1,), DELTA, survivors=11),
        lambda: NoiseShares(1e6, 10, kind="skellam").true_epsilon((1,), DELTA),
    ],
)
def test_refuses_what_it_cannot_use(call):
    with pytest.raises(FedcoverError):
        call()
