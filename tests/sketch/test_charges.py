"""What a reply costs: no record or site moves it further, and the sum has the noise, as stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fedcover.sketch.design import DESIGNS, design_matrix
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedcover as fc
from fedcover.engines.sums import added_up
from fedcover.privacy import ExactRelease, GaussianRelease, NoiseShares, epsilon
from fedcover.protocols.base import Task
from fedcover.sketch import plan, reply
from fedcover.sketch.table import Layout

from .building import RELATIONS, SKETCH, VIEWS, budget, design_number, powers, query, zeros


@st.composite
def asked(draw):
    """A site's labels and scores, and a query with any design, groups and bins."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, classes = draw(st.integers(2, 25)), draw(st.integers(2, 6))
    labels = rng.integers(0, classes, n)
    scores = rng.random(n).round(draw(st.sampled_from([1, 8])))
    cuts = np.unique(rng.random(draw(st.integers(1, 20))).round(3))
    arrays = {"cuts": cuts, "rows": rng.integers(0, draw(st.integers(1, classes)), classes)}
    design = draw(st.sampled_from(DESIGNS))
    numbers = {
        "design": design_number(design),
        "labels": draw(st.sampled_from([1, 2])),
        "scale": draw(st.sampled_from([1, 64, 3])),
        "cut": float(rng.random()),
    }
    return rng, scores, labels, classes, arrays, numbers


