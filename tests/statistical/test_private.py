"""Private DP-FedCP on the paper's simulated data: record level, replace-one, secure sum, δ = 1e-5.

500 repetitions; counts are part of the budget. Standard errors of the means are below .0015 and of
the standard deviations below .001, so the bounds fail by chance less than once in 10⁴ runs.
"""

import numpy as np
import pytest

import fedcover as fc
from fedcover.privacy import noise_multiplier

from .federations import Simulated

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning"),
]

LARGEST_SD = {1: 0.035, 2: 0.025, 4: 0.022, 8: 0.02}


@pytest.fixture(scope="module")
def draws():
    return list(Simulated(fc.scores.APS()).draws(500, n_test=20_000))


def covered(draws, epsilon, mode):
    budget = fc.Privacy(epsilon, 1e-5, view="secure-sum")
    method = fc.methods.DPFedCP(mode=mode)
    found = []
    for draw in draws:
        cal = fc.calibrate(draw.sites, 0.1, method, targets="agent 2", privacy=budget)["agent 2"]
        assert cal.privacy.epsilon <= epsilon * (1 + 1e-9)
        found.append((draw.coverage(cal), draw.mean_size(cal)))
    return shown(f"ε={epsilon} {mode}", found)


def shown(what, found):
    coverage, size = np.array(found).T
    print(f"\n{what}: {coverage.mean():.4f} ± {coverage.std():.4f}, set size {size.mean():.3f}")
    return coverage


@pytest.mark.parametrize("epsilon", LARGEST_SD)
def test_balanced_is_right_on_average(draws, epsilon):
    coverage = covered(draws, epsilon, "balanced")
    assert abs(coverage.mean() - 0.9) <= 0.02
    assert coverage.std() <= LARGEST_SD[epsilon]


@pytest.mark.parametrize("epsilon", [0.5, *LARGEST_SD])
def test_guaranteed_does_not_fall_below(draws, epsilon):
    assert covered(draws, epsilon, "guaranteed").mean() >= 0.9


@pytest.mark.parametrize("score", [fc.scores.APS(u=1.0), fc.scores.LAC()], ids=str)
def test_crowded_scores_are_covered_too(score):
    """Scores that crowd near an end of [0, 1] need the second, finer histogram."""
    draws = list(Simulated(score).draws(300, n_test=5000))
    method = fc.methods.DPFedCP(public_counts=True)
    budget = fc.Privacy(4, 1e-5, view="secure-sum")
    found = [
        d.coverage(fc.calibrate(d.sites, 0.1, method, targets="agent 2", privacy=budget)["agent 2"])
        for d in draws
    ]
    print(f"\n{score}: {np.mean(found):.4f} ± {np.std(found):.4f}")
    assert abs(np.mean(found) - 0.9) <= 0.02


def test_the_published_algorithm_at_the_same_epsilon(draws):
    """Noise for ε = 1 over its T·K steps and three runs, site level, sums only: useless sets."""
    share = np.array([1000, 50]) / np.linalg.norm([1000, 50])
    noise = noise_multiplier(1.0, 1e-5, count=200 * 20 * 3) * share.max()
    method = fc.methods.DPFedCP.paper(start=0.5, gradient_noise=noise)
    found = []
    for r, draw in enumerate(draws[:100]):
        cal = fc.calibrate(draw.sites, 0.1, method, targets="agent 2", seed=r)["agent 2"]
        found.append((draw.coverage(cal), draw.mean_size(cal)))
    coverage = shown(f"published settings, σ_g={noise:.0f}", found)
    assert coverage.std() > 5 * LARGEST_SD[1]


def test_no_privacy_for_comparison(draws):
    found = []
    for draw in draws:
        cal = fc.calibrate(draw.sites, 0.1, targets="agent 2")["agent 2"]
        found.append((draw.coverage(cal), draw.mean_size(cal)))
    assert abs(shown("no privacy", found).mean() - 0.9) <= 0.005
