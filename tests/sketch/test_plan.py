"""Noise from public numbers: it spends the budget; a hopeless run is refused before it starts."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedcover as fc
from fedcover.methods.base import Task
from fedcover.methods.sketch import factor, plan
from fedcover.methods.sketch.table import Layout, standard_cuts
from fedcover.privacy import Budget, Ledger, epsilon

from .building import FOUR, RELATIONS, SKETCH, VIEWS, budget, powers

NOISY = standard_cuts(1840)


def refused(records, labels, privacy, alphas=(), sites=10, most=None):
    layout = Layout(labels, NOISY, True)
    try:
        plan.refuse_hopeless(privacy, layout, sites, records, most, alphas)
    except fc.FedcoverError as error:
        return str(error)
    return None


@pytest.mark.parametrize("epsilon_", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("labels", [2, 5, 10])
@pytest.mark.parametrize("alphas", [(), (0.1,), (0.05, 0.2)])
def test_five_thousand_records_are_enough(epsilon_, labels, alphas):
    """Ten labels, ε = 1, secure sum; two sites or many."""
    for sites in (2, 10, 50):
        assert refused(5000, labels, budget(epsilon_), alphas, sites) is None


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
def test_refused_is_what_is_predicted_to_move_the_coverage_by_half_of_alpha(view, relation, alpha):
    """One record more or less around the limit, and the ε that is said to be enough is."""
    privacy = budget(view=view, relation=relation)
    layout = Layout(7, NOISY, True)
    at_one = plan.predicted_deviation(privacy, layout, 5, 1, None)
    need = math.ceil(at_one / (alpha / 2))
    assert refused(need, 7, privacy, (alpha, 0.4), 5) is None
    words = refused(need - 1, 7, privacy, (0.4, alpha), 5)
    assert f"at least {need} records" in words
    assert "No budget was spent" in words
    assert ("view='secure-sum'" in words) == (view == "server")
    words = refused(need // 10, 7, privacy, (alpha,), 5)
    enough = float(words.split("epsilon=")[2].split(",")[0])
    more = budget(enough * 1.01, view=view, relation=relation)
    assert refused(need // 10, 7, more, (alpha,), 5) is None


def test_no_budget_is_named_where_none_would_do():
    words = refused(3, 1000, budget(), (0.01,))
    assert "a larger budget" in words
    assert plan.least_epsilon(budget(), Layout(1000, NOISY, True), 10, 3, None, False, 0.01) is None


def test_the_predicted_deviation_is_the_one_noise_has():
    """Evenly mixed labels: √Σ_y c_y² times the noise of averaged sums; 400 draws know it to 3.5 %.

    A quarter is 7 standard errors.
    """
    sites = powers(np.random.default_rng(0), [900, 600], np.ones(3))
    task = Task(tuple(s.name for s in sites), 3, privacy=budget())
    layout = SKETCH(bins=64).layout(task)
    predicted = plan.predicted_deviation(budget(), layout, 2, 1500, None)
    off, near = [], slice(32 - 2, 32 + 3)  # of 64 bins two on either side
    exact = fc.collect(sites, SKETCH(bins=64)).table.misses[:, near].mean(axis=1).sum()
    for _ in range(400):
        table = fc.collect(sites, SKETCH(bins=64), budget()).table
        off.append((table.misses[:, near].mean(axis=1).sum() - exact) / 1500)
    assert np.std(off) == pytest.approx(predicted, rel=0.25)
    assert np.mean(off) == pytest.approx(0, abs=6 * predicted / 20)


@pytest.mark.parametrize("how", ["collect", "calibrate", "dp-fedcp"])
def test_a_hopeless_run_is_refused_before_data_or_budget_is_touched(tmp_path, monkeypatch, how):
    sites = powers(np.random.default_rng(0), [30, 30], np.ones(4))
    books = {s.name: Ledger(tmp_path / f"{s.name}.db", create=Budget(9.0, 1e-5)) for s in sites}
    engine = fc.engines.InProcess(ledgers=books, run_name="x")
    monkeypatch.setattr(SKETCH, "answer", lambda *a: pytest.fail("a site was asked"))
    options = {"privacy": budget(0.5), "engine": engine}
    run = {
        "collect": lambda: fc.collect(sites, **options),
        "calibrate": lambda: fc.calibrate(sites, 0.1, SKETCH(), **options),
        "dp-fedcp": lambda: fc.calibrate(sites, 0.1, fc.methods.DPFedCP(), **options),
    }[how]
    with pytest.raises(fc.FedcoverError, match="noise alone would move the coverage"):
        run()
    for book in books.values():
        assert book.state().spent == 0
        assert len(book.state().entries) == 1  # the budget


def test_the_smallest_level_of_a_calibration_decides():
    """A collection is judged for .1; a calibration for what it is asked for."""
    sites = powers(np.random.default_rng(0), [500, 500], np.ones(3))
    fc.calibrate(sites, [0.5, 0.3], SKETCH(), privacy=budget(0.5))
    for wrong in ({"alpha": [0.5, 0.02]}, {"alpha": 0.02}):
        with pytest.raises(fc.FedcoverError, match=r"alpha=0\.02"):
            fc.calibrate(sites, method=SKETCH(), privacy=budget(0.5), **wrong)
    fc.collect(sites, privacy=budget(1.0))


@pytest.mark.parametrize("options", [{"relation": "add-remove"}, {"unit": "site"}])
def test_where_numbers_of_records_are_not_public_nothing_is_predicted(options):
    sites = powers(np.random.default_rng(0), [20, 20], np.ones(3))
    method = SKETCH(bins=FOUR, most_per_site=20 if "unit" in options else None)
    assert fc.collect(sites, method, budget(0.5, **options)).table.records is None


def test_records_beyond_the_limit_of_a_site_do_not_count():
    sites = powers(np.random.default_rng(0), [5000, 5000], np.ones(3))
    fc.collect(sites, SKETCH(bins=64), budget(1.0))
    with pytest.raises(fc.FedcoverError, match="40 records of 3 labels"):
        fc.collect(sites, SKETCH(bins=64, most_per_site=20), budget(1.0))


def test_groups_lower_what_is_predicted():
    """Noise is on rows; fewer of them are hidden by it less."""
    single, pooled = Layout(100, NOISY, True), Layout(100, NOISY, True, (0, 1, 2, 3) * 25)
    of = [plan.predicted_deviation(budget(), x, 5, 4000, None) for x in (single, pooled)]
    assert of[0] == pytest.approx(5 * of[1])


@pytest.mark.parametrize("view", VIEWS)
def test_parts_get_their_shares_of_the_budget(view):
    """1/z² of the label totals is .15 of all, that of a confusion matrix .2."""
    layout = Layout(4, NOISY, True)
    for confusion in (False, True):
        made = plan.noise_for(budget(view=view), layout, 10, None, confusion)
        parts = {e.what: 1 / e.noise_multiplier**2 for e in made.events}
        total = sum(parts.values())
        assert parts["label totals"] / total == pytest.approx(0.15)
        table = 0.65 if confusion else 0.85
        assert parts["label × score table"] / total == pytest.approx(table)
        for part in made.events:
            alone = epsilon([part], 1e-5)
            assert 0 < alone < 2


def test_without_a_budget_there_is_no_noise():
    made = plan.noise_for(None, Layout(4, NOISY), 10, None)
    assert (made.scale, made.table_sigma, made.label_sigma, made.events) == (1, 0, 0, ())
    assert made.variance(0.0, 10) == ()


def test_shares_of_the_noise_add_up():
    """In a sum each site adds a part; the server's view needs all of it from each."""
    layout = Layout(4, NOISY, True)
    alone = plan.noise_for(budget(view="server"), layout, 10, None)
    shared = plan.noise_for(budget(), layout, 10, None)
    one, ten = (n.table_sigma / n.scale for n in (alone, shared))
    assert ten * math.sqrt(9) == pytest.approx(one)
    assert alone.variance(alone.table_sigma, 10)[0] == pytest.approx(10 * one**2)
    assert one == pytest.approx(
        math.sqrt(2) * factor.reach(1840) * alone.events[1].noise_multiplier
    )