def replies(sites, asked_for):
    """Real replies, with the noise taken out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply.noise, "discrete_gaussian", zeros)
        return [reply.answer(asked_for, s).arrays for s in sites]


def moved(sites, asked_for, privacy):
    """How far each part of the reply is moved, and how far the charge says it can be."""
    one, two = replies(sites, asked_for)
    charged = {e.what.split()[-1]: e.sensitivity for e in reply.charges(asked_for, privacy, 1)}
    return [
        (float(np.linalg.norm(one[key] - two[key])), charged[word])
        for key, word in (("table", "table"), ("labels", "totals"))
    ]


@given(asked(), st.sampled_from(RELATIONS))
def test_no_record_moves_a_reply_further_than_charged(case, relation):
    rng, scores, labels, classes, arrays, numbers = case
    if relation == "replace":
        other, names = scores.copy(), labels.copy()
        other[0], names[0] = rng.random(), rng.integers(0, classes)
    else:
        other, names = scores[1:], labels[1:]
    pair = [fc.Site("s", scores, labels, n_classes=classes),
            fc.Site("s", other, names, n_classes=classes)]  # fmt: skip
    for distance, charged in moved(pair, query(arrays, **numbers), budget(relation=relation)):
        assert distance <= charged * (1 + 1e-12)


@given(asked(), asked(), st.sampled_from(RELATIONS), st.integers(1, 8))
def test_no_site_moves_a_reply_further_than_charged(case, other, relation, most):
    """Any two sites of one federation, however large; with add-remove, one against none."""
    _, scores, labels, classes, arrays, numbers = case
    _, other_scores, other_labels, *_ = other
    pair = [fc.Site("s", scores, labels, n_classes=classes),
            fc.Site("s", other_scores, other_labels % classes, n_classes=classes)]  # fmt: skip
    asked_for = query(arrays, **numbers, most=most)
    privacy = budget(unit="site", relation=relation)
    one, two = replies(pair, asked_for)
    charged = {e.what.split()[-1]: e.sensitivity for e in reply.charges(asked_for, privacy, 1)}
    for key, word in (("table", "table"), ("labels", "totals")):
        nothing = relation == "add-remove"
        distance = np.linalg.norm(one[key] - (0 if nothing else two[key]))
        assert distance <= charged[word] * (1 + 1e-12)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_charge_is_no_larger_than_it_must_be(design, relation):
    """A record in the bin with the longest column, replaced by one in another row, reaches it."""
    bins = 8
    longest = int((design_matrix(design, bins).astype(float) ** 2).sum(axis=0).argmax())
    score = (longest + 0.5) / bins
    first = fc.Site("s", [score, 0.5], [0, 1], n_classes=2)
    labels = [1, 1] if relation == "replace" else [1]
    second = fc.Site("s", [score, 0.5][-len(labels) :], labels, n_classes=2)
    arrays = {"cuts": np.arange(1, bins) / bins, "rows": np.arange(2)}
    asked_for = query(arrays, design=design_number(design))
    for distance, charged in moved([first, second], asked_for, budget(relation=relation)):
        assert distance == pytest.approx(charged)


def test_a_limit_on_the_records_of_a_site_is_charged_too():
    """One record more makes another one fall out of the random choice: two cells move.

    The site has 100 records in one cell, or one more in another, and may put in 100. The lower
    bound on δ is exact for halfspaces: with probability 100/101 the new record has replaced one.
    """
    privacy, most, delta = budget(relation="add-remove", view="server"), 100, 1e-5
    (event,) = reply.charges(query(labels=0, most=most), privacy, 1)
    spent = epsilon([event], delta)
    z = 300 / 64 / math.sqrt(2)  # noise in units of the distance between (100, 0) and (99, 1)
    t = np.linspace(-20, 20, 4001)
    chosen = most / (most + 1)
    real = chosen * stats.norm.sf(t - 1 / z) - np.exp(spent) * stats.norm.sf(t)
    real += (1 - chosen) * stats.norm.sf(t)
    assert real.max() <= delta


@pytest.mark.parametrize("sites", [1, 2, 3, 1000])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("unit", ["record", "site"])
def test_events_spend_exactly_the_budget(sites, view, relation, unit):
    most = 50 if unit == "site" else None
    for wanted in (0.1, 1.0, 8.0):
        privacy = fc.Privacy(wanted, 1e-6, unit, relation, view)
        for groups in (None, (0, 1, 0, 1)):
            for design in DESIGNS:
                layout = Layout(4, (0.0, 0.2, 0.5, 1.0), "even", design, groups)
                made = plan.noise_for(privacy, layout, sites, most)
                spent = epsilon(made.events, 1e-6)
                assert wanted * (1 - 1e-6) <= spent <= wanted + 1e-9
                assert made.scale == int(made.scale)
                # From 50 units on, whole-number noise may be accounted as continuous.
                assert min(made.table_sigma, made.label_sigma) >= 50


def queries_of(method, task, sites):
    """Every query of a run, with the noise in, and the table."""
    server = method.server(task)
    heard, got = [], None
    while True:
        try:
            asked_for = server.send(got)
        except StopIteration as done:
            return heard, done.value
        shared = hasattr(asked_for, "queries")
        queries = asked_for.queries if shared else asked_for
        heard.append(queries[sites[0].name])
        got = {s.name: method.answer(queries[s.name], s) for s in sites}
        if shared:
            got = {"sum": added_up(asked_for, got, task.sites)}


@pytest.mark.parametrize("sites", [1, 2, 3, 1000])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("unit", ["record", "site"])
@pytest.mark.parametrize("groups", [None, "learned"])
def test_a_site_is_charged_what_the_statement_says(sites, view, unit, groups):
    """Worked out by the site from the query alone, over all rounds, with the stated noise."""
    if sites == 1000 and groups == "learned":
        sites = 100
    made = powers(np.random.default_rng(0), [3] * sites, np.ones(25))
    privacy = budget(unit=unit, view=view)
    known = unit == "record"
    names = tuple(s.name for s in made)
    task = Task(names, 25, privacy=privacy, sizes=(3,) * sites if known else None)
    method = SKETCH(bins=4, groups=groups, most_per_site=None if known else 2)
    heard, _ = queries_of(method, task, made)
    assert len(heard) == (2 if groups else 1)
    charged = [e for q in heard for e in method.charges(q, privacy, sites)]
    stated = method.statement(task)
    assert len(charged) == len(stated.events) == 2
    for one, two in zip(
        sorted(charged, key=lambda e: e.what),
        sorted(stated.events, key=lambda e: e.what),
        strict=True,
    ):
        assert one.what == two.what
        assert one.sensitivity == pytest.approx(two.sensitivity, rel=1e-12)
        assert one.sigma == pytest.approx(two.sigma, rel=1e-12)
    assert epsilon(charged, 1e-5) <= 2 + 1e-9
    assert stated.epsilon == epsilon(stated.events, 1e-5)


def test_what_has_no_noise_is_charged_as_such():
    sigmas = {"table_sigma": 0.0, "label_sigma": 0.0}
    assert {type(e) for e in reply.charges(query(**sigmas), budget(), 3)} == {ExactRelease}
    one = reply.charges(query(label_sigma=0.0), budget(), 3)
    assert {type(e) for e in one} == {ExactRelease, GaussianRelease}
    assert reply.charges(query(table=0, labels=0), budget(), 3) == ()
    whole = reply.charges(query(), budget(unit="site"), 3)  # no limit to a site's records
    assert epsilon(whole, 1e-5) == math.inf


def test_in_a_sum_one_share_counts_as_known():
    """A site knows its own: of n shares n-1 hide a record, and alone one must do it all."""
    for n, shares in ((1, 1), (2, 1), (3, 2), (1000, 999)):
        (event,) = reply.charges(query(labels=0), budget(), n)
        assert event.sigma == pytest.approx(300 * math.sqrt(shares))
        (event,) = reply.charges(query(labels=0), budget(view="server"), n)
        assert event.sigma == 300


@pytest.mark.parametrize("sites", [2, 3, 20])
def test_sums_of_whole_number_noise_are_as_private_as_continuous_noise(sites):
    """ε from the law of the sum itself, of all shares but one."""
    made = plan.noise_for(budget(), Layout(4, (0.0, 0.5, 1.0)), sites, None)
    for event in made.events:
        shares = NoiseShares(event.sigma, sites - 1, scale=1)
        true = shares.true_epsilon((made.scale, -made.scale), 1e-5)
        assert true <= epsilon([event], 1e-5) + 2e-3


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("sites", [1, 2, 3, 40])
def test_the_noise_in_the_sum_is_the_one_stated(sites, view):
    """Sums of squares of independent noise against χ²; 32 comparisons at 3e-8: below 1e-6."""
    classes = 3000 if sites < 10 else 600
    made = powers(np.random.default_rng(0), [5] * sites, np.ones(classes))
    exact = fc.collect(made, SKETCH(bins=2)).table
    noisy = fc.collect(made, SKETCH(bins=2, groups=None), budget(view=view)).table
    assert noisy.layout.design == "flat"
    for key in ("table", "labels"):
        off = (getattr(noisy, key) / noisy.scale - getattr(exact, key)).ravel()
        (variance,) = getattr(noisy, f"{key.removesuffix('s')}_noise")
        ratio, n = float(off @ off) / variance, len(off)
        low, high = stats.chi2.ppf([1.5e-8, 1 - 1.5e-8], n)
        assert low <= ratio <= high
        assert abs(off.sum()) / math.sqrt(n * variance) < 5.7  # 1e-8


def test_noise_is_fresh_in_every_reply_and_follows_no_seed():
    site = powers(np.random.default_rng(0), [50], np.ones(4))
    one, two = (fc.collect(site, SKETCH(bins=4), budget(), seed=0).table for _ in range(2))
    assert not np.array_equal(one.table, two.table)
    assert not np.array_equal(one.labels, two.labels)
    assert not np.array_equal(one.table.sum(axis=1), one.labels[:, 0])  # measured separately


def test_site_level_privacy_needs_a_limit_and_keeps_to_it():
    sites = powers(np.random.default_rng(0), [400, 30, 70], np.ones(3))
    with pytest.raises(fc.FedcoverError, match="most_per_site"):
        fc.collect(sites, privacy=budget(unit="site"))
    with pytest.raises(fc.FedcoverError, match="most_per_site"):
        fc.collect(sites, SKETCH(most_per_site=0), budget(unit="site"))
    asked_for = query({"rows": np.arange(3)}, most=40)
    for site, got in zip(sites, replies(sites, asked_for), strict=True):
        put_in = min(40, len(site)) * 64
        assert got["table"].sum() == got["labels"].sum() == put_in


def test_the_records_that_go_in_are_a_fresh_random_choice():
    """Over 300 queries each of 60 records is in about a sixth; ±5.5 σ, false alarms below 1e-5."""
    site = fc.Site("s", (np.arange(60) + 0.5) / 60, np.zeros(60, int), n_classes=2)
    arrays = {"cuts": np.arange(1, 60) / 60, "rows": np.arange(2)}
    asked_for = query(arrays, most=10, scale=1)
    times = sum(r["table"][0] for r in (replies([site], asked_for)[0] for _ in range(300)))
    assert times.sum() == 3000
    spread = math.sqrt(300 * (1 / 6) * (5 / 6))
    assert np.abs(times - 50).max() <= 5.5 * spread


def test_where_a_record_may_be_added_no_number_of_records_is_public():
    sites = powers(np.random.default_rng(0), [300, 200], np.ones(3))
    open_ = fc.collect(sites, privacy=budget())
    assert open_.table.records == 500
    assert open_.privacy.public == ("the number of records of each site",)
    for hidden in (
        fc.collect(sites, privacy=budget(relation="add-remove")),
        fc.collect(sites, SKETCH(most_per_site=100), budget(unit="site")),
    ):
        assert hidden.table.records is None
        assert hidden.privacy.public == ()
    hidden = [fc.collect(sites, privacy=budget(relation="add-remove")) for _ in range(12)]
    assert len({s.n_records for s in hidden}) > 1  # from noisy totals; ± 25 each
