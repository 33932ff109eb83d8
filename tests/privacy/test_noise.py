"""Integer noise has exactly the law it names, and agrees with opendp.

Every statistical test here fails on a right sampler with probability 1e-6.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedcover.errors import FedcoverError
from fedcover.privacy import noise
from fedcover.privacy.randomness import SYSTEM, SeededBytes

FALSE_ALARM = 1e-6


class NoFurtherDigits:
    """Seeded bytes for arrays; the 8 bytes that settle one candidate are always 0."""

    def __init__(self, seed):
        self.seeded = SeededBytes(seed)

    def take(self, count):
        return bytes(count) if count == 8 else self.seeded.take(count)


VARIANCES = [Fraction(1, 2), Fraction(3), Fraction(14), Fraction(10**4)]


def gaussian_law(variance, reach=12):
    end = math.ceil(reach * math.sqrt(variance)) + 5
    z = np.arange(-end, end + 1)
    weights = np.exp(-(z**2) / (2 * float(variance)))
    return z, weights / weights.sum()


def chi_square(drawn, z, law, least=10):
    """p-value; cells expected fewer than `least` times are put together."""
    seen = np.bincount(np.clip(drawn, z[0], z[-1]) - z[0], minlength=len(z))
    expected = len(drawn) * law
    big = expected >= least
    seen, expected = (np.append(x[big], x[~big].sum()) for x in (seen, expected))
    if expected[-1] < least:
        seen[-2] += seen[-1]
        expected[-2] += expected[-1]
        seen, expected = seen[:-1], expected[:-1]
    return stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)


@pytest.mark.parametrize("variance", [*VARIANCES, Fraction(1, 7), Fraction(2.3), Fraction(10**6)])
def test_discrete_gaussian_by_chi_square(variance):
    drawn = noise.integer_gaussian(variance, 1_000_000)
    assert chi_square(drawn, *gaussian_law(variance)) > FALSE_ALARM


@pytest.mark.parametrize("variance", VARIANCES[1:3])
def test_the_slow_path_has_the_same_law(variance, monkeypatch):
    """Python integers settle every candidate: what the fast path falls back on is right too."""
    law = noise.law_of(variance)
    slow = noise.Law(**(vars(law) | {"tiny": True}))
    monkeypatch.setattr(noise, "law_of", lambda _: slow)
    drawn = noise.integer_gaussian(variance, 8000)
    assert chi_square(drawn, *gaussian_law(variance)) > FALSE_ALARM


@pytest.mark.parametrize(
    "variance", [*VARIANCES, Fraction(1, 100), Fraction(2) ** 41, Fraction(5.28) ** 2]
)
def test_fast_and_slow_path_decide_alike(variance):
    """On the same random bytes, both keep the same candidates."""
    law = noise.law_of(variance)
    slow = noise.Law(**(vars(law) | {"tiny": True}))
    fast, again = (noise.candidates(one, 4000, NoFurtherDigits(8)) for one in (law, slow))
    assert np.array_equal(fast, again)


@pytest.mark.parametrize("sigma", [1e6, 2.0**33 + 0.5, 1e12, Fraction(2**50)])
def test_large_sigma_by_kolmogorov_smirnov(sigma):
    drawn = noise.discrete_gaussian(sigma, 100_000)
    assert stats.kstest(drawn / float(sigma), "norm").pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount(drawn & 7)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sigma", [1e-300, 1e-9, 1e-3, 0.05])
def test_tiny_sigma_is_no_noise(sigma):
    assert not noise.discrete_gaussian(sigma, 300).any()


@pytest.mark.parametrize("variance", VARIANCES)
def test_agrees_with_opendp(variance):
    """Two-sample chi-square on the same cells."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    n = 20_000
    reference = np.array(dp.m.make_gaussian(*space, scale=math.sqrt(variance))([0] * n))
    ours = noise.integer_gaussian(variance, n)
    edges = np.unique(np.quantile(np.concatenate([reference, ours]), np.linspace(0, 1, 31)))
    table = [np.histogram(x, np.append(edges, edges[-1] + 1))[0] for x in (reference, ours)]
    table = np.array(table)[:, np.sum(table, axis=0) > 20]
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


@pytest.mark.parametrize("variance", [Fraction(1, 3), 3, 28.5, 10**4, 10**6])
def test_skellam_by_chi_square(variance):
    drawn = noise.skellam(variance, 300_000)
    end = math.ceil(9 * math.sqrt(variance)) + 20
    z = np.arange(-end, end + 1)
    law = stats.skellam.pmf(z, float(variance) / 2, float(variance) / 2)
    if variance > 10**4:  # the reference loses digits; only its shape is compared
        assert stats.kstest(drawn / math.sqrt(variance), "norm").pvalue > FALSE_ALARM
    else:
        assert chi_square(drawn, z, law) > FALSE_ALARM


