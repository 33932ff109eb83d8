"""What a reply costs: no record or site moves it further, and the sum has the noise, as stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedcover as fc
from fedcover.engines.base import sum_replies
from fedcover.methods.base import Task
from fedcover.methods.sketch import client, factor, plan
from fedcover.methods.sketch.table import Layout, checked_cuts, standard_cuts
from fedcover.position import positions
from fedcover.privacy import (
    ExactRelease,
    GaussianRelease,
    NoiseShares,
    epsilon,
    noise_multiplier,
)

from .building import FOUR, RELATIONS, SKETCH, VIEWS, a_query, budget, even, powers, zeros


@st.composite
def asked(draw):
    """A site's labels, scores and predictions, and a query with any groups and bins."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, classes = draw(st.integers(2, 25)), draw(st.integers(2, 6))
    labels = rng.integers(0, classes, n)
    scores = rng.random(n).round(draw(st.sampled_from([1, 8])))
    cuts = positions(np.unique(rng.random(draw(st.integers(1, 20))).round(3)))
    arrays = {"cuts": cuts, "rows": rng.integers(0, draw(st.integers(1, classes)), classes)}
    numbers = {
        "factored": draw(st.integers(0, 1)),
        "confusion": 1,
        "scale": draw(st.sampled_from([1, 64, 3])),
    }
    return rng, scores, labels, classes, arrays, numbers


def site(scores, labels, classes):
    """A site whose predictions follow from its records alone, one by one."""
    predicted = (np.asarray(labels) + (np.asarray(scores) * 10).astype(int)) % classes
    return fc.Site("s", scores, labels, n_classes=classes, predictions=predicted)


