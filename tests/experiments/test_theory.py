"""Theory against practice: what is measured is what it says."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.experiments import records, runner
from fedcover.experiments import theory_measures as measured
from fedcover.experiments.federations import Simulated
from fedcover.experiments.theory import TheoryStudy, means, worst

from .conftest import check_figures

pytestmark = pytest.mark.figures


@pytest.fixture(scope="module")
def draw():
    return Simulated(fc.scores.APS(), n_test=500).draw(np.random.default_rng(0))


@pytest.fixture(scope="module")
def problem(draw):
    return measured.Problem.of(draw, 0.1)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return runner.run(TheoryStudy(), tmp_path_factory.mktemp("theory"), 3)


def test_the_averages_are_those_of_the_method(draw, problem):
    options = {"rounds": 30, "local_steps": 5, "step": 0.01, "gamma": 0.05, "start": 0.5}
    method = fc.methods.DPFedCP(average="all", **options)
    cal = fc.calibrate(draw.sites, 0.1, method, targets="agent 2")["agent 2"]
    found = measured.averages(
        problem, (7, 30), np.random.default_rng(0), local=5, step=0.01, gamma=0.05, start=0.5
    )
    assert len(found) == 2
    np.testing.assert_allclose(found[-1], cal.thresholds[0, problem.label], atol=1e-12)


def test_the_exact_quantile_is_that_of_estimated_weights(draw, problem):
    cal = fc.calibrate(draw.sites, 0.1, fc.methods.EstimatedWeights(), targets="agent 2")["agent 2"]
    assert problem.exact() == cal.thresholds[0, problem.label]
    assert problem.mixture.sum() == pytest.approx(1)


@pytest.mark.parametrize("gamma", [1e-4, 0.01, 1.0])
def test_the_excess_loss_is_least_at_the_smooth_quantile(problem, gamma):
    best = problem.smooth(gamma)
    around = problem.excess(best + np.array([-0.1, -1e-3, 0.0, 1e-3, 0.1]), gamma)
    assert around[2] == pytest.approx(0, abs=1e-12)
    assert (around[[0, 4]] > 1e-6).all()
    assert (around > -1e-12).all()


def test_noise_moves_the_averages_and_a_seed_repeats_them(problem):
    def noisy(seed: int) -> float:
        return measured.averages(problem, (5,), np.random.default_rng(seed), noise=3.0)[0]

    assert noisy(1) == noisy(1) != noisy(2)


def test_densities_are_bounds_of_a_density():
    low, high = measured.densities()
    assert 0 < low <= 1 <= high < 2


def test_distances_vanish_where_sites_are_alike():
    rng = np.random.default_rng(0)
    draw = measured.Scaled.of(105).draw(rng)
    assert [len(s) for s in draw.sites] == [100, 5]
    same = np.repeat(draw.priors[1:], 2, axis=0)
    alike = type(draw)(**{**vars(draw), "priors": same})
    found = {r["curve"]: r["y"] for r in measured.distances(alike, 105)}
    assert found["known ratios"] < 1e-9  # equal weights are exact without label shift
    assert found["saddlepoint"] < 1e-9
    assert found["estimated ratios"] > 0.01
    apart = {r["curve"]: r["y"] for r in measured.distances(draw, 105)}
    assert 1e-6 < apart["saddlepoint"] < apart["estimated ratios"] < 1


def test_every_curve_has_its_points(results):
    x, y = means(results, "rounds", "Theorem 4.1, σ_g = 10")
    assert x.tolist() == list(measured.CHECKPOINTS)
    repaired = means(results, "rounds", "Theorem 4.1 repaired, σ_g = 10")[1]
    assert (repaired > y).all()
    x, _ = means(results, "step", "Theorem 4.1, σ_g = 0")
    assert x.max() == pytest.approx(measured.GAMMA / 10)  # beyond, the theorem says nothing
    assert means(results, "step", "measured, σ_g = 0")[0].max() == pytest.approx(0.1)


def test_worst_is_the_largest_share_of_a_bound(results):
    x, y = means(results, "smoothing", "measured")
    assert worst(results, "smoothing", "measured", "Theorem 3.1") == pytest.approx(max(y / x))


def test_the_agreement_says_which_bounds_hold(results):
    rows = {(a.figure, a.what): a for a in TheoryStudy().agreement(results)}
    assert rows[("Theorem 3.1", "|Q^γ - Q| ≤ γ, every γ")].agrees
    assert rows[("Theorem 4.1", "excess loss by T, K and η, σ_g = 0")].agrees
    repaired = rows[("Theorem 4.1 repaired", "excess loss of one site, γ = 1, σ_g = 20")]
    assert repaired.agrees
    assert repaired.ours.startswith("holds")
    published = next(a for a in rows.values() if a.paper == "has converged")
    assert not published.agrees


def test_the_page_has_a_figure_for_each_part(results):
    sections = TheoryStudy().sections(results)
    check_figures(sections)
    names = [s.name for s in sections]
    assert len(names) == len(set(names)) == 12
    assert all(name.startswith("theory-") for name in names)


def test_one_draw_above_a_bound_is_enough_to_fail_it(results):
    c = results.columns
    here = (c["part"] == "smoothing") & (c["repetition"] == 2) & (c["x"] == measured.GAMMAS[5])
    y = c["y"].copy()
    y[here & (c["curve"] == "measured")] = 1.2 * y[here & (c["curve"] == "Theorem 3.1")]
    changed = records.Results({**c, "y": y}, results.metadata)
    assert worst(changed, "smoothing", "measured", "Theorem 3.1") < 1  # on average it holds
    found = {a.figure: a.agrees for a in TheoryStudy().agreement(changed)}
    assert found["Theorem 3.1"] is False
