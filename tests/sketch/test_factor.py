"""The factor: whole numbers that can be undone, and the noise and reach it is said to have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import toeplitz

from fedcover.methods.sketch import factor

SIZES = [2, 3, 4, 64, 100, 257, 1840]


def matrix(bins):
    """D as integers, from the definition."""
    return np.tril(toeplitz(factor.coefficients(bins)))


def test_the_coefficients_are_the_series_of_the_inverse_square_root():
    """1, 1/2, 3/8, 5/16, …: (1-x)^(-1/2), rounded to 1/4096."""
    assert factor.coefficients(5).tolist() == [4096, 2048, 1536, 1280, 1120]
    wanted = [math.comb(2 * k, k) / 4**k for k in range(300)]
    assert (
        np.abs(factor.coefficients(300) / factor.UNIT - wanted).max() <= 0.5 / factor.UNIT + 1e-15
    )


@pytest.mark.parametrize("bins", SIZES)
def test_the_factor_squared_is_the_prefix_sum(bins):
    root = matrix(bins) / factor.UNIT
    sums = np.tril(np.ones((bins, bins)))
    assert np.abs(root @ root - sums).max() < math.sqrt(bins) / factor.UNIT * 2


@given(st.integers(0, 10**6), st.integers(2, 80), st.sampled_from([1, 50, 10**6, 10**13]))
def test_what_is_measured_is_an_integer_convolution(seed, bins, most):
    """To the last digit, also where floats would round."""
    counts = np.random.default_rng(seed).integers(0, most, (3, bins))
    exact = [[int(v) for v in row] for row in counts]
    column = [int(v) for v in factor.coefficients(bins)]
    wanted = [
        [sum(column[i - j] * row[j] for j in range(i + 1)) for i in range(bins)] for row in exact
    ]
    got = factor.measured(counts)
    assert got.dtype == np.int64
    assert got.tolist() == wanted


@pytest.mark.parametrize("bins", [64, 1840, 4096])
def test_the_transform_is_exact_up_to_the_number_of_records_it_is_used_for(bins):
    """As many records as that in one bin, in the last ones, and spread over all, to the digit."""
    most = factor.EXACT - 1
    rng = np.random.default_rng(bins)
    counts = np.zeros((5, bins), dtype=np.int64)
    counts[0, 0] = counts[1, bins // 2] = most
    counts[2, -2:] = most // 2
    counts[3] = rng.multinomial(most, rng.dirichlet(np.full(bins, 0.05)))
    counts[4] = most // bins
    wanted = [np.convolve(row, factor.coefficients(bins))[:bins] for row in counts]
    assert np.array_equal(factor.measured(counts), wanted)
    more = counts.copy()
    more[0, 0] += 1  # and one more, by way of whole numbers
    wanted[0] = wanted[0] + factor.coefficients(bins)
    assert np.array_equal(factor.measured(more), wanted)


@pytest.mark.parametrize("bins", SIZES)
def test_sums_and_counts_undo_what_was_measured(bins):
    counts = np.random.default_rng(bins).integers(0, 1000, (4, bins))
    measured = factor.measured(counts)
    assert factor.sums(measured) == pytest.approx(np.cumsum(counts, axis=1), abs=1e-6)
    assert factor.counts_of(measured) == pytest.approx(counts, abs=1e-6)
    assert factor.sums(measured[0]) == pytest.approx(np.cumsum(counts[0]), abs=1e-6)
    assert factor.recovery(bins) @ np.eye(bins)[0] == pytest.approx(1 / factor.UNIT)


@pytest.mark.parametrize("bins", SIZES)
def test_the_reach_is_the_longest_column_of_the_whole_number_matrix(bins):
    columns = (matrix(bins).astype(object) ** 2).sum(axis=0)
    assert factor.reach(bins) == math.sqrt(max(columns))
    assert max(columns) == columns[0]


@pytest.mark.parametrize("window", [0, 1, 4, 16, 64])
def test_stated_deviations_are_those_of_noise(window):
    """4000 draws of normal noise, 64 sums and windows each: χ², 320 comparisons at 1e-8."""
    bins, draws = 100, 4000
    rng = np.random.default_rng(window)
    noise = factor.sums(rng.normal(0, 3.0, (draws, bins)))
    i = np.arange(bins)
    w = np.minimum(np.minimum(i, bins - 1 - i), window)
    means = np.stack([noise[:, a - b : a + b + 1].mean(axis=1) for a, b in zip(i, w, strict=True)])
    ratio = (means**2).sum(axis=1) / (3.0 * factor.sum_deviation(bins, window)) ** 2
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], draws)
    assert ((low <= ratio) & (ratio <= high)).all()


def test_the_deviation_of_single_counts_is_that_of_noise():
    """4000 draws; all but the first bins have it in full. χ², 50 comparisons at 1e-8."""
    noise = factor.counts_of(np.random.default_rng(5).normal(size=(4000, 200)))[:, 150:]
    ratio = (noise**2).sum(axis=0) / factor.count_deviation(200) ** 2
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], 4000)
    assert ((low <= ratio) & (ratio <= high)).all()


@pytest.mark.parametrize(("bins", "most"), [(256, 2.9), (1024, 3.35), (1840, 3.5), (4096, 3.8)])
def test_the_number_of_bins_hardly_matters(bins, most):
    """A sum's noise for the reach of one record: 1.07 + ln(B)/π counts."""
    noise = factor.reach(bins) * factor.sum_deviation(bins)[-1]
    assert noise <= most
    assert noise == pytest.approx(1.07 + math.log(bins) / math.pi, abs=0.05)
