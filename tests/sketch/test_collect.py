"""`collect`: one message per site, nothing but integers in it, its cost written down."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover import wire
from fedcover.methods.sketch import client
from fedcover.privacy import Budget, Ledger, epsilon
from fedcover.privacy.randomness import SYSTEM

from .building import FOUR, LEVELS, SKETCH, VIEWS, a_query, budget, even, powers, zeros

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


class Recorder(SKETCH):
    """The sketch, which keeps every message a site saw or sent."""

    def __init__(self, **options):
        super().__init__(**options)
        object.__setattr__(self, "heard", [])

    def answer(self, query, site, source=SYSTEM):
        sent = super().answer(query, site, source)
        self.heard.append((site.name, query, sent))
        return sent


@pytest.fixture
def sites():
    return powers(np.random.default_rng(0), [900, 600, 300], [0.7, 1.0, 1.3, 1.6])


METHODS = {
    "exact": ({}, None),
    "few bins": ({"bins": FOUR}, None),
    "server": ({}, budget(4.0, view="server")),
    "secure-sum": ({}, budget()),
    "add-remove": ({}, budget(relation="add-remove")),
    "groups": ({"groups": list("abab")}, budget()),
    "site": ({"most_per_site": 50}, budget(unit="site")),
    "bins": ({"bins": 64}, budget()),
}


@pytest.mark.parametrize("case", METHODS.values(), ids=METHODS.keys())
def test_nothing_but_integers_leaves_a_site(sites, case):
    options, privacy = case
    method = Recorder(**options)
    sketch = fc.collect(sites, method, privacy)
    assert sketch.cost.rounds == 1
    assert len(method.heard) == len(sites)
    for _, asked, sent in method.heard:
        assert sent.numbers == {}
        assert set(sent.arrays) <= {"table", "labels", "cells"}
        assert all(a.dtype.kind in "iu" for a in sent.arrays.values())
        size = sum(a.size for a in sent.arrays.values())
        if privacy is not None:  # as many numbers whatever the records are
            rows, cuts = asked.arrays["rows"], asked.arrays["cuts"]
            assert size == (rows.max() + 1) * (len(cuts) + 1) + len(rows)
    up = sum(sent.nbytes for _, _, sent in method.heard)
    down = sum(asked.nbytes for _, asked, _ in method.heard)
    assert sketch.cost.bytes_up == round(up / len(sites))
    assert sketch.cost.bytes_down == round(down / len(sites))


@pytest.mark.parametrize("case", METHODS.values(), ids=METHODS.keys())
def test_equal_tables_are_equal_replies(monkeypatch, case):
    """Other scores in the same bins and other label counts: not a byte differs before noise."""
    options, privacy = case
    if "most_per_site" in options:
        options = {"most_per_site": 10_000}
    monkeypatch.setattr(client.noise, "discrete_gaussian", zeros)
    rng = np.random.default_rng(0)
    labels, bins = rng.integers(0, 4, 3000), rng.integers(0, 64, 3000)

    def twin(seed, **more):
        jitter = np.random.default_rng(seed)
        order = jitter.permutation(3000)
        scores = (bins + jitter.uniform(0.01, 0.99, 3000)) / 64
        return fc.Site("s", scores[order], labels[order], n_classes=4, **more)

    pair = twin(1), twin(2, label_counts=[1, 2, 3, 4])
    assert not np.array_equal(np.sort(pair[0].scores), np.sort(pair[1].scores))
    sent = []
    for site in pair:
        method = Recorder(**{**options, "bins": FOUR if options.get("bins") == FOUR else even(64)})
        fc.collect([site], method, privacy)
        sent.append([wire.encode(r) for _, _, r in method.heard])
    assert sent[0] == sent[1]


def test_records_in_other_bins_are_other_replies(monkeypatch):
    """Or the test above would prove nothing."""
    monkeypatch.setattr(client.noise, "discrete_gaussian", zeros)
    one, two = (
        client.answer(a_query(), fc.Site("s", [v, 0.1], [0, 1], n_classes=4)) for v in (0.2, 0.3)
    )
    assert wire.encode(one) != wire.encode(two)


def test_personalising_asks_nobody(sites, monkeypatch):
    sketch = fc.collect(sites, None, budget())
    monkeypatch.setattr(SKETCH, "answer", lambda *a: pytest.fail("a site was asked"))
    monkeypatch.setattr(fc.engines.InProcess, "run", lambda *a: pytest.fail("a run was started"))
    cals = [sketch.personalise(s.label_counts, LEVELS) for s in sites]
    assert len({c.cost for c in cals}) == 1


def test_collect_and_calibrate_agree_where_both_are_possible(sites):
    """The same method in one go; with noise the law is the same, the noise is not."""
    both = fc.calibrate(sites, LEVELS, SKETCH()), fc.collect(sites)
    for site in sites:
        one, two = both[0][site.name], both[1].personalise(site.label_counts, LEVELS)
        assert np.array_equal(one.thresholds, two.thresholds)
        assert one.cost.rounds == two.cost.rounds == 1
    private = fc.calibrate(sites, 0.1, SKETCH(), privacy=budget())["s0"]
    assert private.privacy.epsilon == pytest.approx(2)
    assert private.privacy == fc.collect(sites, None, budget()).privacy


@pytest.mark.parametrize("view", VIEWS)
def test_renewing_a_sketch_adds_up_what_it_costs(sites, view):
    """Both are known, so both are spent: ε of all events together."""
    first = fc.collect(sites, None, budget(1.5, view=view))
    second = fc.collect(sites, None, budget(2.0, view=view, delta=1e-6), previous=first)
    third = fc.collect(sites, None, budget(1.6, view=view), previous=second)
    alone = fc.collect(sites, None, budget(2.0, view=view, delta=1e-6))
    events = (*first.privacy.events, *alone.privacy.events)
    assert second.privacy.events == events
    assert second.privacy.delta == 1e-5
    assert second.privacy.epsilon == epsilon(events, 1e-5)
    assert second.privacy.epsilon > epsilon(alone.privacy.events, 1e-5)
    assert third.privacy.epsilon == epsilon(third.privacy.events, 1e-5) > second.privacy.epsilon
    assert len(third.privacy.events) == 6
    cal = third.personalise([1, 1, 1, 1])
    assert cal.privacy.epsilon == third.privacy.epsilon
    assert f"ε = {third.privacy.epsilon:.3g}"[:7] in cal.reveals


def test_renewing_something_else_is_refused(sites):
    first = fc.collect(sites, None, budget())
    other = powers(np.random.default_rng(1), [5000], np.ones(4), name="x")
    with pytest.raises(fc.FedcoverError, match="none of these sites"):
        fc.collect(other, None, budget(), previous=first)
    with pytest.raises(fc.FedcoverError, match="without privacy"):
        fc.collect(sites, None, None, previous=first)
    with pytest.raises(fc.FedcoverError, match="without privacy"):
        fc.collect(sites, None, budget(), previous=fc.collect(sites))
    for change in ({"relation": "add-remove"}, {"view": "server"}):
        with pytest.raises(fc.FedcoverError, match=next(iter(change))):
            fc.collect(sites, None, budget(**change), previous=first)
    with pytest.raises(fc.FedcoverError, match="SketchResult"):
        fc.collect(sites, None, budget(), previous=first.table)


def test_one_site_of_the_old_sketch_is_enough_to_spend_more(sites):
    first = fc.collect(sites[:1], None, budget(2.0))
    second = fc.collect(sites, None, budget(2.0), previous=first)
    assert second.privacy.epsilon > 2.4


BAD = {
    "another method": {"method": fc.methods.DPFedCP()},
    "a class": {"method": SKETCH},
    "a word": {"method": "auto"},
    "privacy of numbers": {"privacy": 1.0},
    "an engine class": {"engine": fc.engines.InProcess},
    "a bad seed": {"seed": -1},
    "site unit without limit": {"privacy": budget(unit="site")},
    "groups that do not fit": {"method": SKETCH(groups=[0, 1])},
}


@pytest.mark.parametrize("options", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_collected_is_refused_before_anything_is_sent(sites, options):
    class Dead:
        def run(self, *a):
            raise AssertionError("a message was sent")

    with pytest.raises(fc.FedcoverError):
        fc.collect(sites, **{"engine": Dead(), **options})


@pytest.mark.parametrize("given", [None, [], "sites", [1], 5])
def test_sites_that_are_none_are_refused(given):
    with pytest.raises(fc.FedcoverError, match="sites"):
        fc.collect(given)


# ---------------------------------------------------------------- budgets kept at the sites


def ledgers(folder, sites, **budget_of):
    facts = {"epsilon": 2.0, "delta": 1e-5, **budget_of}
    return {s.name: Ledger(folder / f"{s.name}.db", create=Budget(**facts)) for s in sites}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("groups", [None, [0, 0, 1, 1]])
def test_sites_are_charged_what_is_stated_and_a_retry_costs_nothing(sites, tmp_path, view, groups):
    books = ledgers(tmp_path, sites)
    engine = fc.engines.InProcess(ledgers=books, run_name="monday")
    method = SKETCH(groups=groups)
    first = fc.collect(sites, method, budget(view=view), engine)
    spent = {n: b.state().spent for n, b in books.items()}
    assert all(e == pytest.approx(first.privacy.epsilon, abs=1e-6) for e in spent.values())
    again = fc.collect(sites, method, budget(view=view), engine)
    for key in ("table", "labels"):  # stored replies, no fresh noise
        assert getattr(again.table, key).tobytes() == getattr(first.table, key).tobytes()
    assert {n: b.state().spent for n, b in books.items()} == spent
    other = fc.engines.InProcess(ledgers=books, run_name="tuesday")
    with pytest.raises(fc.FedcoverError, match="budget"):
        fc.collect(sites, method, budget(view=view), other)
    with pytest.raises(fc.FedcoverError, match="budget"):
        fc.collect(sites, engine=other)  # without noise it costs infinitely much
    assert {n: b.state().spent for n, b in books.items()} == spent


def test_a_query_beyond_the_budget_is_not_answered_at_all(sites, tmp_path):
    """Charged before the reply: the site half is never called, and no trace is left."""
    books = ledgers(tmp_path, sites[:1], epsilon=1.9)
    method = Recorder()
    engine = fc.engines.InProcess(ledgers=books, run_name="x")
    with pytest.raises(fc.FedcoverError, match="budget"):
        fc.collect(sites, method, budget(), engine)
    assert [name for name, _, _ in method.heard] == []
    assert books["s0"].state().spent == 0


def test_a_charge_stands_even_if_the_reply_is_lost(sites, tmp_path):
    """A server that dies after the reply, and asks again, gets the same reply."""

    class Dies(fc.privacy.Ledger):
        def answer(self, *given):
            super().answer(*given)
            raise RuntimeError("the server died")

    books = ledgers(tmp_path, sites)
    dying = {**books, "s0": Dies(books["s0"].path)}
    with pytest.raises(RuntimeError):
        fc.collect(sites, None, budget(), fc.engines.InProcess(ledgers=dying, run_name="x"))
    (_, entry) = books["s0"].state().entries
    fc.collect(sites, None, budget(), fc.engines.InProcess(ledgers=books, run_name="x"))
    (_, again) = books["s0"].state().entries
    assert again == entry


def test_a_site_level_ledger_does_not_take_record_noise_for_its_own(sites, tmp_path):
    books = ledgers(tmp_path, sites, unit="site", epsilon=5.0)
    engine = fc.engines.InProcess(ledgers=books, run_name="x")
    with pytest.raises(fc.FedcoverError, match="budget"):
        fc.collect(sites, None, budget(), engine)
    limited = SKETCH(most_per_site=50)
    sketch = fc.collect(sites, limited, budget(4.0, unit="site"), engine)
    assert books["s0"].state().spent == pytest.approx(sketch.privacy.epsilon, abs=1e-6)


def test_a_record_ledger_charges_a_site_level_run_less(sites, tmp_path):
    books = ledgers(tmp_path, sites)
    engine = fc.engines.InProcess(ledgers=books, run_name="x")
    fc.collect(sites, SKETCH(most_per_site=50), budget(2.0, unit="site"), engine)
    assert 0 < books["s0"].state().spent < 0.2


def test_many_small_sites_can_protect_a_whole_site_each():
    sites = powers(np.random.default_rng(0), [40] * 400, [0.7, 1.0, 1.3])
    private = fc.collect(sites, SKETCH(bins=even(200), most_per_site=40), budget(8.0, unit="site"))
    assert private.privacy.unit == "site"
    cal = private.personalise([0.2, 0.3, 0.5])
    assert "all data of one site" in cal.reveals
    exact = fc.collect(sites).personalise([0.2, 0.3, 0.5])
    assert np.abs(cal.thresholds - exact.thresholds).max() < 0.1


def test_a_limit_also_holds_without_privacy_and_is_public_where_sizes_are():
    sites = powers(np.random.default_rng(0), [300, 20], np.ones(3))
    for privacy in (None, budget(100.0)):
        sketch = fc.collect(sites, SKETCH(most_per_site=100), privacy)
        assert sketch.n_records == sketch.table.records == 120
        assert sketch.table.labels.sum() / sketch.table.scale == pytest.approx(120, abs=60)
