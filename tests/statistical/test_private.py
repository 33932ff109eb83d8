"""Private DP-FedCP, which is the sketch, on the paper's simulated data beside other ways.

Record level, replace-one, secure sum, δ = 1e-5. Standard errors of means of 300 repetitions are
below .003: a bound that is .005 and four of them away fails by chance less than once in 10⁴ runs.
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


@pytest.fixture(scope="module")
def draws():
    return list(Simulated(fc.scores.APS()).draws(300, n_test=20_000))


def shown(what, found):
    coverage, size = np.array(found).T
    print(f"\n{what}: {coverage.mean():.4f} ± {coverage.std():.4f}, set size {size.mean():.3f}")
    return coverage


@pytest.mark.parametrize("epsilon", [1, 2, 4, 8])
def test_it_covers_as_the_sketch_does(draws, epsilon):
    """Two runs with noise of their own: means and deviations of one law."""
    budget, found = fc.Privacy(epsilon, 1e-5, view="secure-sum"), {}
    for draw in draws:
        for name, method in (("DP-FedCP", fc.methods.DPFedCP()), ("Sketch", fc.methods.Sketch())):
            options = {"targets": "agent 2", "privacy": budget}
            cal = fc.calibrate(draw.sites, 0.1, method, **options)["agent 2"]
            assert cal.privacy.epsilon <= epsilon * (1 + 1e-9)
            found.setdefault(name, []).append((draw.coverage(cal), draw.mean_size(cal)))
    one, two = (shown(f"ε={epsilon} {name}", f) for name, f in found.items())
    spread = max(one.std(), two.std())
    assert abs(one.mean() - two.mean()) <= 5 * spread * np.sqrt(2 / len(one))
    assert abs(np.log(one.std() / two.std())) <= 0.3


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
    assert coverage.std() > 0.175


def test_no_privacy_for_comparison(draws):
    found = []
    for draw in draws:
        cal = fc.calibrate(draw.sites, 0.1, targets="agent 2")["agent 2"]
        found.append((draw.coverage(cal), draw.mean_size(cal)))
    assert abs(shown("no privacy", found).mean() - 0.9) <= 0.005
