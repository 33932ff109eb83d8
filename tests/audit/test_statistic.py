"""What tells data sets apart: exact numbers at once, everything else by what is learned."""

from __future__ import annotations

import numpy as np
import pytest

from fedcover.audit.statistic import (
    MOST_JOINT,
    Moments,
    discriminants,
    frequencies,
    largest_differences,
    without_noise,
)


def noise(seed, runs=60, numbers=40):
    rng = np.random.default_rng(seed)
    return [rng.normal(1e6, 1e3, (runs, numbers)) for _ in range(2)]


def names(x):
    return [f"number {k}" for k in range(x.shape[1])]


def test_a_bare_number_is_found_and_a_public_one_is_not():
    first, second = noise(0)
    first[:, 7], second[:, 7] = 3.0, 4.0
    first[:, 8], second[:, 8] = 5.0, 5.0
    (found,) = without_noise(first, second, names(first))
    assert found.what == "number 7"
    again = noise(1)
    for x, value in zip(again, (3.0, 4.0), strict=True):
        x[:, 7] = value
    assert found.errors(again[0], False) == found.errors(again[1], True) == 0
    assert found.errors(again[0], True) == 60
    assert without_noise(*noise(2), names(first)) == []


@pytest.mark.parametrize("factor", [1.0, -2.5])
def test_noise_used_twice_is_found(factor):
    first, second = noise(3)
    for x, move in ((first, 0.0), (second, 64.0)):
        x[:, 30] = factor * x[:, 2] + move
    (found,) = without_noise(first, second, names(first))
    assert found.what.startswith("number 30 less")
    assert found.what.endswith("times number 2")
    assert found.errors(noise(4)[0], False) > 50
    # The same noise with nothing moved tells nothing.
    second[:, 30] -= 64.0
    assert without_noise(first, second, names(first)) == []


def learned(first, second):
    out = []
    for x in (first, second):
        moments = Moments(first[0])
        for part in np.array_split(x, 3):
            moments.add(part)
        out.append(moments)
    return out


def error_rate(statistic, first, second):
    a, b = statistic(first), statistic(second)
    middle = (np.median(a) + np.median(b)) / 2
    return ((a > middle).mean() + (b <= middle).mean()) / 2


def test_moments_in_batches_are_those_of_all():
    x = np.random.default_rng(5).normal(1e7, [1.0, 100.0], (5000, 2))
    m = Moments(x[0])
    for part in np.array_split(x, 7):
        m.add(part)
    np.testing.assert_allclose(m.covariance, np.cov(x.T, bias=True), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(m.mean + m.origin, x.mean(axis=0))


def test_nearly_the_same_noise_is_found_where_rounding_hides_it():
    """Rounded noise: no exact difference, but one with a thousandth of the noise."""
    rng = np.random.default_rng(6)

    def runs(move):
        x = rng.normal(0, 1e3, (4000, 12))
        x[:, 5] = np.rint(x[:, 1]) + move
        return x

    first, second = runs(0.0), runs(8.0)
    assert without_noise(first, second, names(first)) == []
    tests = discriminants(*learned(first, second))
    assert min(error_rate(s, runs(0.0), runs(8.0)) for s in tests) == 0
    # No single number would do.
    assert 0.4 < error_rate(lambda x: x[:, 5], runs(0.0), runs(8.0)) < 0.6


def test_one_clear_number_among_hundreds_is_not_drowned():
    """μ = 2 in one of 500 numbers, learned from 300 runs: 16 % errors are the least there are."""
    rng = np.random.default_rng(7)
    first, second, *fresh = (rng.normal(size=(n, 500)) for n in (300, 300, 4000, 4000))
    second[:, 123] += 2
    fresh[1][:, 123] += 2
    least = min(error_rate(s, *fresh) for s in discriminants(*learned(first, second)))
    assert least < 0.2  # 40 standard errors from .5; by chance alone near 1e-9


def test_the_pilot_keeps_what_differs():
    rng = np.random.default_rng(8)
    first, second = (rng.normal(size=(50, MOST_JOINT + 400)) for _ in range(2))
    second[:, -1] += 5
    kept = largest_differences(first, second)
    assert len(kept) == MOST_JOINT
    assert kept[-1] == MOST_JOINT + 399
    assert len(largest_differences(first[:, :9], second[:, :9])) == 9


def test_frequencies_of_few_values_only():
    rng = np.random.default_rng(9)
    law = [np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25])]
    first, second = (rng.choice([3.0, 1.0, 2.0], (5000, 1), p=p) for p in law)
    ratio = frequencies(first, second)(np.array([[3.0], [1.0], [2.0], [9.0]]))
    np.testing.assert_allclose(ratio, [-np.log(2), np.log(2), 0, 0], atol=0.15)
    assert frequencies(*noise(10, 500)) is None
