"""What Algorithm 1 releases under each view."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedcover.errors import FedcoverError
from fedcover.labelshift.weights import oracle_ratio
from fedcover.methods.dp_fedcp.algorithm1 import (
    IMAGENET_SIZES,
    AlgorithmOne,
    imagenet_mixture,
    size_mixture,
)
from fedcover.privacy.accounting import epsilon

# ε at δ = 1e-5 of (a) and (b), each for one run and for 1000, with the digits that are known.
KNOWN = {
    10: ((46.2, 0.05), (2.1e4, 500), (9.6, 0.05), (2130, 5)),
    30: ((10.7, 0.05), (2510, 5), (2.65, 0.005), (294, 0.5)),
    60: ((4.65, 0.005), (697, 0.5), (1.22, 0.005), (95, 0.5)),
    100: ((2.59, 0.005), (284, 0.5), (0.70, 0.005), (44, 0.5)),
}


@pytest.mark.parametrize("sigma", KNOWN)
def test_the_published_imagenet_run(sigma):
    runs = [AlgorithmOne(sigma, imagenet_mixture(), runs=r) for r in (1, 1000)]
    found = [epsilon(run.server_events(), 1e-5) for run in runs]
    found += [epsilon(run.secure_sum_events(), 1e-5) for run in runs]
    for value, (known, tolerance) in zip(found, KNOWN[sigma], strict=True):
        assert value == pytest.approx(known, abs=tolerance)


def test_mixture_follows_the_label_shift():
    mixes = np.array([[0.9, 0.1]] * 10 + [[0.1, 0.9]])
    ratios = oracle_ratio(mixes, np.array(IMAGENET_SIZES), 10)
    totals = np.array(IMAGENET_SIZES) * (mixes @ ratios)
    np.testing.assert_allclose(imagenet_mixture(), totals / totals.sum())
    assert max(imagenet_mixture()) == imagenet_mixture()[-1]  # the smallest site


def test_noise_of_the_sum():
    """μ = max λ √(TKR) / (σ_g ‖λ‖₂)."""
    mixture = size_mixture([3, 4, 12])
    (event,) = AlgorithmOne(5.0, mixture, 7, 3, runs=2).secure_sum_events()
    mu = math.sqrt(event.count) / event.noise_multiplier
    assert mu == pytest.approx(12 / 13 * math.sqrt(7 * 3 * 2) / 5)
    assert event.sampled is None


def test_hidden_draws_count_only_with_equal_weights():
    (event,) = AlgorithmOne(5.0, (1.0,) * 10, 50, 4, sites_per_round=2).secure_sum_events()
    assert event.sampled == (2, 10)
    assert event.count == 50
    assert event.noise_multiplier == pytest.approx(5 * math.sqrt(2) / math.sqrt(4))
    unequal = AlgorithmOne(5.0, (*(1.0,) * 9, 2.0), 50, 4, sites_per_round=2)
    (event,) = unequal.secure_sum_events()
    assert event.sampled is None
    assert event.count == 200
    assert event.noise_multiplier == pytest.approx(5 * math.sqrt(5) / 2)  # heaviest with lightest
    assert not unequal.amplified


def test_everything_together_is_infinite():
    run = AlgorithmOne(100.0, imagenet_mixture())
    assert epsilon([*run.server_events(), *run.exact_events()], 1e-5) == math.inf


def test_claim_of_the_paper():
    run = AlgorithmOne(1.7356945, (0.5, 0.5), 1, 1, 1)
    assert run.claimed_epsilon(1e-5) == pytest.approx(0.9, abs=1e-3)
    assert AlgorithmOne(0.1, (0.5, 0.5), 1, 1, 1).claimed_epsilon(1e-5) is None


@pytest.mark.parametrize(
    "wrong",
    [{"noise": 0}, {"mixture": ()}, {"mixture": (0.0, 1.0)}, {"rounds": 0}, {"runs": 0},
     {"sites_per_round": 3}],
)  # fmt: skip
def test_refuses(wrong):
    with pytest.raises(FedcoverError):
        AlgorithmOne(**{"noise": 1.0, "mixture": (0.5, 0.5), **wrong})
    with pytest.raises(FedcoverError):
        size_mixture([3, 0])
