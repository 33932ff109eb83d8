"""Likelihood ratios from counts, by hand and at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from fedcover.errors import FedcoverError
from fedcover.labelshift import (
    calibration_mixture,
    effective_size,
    likelihood_ratio,
    oracle_ratio,
    subsample_sizes,
)

COUNTS = [[30, 10, 0], [10, 30, 20]]


def test_equation_10_by_hand():
    """ŵ_y = M·M*_y / (M*·M_y) with M = 100, M* = 40, M_y = (40, 40, 20)."""
    expected = [100 * 30 / (40 * 40), 100 * 10 / (40 * 40), 0]
    assert likelihood_ratio(COUNTS, 0) == pytest.approx(expected, rel=1e-15)
    assert likelihood_ratio(COUNTS, [30, 10, 0]) == pytest.approx(expected, rel=1e-15)
    assert likelihood_ratio(COUNTS, -2) == pytest.approx(expected, rel=1e-15)


def test_equation_7_by_hand():
    """With sizes 300 and 100 the mixture is ¾(¾, ¼, 0) + ¼(1/6, 1/2, 1/3)."""
    mixture = np.array([0.75 * 0.75 + 0.25 / 6, 0.75 * 0.25 + 0.25 / 2, 0.25 / 3])
    found = likelihood_ratio(COUNTS, 1, sizes=[300, 100])
    assert found == pytest.approx(np.array([1 / 6, 1 / 2, 1 / 3]) / mixture, rel=1e-14)
    assert calibration_mixture(COUNTS, [300, 100]) == pytest.approx(mixture, rel=1e-14)


def test_both_equations_agree_when_counts_are_in_proportion():
    a, b = likelihood_ratio(COUNTS, 1), likelihood_ratio(COUNTS, 1, sizes=[400, 600])
    assert a == pytest.approx(b, rel=1e-14)


def test_weights_average_to_one_over_the_mixture():
    rng = np.random.default_rng(0)
    counts, sizes = rng.integers(1, 50, (5, 7)), rng.integers(1, 900, 5)
    for target in range(5):
        w = likelihood_ratio(counts, target, sizes)
        assert w @ calibration_mixture(counts, sizes) == pytest.approx(1, abs=1e-13)
        assert w * calibration_mixture(counts, sizes) == pytest.approx(
            counts[target] / counts[target].sum(), abs=1e-13
        )


def test_labels_nobody_has_seen_get_weight_zero():
    assert likelihood_ratio([[5, 0], [3, 0]], [1, 1]).tolist() == [0.5, 0.0]


def test_oracle_ratio_is_the_ratio_of_the_true_distributions():
    priors = [[0.8, 0.2], [0.3, 0.7]]
    found = oracle_ratio(priors, [10, 30], 0)
    assert found == pytest.approx([0.8 / 0.425, 0.2 / 0.575], rel=1e-14)


@pytest.mark.parametrize(
    ("counts", "target", "sizes"),
    [
        ([[1, 2]], 1, None),
        ([[1, 2]], -2, None),
        ([[1, 2]], True, None),
        ([[1, 2]], [1, 2, 3], None),
        ([[1, 2]], [0, 0], None),
        ([[1, -2]], 0, None),
        ([[0, 0]], 0, None),
        ([[1, np.nan]], 0, None),
        ([1, 2], 0, None),
        (np.zeros((0, 3)), [1, 1, 1], None),
        (np.zeros((2, 0)), 0, None),
        ([["a", "b"]], 0, None),
        ([[1, 2]], 0, [1, 2]),
        ([[1, 2]], 0, [-1]),
        ([[1, 2]], None, None),
        ([[1, 2]], "x", None),
    ],
)
def test_bad_input_is_refused(counts, target, sizes):
    with pytest.raises(FedcoverError):
        likelihood_ratio(counts, target, sizes)


def test_extreme_counts_give_finite_ratios_or_an_error():
    with pytest.raises(FedcoverError, match="1e\\+100"):
        likelihood_ratio([[1e308, 1e308]], [1, 1])
    assert likelihood_ratio([[5e-324, 1.0]], [1, 1]).tolist() == [0, 0.5]


def test_effective_size():
    assert effective_size([1, 1], [30, 10]) == pytest.approx(40)
    assert effective_size([2, 0], [30, 10]) == pytest.approx(30)
    assert effective_size([3, 1], [1, 3]) == pytest.approx(36 / 12)
    assert effective_size([0, 0], [5, 5]) == 0


def test_subsample_takes_half_and_never_more_than_there_is():
    sizes = np.array([1, 10, 1000])
    drawn = np.array([subsample_sizes(sizes, np.random.default_rng(s)) for s in range(300)])
    assert (drawn <= sizes).all()
    assert (drawn.sum(axis=1) <= 1011 // 2).all()
    assert drawn[:, 2].mean() == pytest.approx(505 * 1000 / 1011, abs=1)  # 10 standard errors
