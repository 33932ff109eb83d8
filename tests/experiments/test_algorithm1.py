"""Algorithm 1 in one loop: the method's own thresholds, and noise of the right size."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import chi2

import fedcover as fc
from fedcover.experiments import algorithm1
from fedcover.experiments.algorithm1 import Published
from fedcover.experiments.federations import Draw, Simulated, cifar10, cifar10_records
from fedcover.position import scores_at
from fedcover.scores import APS


def _with_gaps() -> Draw:
    """Five labels, one without a calibration record, one that a site lacks; few records."""
    rng = np.random.default_rng(4)
    sites = [
        fc.Site(name, rng.random(n), y, n_classes=5, label_counts=more)
        for name, n, y, more in (
            ("a", 30, rng.integers(0, 4, 30), [10, 10, 10, 10, 5]),
            ("b", 6, np.array([0, 0, 0, 1, 1, 1]), [6, 4, 0, 0, 2]),
        )
    ]
    one = np.ones(1)
    return Draw(
        sites, "b", np.full((2, 5), 0.2), np.zeros(1, np.int64), one, one, one[:, None], one
    )


def _draws() -> list[Draw]:
    rng = np.random.default_rng(7)
    fed = cifar10(cifar10_records(None, 1.6), APS())
    return [Simulated(APS(u=1.0)).draw(rng), fed.draw(rng), _with_gaps()]


@pytest.mark.parametrize("start", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("subsample", [True, False])
def test_thresholds_are_those_of_the_method_to_the_last_bit(start, number, subsample):
    draw = _draws()[number]
    method = fc.methods.DPFedCP.paper(start, subsample=subsample)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.FedcoverWarning)
        wanted = fc.calibrate(draw.sites, 0.1, method, targets=draw.target, seed=11)
    found = Published(start, subsample=subsample).thresholds(draw, 0.1, 11)
    assert found.tobytes() == wanted[draw.target].thresholds[0].tobytes()
    assert len(np.unique(found)) > 1


def test_noise_has_the_stated_spread_at_every_site():
    """After one step from q₀, q̄ is off by η Σ λ^i Z^i: variance (η σ_g)² Σ (λ^i)².

    2000 draws of 3 labels: the sum of squares is chi-square with 6000 degrees of freedom. False
    alarms: 1 in 10,000; noise that is 5 % too large is found with a chance above 95 %.
    """
    rng = np.random.default_rng(5)
    records = [(np.sort(rng.random(n)), rng.integers(0, 3, n), n / 300) for n in (200, 100)]
    ratios = np.array([0.5, 1.0, 2.0])
    given = {"start": 0.5, "rounds": 1, "local_steps": 1, "step": 1e-3, "gamma": 1e-6}
    problem = algorithm1.Problem.of(records, ratios, np.arange(3))
    quiet = algorithm1.averages(problem, 0.1, **given)[0]
    given |= {"noise": 30.0, "rng": rng}
    noisy = np.array([algorithm1.averages(problem, 0.1, **given)[0] for _ in range(2000)])
    own = np.array([[ratios[y].sum() + share * w for w in ratios] for _, y, share in records])
    energy = ((own / own.sum(axis=0)) ** 2).sum(axis=0)
    squares = (((noisy - quiet) / (1e-3 * 30.0)) ** 2 / energy).sum()
    low, high = chi2.ppf([5e-5, 1 - 5e-5], 6000)
    assert low < squares < high


def test_more_rounds_go_on_from_fewer():
    draw = _draws()[0]
    held = [site.sorted_records() for site in draw.sites]
    records = [(scores_at(at), labels, 0.5) for at, labels in held]
    given = {"start": 0.0, "local_steps": 5, "step": 1e-3, "gamma": 1e-6}
    problem = algorithm1.Problem.of(records, np.ones(3), np.array([1]))
    few = algorithm1.averages(problem, 0.1, **given, rounds=10)
    many = algorithm1.averages(problem, 0.1, **given, rounds=30)
    np.testing.assert_array_equal(many[:10], few)
    assert (np.diff(many[:, 0]) > 0).all()


def test_a_common_run_is_that_of_the_label_of_largest_weight():
    draw = _draws()[1]
    each, common = (Published(0.5, common=c).thresholds(draw, 0.1, 3) for c in (False, True))
    assert set(common) <= {*each, 1.0}
    assert len(set(common[common < 1])) == 1
    assert common[common < 1][0] == each[np.argmax(_ratios(draw))]


def _ratios(draw: Draw) -> np.ndarray:
    counts = np.stack([s.label_counts for s in draw.sites])
    return fc.labelshift.likelihood_ratio(counts, [s.name for s in draw.sites].index(draw.target))


@pytest.mark.parametrize("number", range(2))
def test_a_threshold_of_one_lets_every_label_in(number):
    draw = _draws()[number]
    everything = np.ones(draw.priors.shape[1])
    assert draw.size(everything) == pytest.approx(len(everything), abs=1e-12)
    assert draw.coverage(everything) == pytest.approx(1.0, abs=1e-12)
    assert draw.coverage(everything) <= 1