@pytest.mark.parametrize("mean", [Fraction(1, 10), Fraction(7, 2), Fraction(500)])
def test_poisson_tables_hold_their_bound(mean):
    """A table is within 2 units of one with 64 more digits, and of scipy."""
    first, table = noise.poisson_table(mean, 63)
    finer_first, finer = noise.poisson_table(mean, 127)
    finer = finer[first - finer_first :]
    assert max(abs(a - (b >> 64)) for a, b in zip(table, finer, strict=False)) < 2
    known = stats.poisson.cdf(first + np.arange(len(table)), float(mean))
    assert np.abs(np.array(table, dtype=np.float64) / 2**63 - known).max() < 1e-12


@pytest.mark.parametrize("edge", [0, 2**63 - 1, "cut"])
def test_poisson_settles_what_is_unclear(edge):
    mean = Fraction(7, 2)
    first, table = noise.poisson_table(mean, 63)
    digits = table[3] if edge == "cut" else edge
    found = noise.settle_poisson(mean, noise.Uniform(digits, 63, SYSTEM))
    if edge == "cut":
        assert found in (first + 3, first + 4)
    else:
        assert found == 0 if edge == 0 else stats.poisson.sf(found, 3.5) < 2.0**-63


@settings(max_examples=200, deadline=None)
@given(st.fractions(0, 60, max_denominator=10**12), st.integers(1, 300))
def test_exp_bounds_hold(x, bits):
    low, high = noise.exp_bounds(x, bits)
    with localcontext() as context:
        context.prec = 160
        true = (Decimal(-x.numerator) / Decimal(x.denominator)).exp() * 2**bits
        assert low <= true <= high
    assert high - low <= 3


def test_the_geometric_table_is_exact():
    """Ties are recognised by equality, so these must be the true floors, not bounds."""
    for step, v in zip(noise.tables()[0], range(23, 0, -1), strict=True):
        low, high = noise.exp_bounds(Fraction(v), 64)
        assert low >> 32 == high >> 32 == step


def test_bernoulli_exp():
    x = Fraction(13, 10)
    hits = sum(noise.Uniform(0, 0, SYSTEM).below_exp(x) for _ in range(4000))
    assert stats.binomtest(hits, 4000, math.exp(-1.3)).pvalue > FALSE_ALARM
    assert all(noise.Uniform(0, 0, SYSTEM).below_exp(Fraction(0)) for _ in range(5))


def test_gaussian_lies_on_its_grid():
    drawn = noise.gaussian(3.0, (50, 20, 5))
    steps = drawn / (3.0 / 2**noise.GRID_BITS)
    assert drawn.shape == (50, 20, 5)
    assert np.array_equal(steps, np.rint(steps))
    assert stats.kstest(drawn.ravel() / 3.0, "norm").pvalue > FALSE_ALARM


def test_add_gaussian_hides_what_is_below_the_grid():
    values = np.array([0.1, -7.3, 1e9, 1e30])
    noisy = noise.add_gaussian(values, 2.0)
    steps = noisy / (2.0 / 2**noise.GRID_BITS)
    assert np.array_equal(steps, np.rint(steps))
    assert np.abs(noisy - values)[:3].max() < 30
    assert noisy[3] == pytest.approx(2.0**32)  # cut off
    drawn = noise.add_gaussian(np.full(50_000, 0.3), 0.7)
    assert stats.kstest((drawn - 0.3) / 0.7, "norm").pvalue > FALSE_ALARM


def test_shapes_and_exact_types():
    assert noise.discrete_gaussian(2, 5).shape == (5,)
    assert noise.discrete_gaussian(Fraction(1, 3), (2, 0, 3)).shape == (2, 0, 3)
    assert noise.skellam(2, (3, 4)).dtype == noise.discrete_gaussian(1.5, ()).dtype == np.int64
    assert not np.array_equal(noise.skellam(50, 40), noise.skellam(50, 40))


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, 1e17, "2", True])
def test_refuses_unusable_sigma(bad):
    with pytest.raises(FedcoverError, match="sigma is"):
        noise.discrete_gaussian(bad, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: noise.skellam(2e9, 3),
        lambda: noise.skellam(1, -2),
        lambda: noise.gaussian(0.0, 3),
        lambda: noise.add_gaussian([1.0, math.nan], 1.0),
        lambda: noise.add_gaussian(["a"], 1.0),
    ],
)
def test_refuses_what_it_cannot_do(call):
    with pytest.raises(FedcoverError):
        call()
