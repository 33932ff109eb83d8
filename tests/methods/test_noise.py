"""Noise drawn from the operating system has the right distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedcover.privacy import noise

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5, 7.0])
def test_discrete_gaussian_by_chi_square(sigma):
    """P(z) ∝ exp(-z²/2σ²); a right sampler fails with probability 1e-6."""
    n = 4000
    drawn = noise.discrete_gaussian(sigma, n)
    z = np.arange(-200, 201)
    law = np.exp(-(z**2) / (2 * sigma**2))
    expected = n * law / law.sum()
    inner = z[expected >= 8]  # both tails go into the outermost cells
    cells = np.clip(drawn, inner[0] - 1, inner[-1] + 1)
    seen = np.bincount(cells - inner[0] + 1, minlength=len(inner) + 2)
    below, above = expected[z < inner[0]].sum(), expected[z > inner[-1]].sum()
    wanted = np.array([below, *expected[expected >= 8], above])
    if below < 1:  # small σ: the tails are too thin for a cell of their own
        seen = np.array([seen[0] + seen[1], *seen[2:-2], seen[-2] + seen[-1]])
        wanted = np.array([wanted[0] + wanted[1], *wanted[2:-2], wanted[-2] + wanted[-1]])
    assert stats.chisquare(seen, wanted).pvalue > FALSE_ALARM


def test_discrete_gaussian_is_whole_and_differs_between_calls():
    a, b = noise.discrete_gaussian(10.0, 50), noise.discrete_gaussian(10.0, 50)
    assert a.dtype == np.int64
    assert not np.array_equal(a, b)


def test_gaussian_by_kolmogorov_smirnov():
    drawn = noise.gaussian(3.0, (50, 20, 5))
    assert drawn.shape == (50, 20, 5)
    assert stats.kstest(drawn.ravel() / 3.0, "norm").pvalue > FALSE_ALARM


def test_numpy_seeds_do_not_fix_the_noise():
    np.random.seed(0)  # noqa: NPY002
    a = noise.gaussian(1.0, (8,))
    np.random.seed(0)  # noqa: NPY002
    assert not np.array_equal(a, noise.gaussian(1.0, (8,)))