def replies(sites, asked_for):
    """Real replies, with the noise taken out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.noise, "discrete_gaussian", zeros)
        return [client.answer(asked_for, s).arrays for s in sites]


def moved(sites, asked_for, privacy):
    """How far each part of the reply is moved, and how far the charge says it can be."""
    one, two = replies(sites, asked_for)
    charged = charges_of(asked_for, privacy)
    return [(norm(one[key].astype(object) - two[key]), charged[key]) for key in charged]


def norm(differences):
    """Of whole numbers, rounded once."""
    return math.sqrt(sum(int(d) ** 2 for d in np.ravel(differences)))


def charges_of(asked_for, privacy):
    """Sensitivities as charged, by the array of the reply; noise everywhere, so nothing exact."""
    names = {"table": "table", "totals": "labels", "matrix": "confusion"}
    charged = client.charges(asked_for, privacy, 1)
    return {names[e.what.split()[-1]]: e.sensitivity for e in charged}


@given(asked(), st.sampled_from(RELATIONS))
def test_no_record_moves_a_reply_further_than_charged(case, relation):
    rng, scores, labels, classes, arrays, numbers = case
    if relation == "replace":
        other, names = scores.copy(), labels.copy()
        other[0], names[0] = rng.random(), rng.integers(0, classes)
    else:
        other, names = scores[1:], labels[1:]
    pair = [site(scores, labels, classes), site(other, names, classes)]
    asked_for = a_query(arrays, **numbers, confusion_sigma=300.0)
    found = moved(pair, asked_for, budget(relation=relation))
    assert len(found) == 3
    for distance, charged in found:
        assert distance <= charged * (1 + 1e-12)


@given(asked(), asked(), st.sampled_from(RELATIONS), st.integers(1, 8))
def test_no_site_moves_a_reply_further_than_charged(case, other, relation, most):
    """Any two sites of one federation, however large; with add-remove, one against none."""
    _, scores, labels, classes, arrays, numbers = case
    _, other_scores, other_labels, *_ = other
    pair = [site(scores, labels, classes), site(other_scores, other_labels % classes, classes)]
    asked_for = a_query(arrays, **numbers, most=most, confusion_sigma=300.0)
    privacy = budget(unit="site", relation=relation)
    one, two = replies(pair, asked_for)
    for key, charged in charges_of(asked_for, privacy).items():
        other = 0 if relation == "add-remove" else two[key]
        assert norm(one[key].astype(object) - other) <= charged * (1 + 1e-12)


@pytest.mark.parametrize("bins", [4, 64, 1840])
@pytest.mark.parametrize("factored", [0, 1])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_charge_is_no_larger_than_it_must_be(bins, factored, relation):
    """A record in the top bin, replaced by one in another row, reaches it."""
    first = site([1.0, 0.5], [0, 1], 2)
    labels = [1, 1] if relation == "replace" else [1]
    second = site([1.0, 0.5][-len(labels) :], labels, 2)
    cuts = np.array(checked_cuts(even(bins)) if bins < 64 else standard_cuts(bins))
    asked_for = a_query({"cuts": cuts, "rows": np.arange(2)}, factored=factored)
    found = moved([first, second], asked_for, budget(relation=relation))
    for distance, charged in found:
        assert distance == pytest.approx(charged, rel=1e-12)
    cells = math.sqrt(2) if relation == "replace" else 1.0
    column = factor.reach(bins) if factored else 1.0
    assert found[0][1] == pytest.approx(64 * cells * column, rel=1e-12)


def test_a_limit_on_the_records_of_a_site_is_charged_too():
    """One record more makes another one fall out of the random choice: two cells move.

    The site has 100 records in one cell, or one more in another, and may put in 100. The lower
    bound on δ is exact for halfspaces: with probability 100/101 the new record has replaced one.
    """
    privacy, most, delta = budget(relation="add-remove", view="server"), 100, 1e-5
    table, event = client.charges(a_query(factored=0, most=most), privacy, 1)
    assert table.sensitivity == event.sensitivity
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
            for bins, confusion in ((4, False), (64, True), (1840, False)):
                cuts = standard_cuts(bins) if bins > 4 else checked_cuts(FOUR)
                layout = Layout(4, cuts, True, groups)
                made = plan.noise_for(privacy, layout, sites, most, confusion)
                spent = epsilon(made.events, 1e-6)
                assert wanted * (1 - 1e-6) <= spent <= wanted + 1e-9
                assert len(made.events) == 2 + confusion
                assert made.scale == int(made.scale)
                # From 50 units on, whole-number noise may be accounted as continuous.
                sigmas = [made.table_sigma, made.label_sigma, made.confusion_sigma]
                assert min(sigmas[: 2 + confusion]) >= 50
                assert (made.confusion_sigma > 0) == confusion


def run(method, task, sites):
    """The table of a run that nobody refuses for its noise."""
    server = method.server(task)
    asked_for = next(server)
    shared = hasattr(asked_for, "queries")
    queries = asked_for.queries if shared else asked_for
    got = {s.name: method.answer(queries[s.name], s) for s in sites}
    with pytest.raises(StopIteration) as done:
        server.send({"sum": sum_replies(asked_for, got, task.sites)} if shared else got)
    return done.value.value


@pytest.mark.parametrize("sites", [1, 2, 3, 1000])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("unit", ["record", "site"])
@pytest.mark.parametrize("confusion", [False, True])
def test_a_site_is_charged_what_the_statement_says(sites, view, unit, confusion):
    """Worked out by the site from the query alone, with the stated noise."""
    classes, sizes = 5, (100_000 // sites,) * sites
    privacy = budget(unit=unit, view=view)
    known = unit == "record"
    names = tuple(f"s{k}" for k in range(sites))
    task = Task(names, classes, privacy=privacy, sizes=sizes if known else None)
    method = SKETCH(groups=[0, 0, 1, 1, 2], most_per_site=None if known else 2, confusion=confusion)
    server = method.server(task)
    first = next(server)
    asked_for = first.queries
    assert len({id(q) for q in asked_for.values()}) == 1  # all are asked for the same
    charged = method.charges(asked_for["s0"], privacy, sites)
    stated = method.statement(task)
    assert len(charged) == len(stated.events) == 2 + confusion
    for one, two in zip(
        sorted(charged, key=lambda e: e.what),
        sorted(stated.events, key=lambda e: e.what),
        strict=True,
    ):
        assert one.what == two.what
        assert one.sensitivity == pytest.approx(two.sensitivity, rel=1e-12)
        assert one.sigma == pytest.approx(two.sigma, rel=1e-12)
    assert 2 * (1 - 1e-6) <= epsilon(charged, 1e-5) <= 2 + 1e-9
    assert stated.epsilon == epsilon(stated.events, 1e-5)


def test_what_has_no_noise_is_charged_as_such():
    sigmas = {"table_sigma": 0.0, "label_sigma": 0.0}
    assert {type(e) for e in client.charges(a_query(**sigmas), budget(), 3)} == {ExactRelease}
    one = client.charges(a_query(label_sigma=0.0), budget(), 3)
    assert {type(e) for e in one} == {ExactRelease, GaussianRelease}
    with_pairs = client.charges(a_query(confusion=1), budget(), 3)
    assert [type(e) for e in with_pairs] == [GaussianRelease, GaussianRelease, ExactRelease]
    whole = client.charges(a_query(), budget(unit="site"), 3)  # no limit to a site's records
    assert epsilon(whole, 1e-5) == math.inf


def test_in_a_sum_the_shares_of_conspirators_count_as_known():
    """A site knows its own: of n shares n - c hide a record, and alone one must do it all."""
    for n, c, shares in (
        (1, 1, 1), (2, 1, 1), (3, 1, 2), (1000, 1, 999), (3, 0, 3), (5, 2, 3), (5, 4, 1), (5, 9, 1)
    ):  # fmt: skip
        for event in client.charges(a_query(), budget(conspirators=c), n):
            assert event.sigma == pytest.approx(300 * math.sqrt(shares))
    for n in (1, 2, 1000):
        for event in client.charges(a_query(), budget(view="server"), n):
            assert event.sigma == 300


@pytest.mark.parametrize("sites", [2, 3, 20])
def test_sums_of_whole_number_noise_are_as_private_as_continuous_noise(sites):
    """ε from the law of the sum itself, of all shares but one, for every number that moves."""
    made = plan.noise_for(budget(), Layout(4, checked_cuts((0, 0.5, 1)), True), sites, None)
    column = (factor.coefficients(2) * made.scale).tolist()
    moves = {"label totals": (made.scale,), "label × score table": tuple(column)}
    for event in made.events:
        shares = NoiseShares(event.sigma, sites - 1, scale=1)
        moved = moves[event.what] + tuple(-m for m in moves[event.what])
        assert math.sqrt(sum(m * m for m in moved)) == pytest.approx(event.sensitivity)
        assert shares.true_epsilon(moved, 1e-5) <= epsilon([event], 1e-5) + 2e-3


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("sites", [1, 2, 3, 40])
def test_the_noise_in_the_sum_is_the_one_stated(sites, view):
    """Sums of squares of independent noise against χ²; 32 comparisons at 3e-8: below 1e-6."""
    classes = 1000 if sites < 10 else 300
    made = powers(np.random.default_rng(0), [5] * sites, np.ones(classes))
    made = [fc.Site(s.name, s.scores, s.labels, n_classes=classes) for s in made]
    task = Task(tuple(s.name for s in made), classes, privacy=budget(view=view))
    noisy = run(SKETCH(bins=FOUR), task, made)
    exact = fc.collect(made, SKETCH(bins=FOUR)).table
    for key, value, variances in (
        ("table", factor.measured(exact.table), noisy.table_noise),
        ("labels", exact.labels, noisy.label_noise),
    ):
        off = (getattr(noisy, key) / noisy.scale - value).ravel()
        (variance,) = variances
        ratio, n = float(off @ off) / variance, len(off)
        low, high = stats.chi2.ppf([1.5e-8, 1 - 1.5e-8], n)
        assert low <= ratio <= high
        assert abs(off.sum()) / math.sqrt(n * variance) < 5.7  # 1e-8


@pytest.mark.parametrize(("n", "c", "t"), [(4, 1, 3), (5, 0, 3), (5, 2, 4), (6, 1, 4), (6, 4, 6)])
def test_the_noise_that_conspirators_cannot_take_off_is_what_is_stated_and_charged(n, c, t):
    """t sites are left of n, and c of them tell their noise: the variance of the rest.

    χ² of 8000 and 2000 numbers at 1e-8, ten comparisons. One share more or less would change the
    variance by a quarter at least, 11 and 5 deviations away.
    """
    names, classes = tuple(f"s{k}" for k in range(n)), 2000
    sites = [fc.Site(name, np.ones(3), [0, 1, 2], n_classes=classes) for name in names]
    privacy, method = budget(1.0, conspirators=c), SKETCH(bins=FOUR)
    task = Task(names, classes, privacy=privacy, min_survivors=t)
    asked_for = next(method.server(task)).queries["s0"]
    stated = {e.what.split()[-1]: e.sigma for e in method.statement(task).events}
    charged = {e.what.split()[-1]: e.sigma for e in method.charges(asked_for, privacy, t)}
    bare = replies(sites[:1], asked_for)[0]
    hidden = [method.answer(asked_for, site).arrays for site in sites[: t - c]]
    for key, name in (("table", "table"), ("labels", "totals")):
        left = sum((one[key] - bare[key]).ravel().astype(float) for one in hidden)
        low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], len(left))
        assert stated[name] == pytest.approx(charged[name], rel=1e-12)
        assert low <= float(left @ left) / stated[name] ** 2 <= high


@pytest.mark.parametrize("view", VIEWS)
def test_noise_is_as_large_as_the_budget_says(view):
    """From ε alone: σ of every number for one replaced record, by an account of its own.

    A site of one or two has all noise of what its fellow sees. χ² of 8000 and 2000 numbers at
    1e-8: noise of nine tenths of the deviation would be 12 and 6 deviations away.
    """
    classes, n_sites = 2000, 1 if view == "server" else 2
    sites = [fc.Site(f"s{k}", np.ones(3), [0, 1, 2], n_classes=classes) for k in range(n_sites)]
    privacy = budget(1.0, view=view)
    query_of = SKETCH(bins=FOUR)
    asked_for = next(query_of.server(Task(tuple(s.name for s in sites), classes, privacy=privacy)))
    message = asked_for.queries["s0"]
    scale = message.numbers["scale"]
    one, other = (query_of.answer(message, sites[0]).arrays for _ in range(2))
    z = {"table": 0.85, "labels": 0.15}  # shares of 1/z²
    column = math.sqrt(sum(int(v) ** 2 for v in factor.coefficients(4)))
    for key, share in z.items():
        noise = (one[key] - other[key]).ravel() / math.sqrt(2)
        reach = math.sqrt(2) * scale * (column if key == "table" else 1.0)
        wanted = noise_multiplier(1.0, 1e-5) / math.sqrt(share) * reach
        low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], len(noise))
        assert low <= float(noise @ noise) / wanted**2 <= high


def test_noise_is_fresh_in_every_reply_and_follows_no_seed():
    site = powers(np.random.default_rng(0), [900], np.ones(4))
    one, two = (fc.collect(site, SKETCH(bins=FOUR), budget(), seed=0).table for _ in range(2))
    assert not np.array_equal(one.table, two.table)
    assert not np.array_equal(one.labels, two.labels)
    assert not np.allclose(one.misses[:, -1], one.separate_totals, atol=0.01)  # measured separately


def test_site_level_privacy_needs_a_limit_and_keeps_to_it():
    sites = powers(np.random.default_rng(0), [400, 30, 70], np.ones(3))
    with pytest.raises(fc.FedcoverError, match="most_per_site"):
        fc.collect(sites, privacy=budget(unit="site"))
    with pytest.raises(fc.FedcoverError, match="most_per_site"):
        fc.collect(sites, SKETCH(most_per_site=0), budget(unit="site"))
    asked_for = a_query({"rows": np.arange(3)}, most=40, factored=0)
    for site, got in zip(sites, replies(sites, asked_for), strict=True):
        put_in = min(40, len(site)) * 64
        assert got["table"].sum() == got["labels"].sum() == put_in


def test_the_records_that_go_in_are_a_fresh_random_choice():
    """Over 300 queries each of 60 records is in about a sixth; ±5.5 σ, false alarms below 1e-5."""
    site = fc.Site("s", (np.arange(60) + 0.5) / 60, np.zeros(60, int), n_classes=2)
    arrays = {"cuts": positions(np.arange(1, 60) / 60), "rows": np.arange(2)}
    asked_for = a_query(arrays, most=10, scale=1, factored=0)
    times = sum(r["table"][0] for r in (replies([site], asked_for)[0] for _ in range(300)))
    assert times.sum() == 3000
    spread = math.sqrt(300 * (1 / 6) * (5 / 6))
    assert np.abs(times - 50).max() <= 5.5 * spread


def test_where_a_record_may_be_added_no_number_of_records_is_public():
    sites = powers(np.random.default_rng(0), [600, 400], np.ones(3))
    open_ = fc.collect(sites, privacy=budget())
    assert open_.table.records == 1000
    assert open_.privacy.public == ("the number of records of each site",)
    for hidden in (
        fc.collect(sites, privacy=budget(relation="add-remove")),
        fc.collect(sites, SKETCH(most_per_site=100), budget(unit="site")),
    ):
        assert hidden.table.records is None
        assert hidden.privacy.public == ()
    hidden = [fc.collect(sites, privacy=budget(relation="add-remove")) for _ in range(12)]
    assert len({s.n_records for s in hidden}) > 1  # from noisy totals; ± 25 each
