"""Private DP-FedCP: what it states, what it sends, and how far a record can move it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedcover as fc
from fedcover.privacy import NoiseShares, epsilon
from fedcover.protocols import private
from fedcover.protocols.base import SecureSum, Target, Task
from fedcover.protocols.message import Message

BUDGET = fc.Privacy(epsilon=1.0, delta=1e-5, view="secure-sum")


@pytest.fixture
def sites():
    rng = np.random.default_rng(0)
    return [
        fc.Site(name, rng.random(n), rng.choice(3, size=n, p=p), n_classes=3)
        for name, n, p in (("a", 900, [0.6, 0.3, 0.1]), ("b", 300, [0.1, 0.3, 0.6]))
    ]


@pytest.mark.parametrize("view", ["server", "secure-sum"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("public_counts", [False, True])
def test_the_statement_spends_the_budget_and_names_everything(sites, view, relation, public_counts):
    asked = fc.Privacy(2.0, 1e-6, relation=relation, view=view)
    method = fc.methods.DPFedCP(public_counts=public_counts)
    cal = fc.calibrate(sites, [0.1, 0.2], method, privacy=asked)["b"]
    said = cal.privacy
    assert said.epsilon == pytest.approx(2.0, abs=1e-6)
    assert said.epsilon <= 2.0 + 1e-9
    assert (said.delta, said.unit, said.relation, said.view) == (1e-6, "record", relation, view)
    assert said.epsilon == epsilon(said.events, said.delta)
    assert len(said.events) == (2 if public_counts else 3)
    assert ("the label counts of each site" in said.public) == public_counts
    assert cal.cost.rounds == 3
    assert "Not protected" in cal.reveals


def test_what_is_sent_are_noisy_integers_and_sums(sites):
    task = Task(("a", "b"), 3, (0.1,), (Target("b", ("b",)),), privacy=BUDGET)
    method = fc.methods.DPFedCP()
    server = method.server(task)
    counts = next(server)
    replies = {s.name: method.answer(counts[s.name], s) for s in sites}
    assert all(set(r.arrays) == {"counts"} for r in replies.values())
    histogram = server.send(replies)
    assert isinstance(histogram, SecureSum)  # the server never sees a single site's bins
    bins = [method.answer(histogram.queries[s.name], s).arrays["bins"] for s in sites]
    assert all(b.dtype == np.int64 for b in bins)
    summed = {"bins": bins[0] + bins[1], "present": np.arange(2)}
    again = server.send({"sum": Message("private-histogram", summed)})
    assert isinstance(again, SecureSum)


def test_noise_does_not_follow_the_seed(sites):
    first, second = (fc.calibrate(sites, seed=0, privacy=BUDGET)["b"] for _ in range(2))
    assert not np.array_equal(first.thresholds, second.thresholds)


def test_a_loose_budget_comes_near_the_exact_thresholds(sites):
    exact = fc.calibrate(sites, [0.1, 0.3], fc.methods.EstimatedWeights())
    loose = fc.calibrate(sites, [0.1, 0.3], privacy=fc.Privacy(1000, 1e-5, view="secure-sum"))
    for name in exact:
        assert np.abs(loose[name].thresholds - exact[name].thresholds).max() < 0.02


def test_guaranteed_never_asks_for_less_than_balanced(sites, monkeypatch):
    monkeypatch.setattr(private.noise, "discrete_gaussian", lambda sigma, shape: _zeros(shape))
    both = [
        fc.calibrate(sites, method=fc.methods.DPFedCP(mode=m), privacy=BUDGET)["b"].thresholds
        for m in ("balanced", "guaranteed")
    ]
    assert (both[1] >= both[0]).all()


def _zeros(shape):
    return np.zeros(shape, dtype=np.int64)


@given(seed=st.integers(0, 10**6), relation=st.sampled_from(["replace", "add-remove"]))
@settings(max_examples=60, deadline=None)
def test_no_record_moves_a_release_further_than_stated(seed, relation):
    """Sensitivity by trial: neighbouring sites, the real site half, the noise taken out."""
    rng = np.random.default_rng(seed)
    n, c, targets = 12, 4, 3
    scores, labels = rng.random(n).round(2), rng.integers(0, c, n)
    if relation == "replace":
        other_scores, other_labels = scores.copy(), labels.copy()
        other_scores[0], other_labels[0] = rng.random(), rng.integers(0, c)
    else:
        other_scores, other_labels = scores[1:], labels[1:]
    pair = [
        fc.Site("s", v, y, n_classes=c) for v, y in ((scores, labels), (other_scores, other_labels))
    ]
    task = Task(("s",), c, (0.1,), tuple(Target(f"t{k}", ("s",)) for k in range(targets)))
    plan = private.plan(task, fc.Privacy(1, 1e-5, relation=relation), public_counts=False)
    weights = rng.integers(0, private.WEIGHT_SCALE + 1, (targets, c))
    cuts = np.sort(rng.random((targets, 5)), axis=1)
    arrays = {"weights": weights, "cuts": cuts.ravel(), "ends": np.arange(targets + 1) * 5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private.noise, "discrete_gaussian", lambda sigma, shape: _zeros(shape))
        bins = [
            private.answer_histogram(
                Message("h", arrays, {"sigma": 1.0, "whole_site": 0}), s
            ).arrays["bins"]
            for s in pair
        ]
        query = Message("c", numbers={"sigma": 1.0, "size": 0})
        counts = [private.answer_counts(query, s).arrays["counts"] for s in pair]
    sensitivity = {e.what.split()[0]: e.sensitivity for e in plan.events}
    assert np.linalg.norm(bins[0] - bins[1]) <= sensitivity["weighted"] + 1e-9
    assert np.linalg.norm(counts[0] - counts[1]) <= sensitivity["label"] + 1e-9


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_equal_rows_and_a_known_seed_do_not_void_the_sensitivity(relation):
    """A tree with few leaves: the random u of a record must not depend on other records."""
    rng = np.random.default_rng(0)
    leaves = rng.dirichlet(np.ones(3), 4)
    rows, labels = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    arrays = {"weights": np.full((1, 3), 1000), "cuts": np.linspace(0, 1, 22)[1:-1],
              "ends": np.array([0, 20])}  # fmt: skip
    query = Message("h", arrays, {"sigma": 1.0, "whole_site": 0})

    def bins(rows, labels):
        site = fc.Site.from_probabilities("s", leaves[rows], labels, seed=0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(private.noise, "discrete_gaussian", lambda sigma, shape: _zeros(shape))
            return private.answer_histogram(query, site).arrays["bins"]

    before = bins(rows, labels)
    for k in range(60):
        if relation == "replace":
            other_rows, other_labels = rows.copy(), labels.copy()
            other_rows[k], other_labels[k] = rng.integers(0, 4), rng.integers(0, 3)
        else:
            other_rows, other_labels = np.delete(rows, k), np.delete(labels, k)
        moved = np.linalg.norm(before - bins(other_rows, other_labels)) / 1000
        assert moved <= (math.sqrt(2) if relation == "replace" else 1.0) + 1e-9


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_no_site_moves_a_histogram_further_than_stated(seed):
    """Site level: any two sites, however large, through the real site half."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, private.SITE_SCALE // 20, (2, 3))
    arrays = {"weights": weights, "cuts": np.sort(rng.random(4)), "ends": np.array([0, 2, 4])}
    query = Message("h", arrays, {"sigma": 1.0, "whole_site": 1})
    pair = [
        fc.Site("s", rng.random(n) ** 3, rng.integers(0, 3, n), n_classes=3)
        for n in rng.integers(1, 200, 2)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private.noise, "discrete_gaussian", lambda sigma, shape: _zeros(shape))
        one, two = (private.answer_histogram(query, s).arrays["bins"] for s in pair)
    task = Task(("s",), 3, (0.1,), (Target("s", ("s",)), Target("t", ("s",))))
    site_level = fc.Privacy(1, 1e-5, unit="site")
    event = private.plan(task, site_level, public_counts=True).events[0]
    assert np.linalg.norm(one - two) <= event.sensitivity + 1e-6
    asked = Message("private-histogram", arrays, {"sigma": event.sigma, "whole_site": 1})
    (charged,) = private.charges(asked, site_level, n_sites=1)
    assert (charged.sigma, charged.sensitivity) == (event.sigma, event.sensitivity)


def test_site_level_privacy_works_with_many_sites():
    rng = np.random.default_rng(0)
    sites = [
        fc.Site(f"s{k}", rng.random(60) ** 2, rng.integers(0, 3, 60), n_classes=3)
        for k in range(300)
    ]
    budget = fc.Privacy(4, 1e-5, unit="site", view="secure-sum")
    method = fc.methods.DPFedCP(public_counts=True)
    cal = fc.calibrate(sites, 0.1, method, targets="s0", privacy=budget)["s0"]
    exact = fc.calibrate(sites, 0.1, targets="s0")["s0"]
    assert cal.privacy.unit == "site"
    assert "all data of one site" in cal.reveals
    assert np.abs(cal.thresholds - exact.thresholds).max() < 0.1


def test_separate_label_counts_keep_the_coverage():
    """The mixture of the records counts each site by its records, not by its label counts."""
    rng = np.random.default_rng(0)
    sites = []
    for name, n, p, m in (("a", 3000, [0.9, 0.1], 100), ("b", 1000, [0.1, 0.9], 50_000)):
        y = rng.choice(2, size=n, p=p)
        scores = np.where(y == 0, rng.random(n) ** 4, 1 - rng.random(n) ** 4 * 0.5)
        sites.append(fc.Site(name, scores, y, n_classes=2, label_counts=np.array(p) * m))
    exact = fc.calibrate(sites, method=fc.methods.EstimatedWeights())
    noisy = fc.calibrate(sites, privacy=fc.Privacy(50, 1e-5))
    for name in exact:
        assert np.abs(noisy[name].thresholds - exact[name].thresholds).max() < 0.05
    with pytest.raises(fc.FedcoverError, match="label counts of other data"):
        fc.calibrate(sites, privacy=fc.Privacy(1, 1e-5, relation="add-remove"))


def test_a_site_that_takes_off_its_own_share_still_faces_the_stated_noise(sites):
    """Two sites: each must add all of it, because the other knows its own share."""
    task = Task(("a", "b"), 3, (0.1,), (Target("b", ("b",)),), privacy=BUDGET)
    method = fc.methods.DPFedCP()
    server = method.server(task)
    counts = next(server)
    asked = server.send({s.name: method.answer(counts[s.name], s) for s in sites})
    event = private.plan(task, BUDGET, False).events[1]
    query = asked.queries["a"]
    assert query.numbers["sigma"] >= event.sigma
    (charged,) = private.charges(query, BUDGET, n_sites=2)
    assert charged.sigma == pytest.approx(event.sigma)


def test_exact_sizes_and_given_distributions_are_not_passed_over(sites):
    asked = Message("private-counts", numbers={"sigma": 1e4, "size": 1})
    hidden = private.charges(asked, fc.Privacy(1, 1e-5, relation="add-remove"), 2)
    assert epsilon(hidden, 1e-5) == math.inf
    assert epsilon(private.charges(asked, fc.Privacy(1, 1e-5), 2), 1e-5) < math.inf
    cal = fc.calibrate(sites, targets={"x": [5, 3, 2]}, privacy=BUDGET)["x"]
    assert any("label distribution given for x" in fact for fact in cal.privacy.public)


def test_a_retry_cannot_change_what_was_charged(sites, tmp_path):
    ledger = fc.privacy.Ledger(tmp_path / "a.db", create=fc.privacy.Budget(9.0, 1e-5))
    query = Message("private-counts", numbers={"sigma": 500.0, "size": 1})
    cheap = private.charges(query, fc.Privacy(9, 1e-5), 2)
    dear = (fc.privacy.GaussianRelease("label counts", 100.0, 90.0),)
    ledger.answer("q", query, cheap, lambda: private.answer_counts(query, sites[0]))
    with pytest.raises(fc.FedcoverError, match="other content"):
        ledger.answer("q", query, dear, lambda: private.answer_counts(query, sites[0]))


def test_a_site_level_ledger_does_not_take_record_noise_for_its_own(sites, tmp_path):
    budget = fc.privacy.Budget(5.0, 1e-5, unit="site")
    ledger = fc.privacy.Ledger(tmp_path / "a.db", create=budget)
    engine = fc.engines.InProcess(ledgers={"a": ledger}, run_name="x")
    with pytest.raises(fc.FedcoverError, match="budget"):
        fc.calibrate(sites, privacy=BUDGET, engine=engine)
    with pytest.raises(fc.FedcoverError, match="'A', which is not a site"):
        fc.calibrate(sites, engine=fc.engines.InProcess(ledgers={"A": ledger}, run_name="x"))
    with pytest.raises(fc.FedcoverError, match="without run_name"):
        fc.calibrate(sites, engine=fc.engines.InProcess(ledgers={"a": ledger}))


def test_queries_are_checked_without_looking_at_the_data(sites):
    narrow = {"weights": np.ones((1, 2), dtype=np.int64), "cuts": np.array([0.5]),
              "ends": np.array([0, 1])}  # fmt: skip
    only_first = fc.Site("z", [0.5], [0], n_classes=3)  # no record has the label left out
    for site in (*sites, only_first):
        with pytest.raises(fc.FedcoverError, match="outside what was agreed"):
            private.answer_histogram(Message("h", narrow, {"sigma": 1.0, "whole_site": 0}), site)


def test_the_shares_of_a_secure_sum_add_up_to_the_stated_noise(sites):
    """Two sites draw σ each; a site that takes off its own share is left with the stated noise."""
    task = Task(("a", "b"), 3, (0.1,), (Target("b", ("b",)),), privacy=BUDGET)
    for event in private.plan(task, BUDGET, False).events:
        moves = round(event.sensitivity / math.sqrt(2))  # two cells, each by this much
        true = NoiseShares(event.sigma, 1, scale=1).true_epsilon((moves, -moves), 1e-5)
        assert true <= epsilon([event], 1e-5) + 2e-3


def test_a_site_refuses_weights_that_would_void_the_account(sites):
    weights = np.full((1, 3), private.WEIGHT_SCALE + 1)
    arrays = {"weights": weights, "cuts": np.array([0.5]), "ends": np.array([0, 1])}
    query = Message("private-histogram", arrays, {"sigma": 1e5, "whole_site": 0})
    with pytest.raises(fc.FedcoverError, match="what was agreed"):
        fc.methods.DPFedCP().answer(query, sites[0])


def test_save_and_load_keep_the_statement(sites, tmp_path):
    cal = fc.calibrate(sites, privacy=BUDGET)["a"]
    cal.save(tmp_path / "a.json")
    assert fc.Calibration.load(tmp_path / "a.json").privacy == cal.privacy


def test_local_sends_nothing_and_says_so(sites):
    cal = fc.calibrate(sites, method=fc.methods.Local(), privacy=BUDGET)["a"]
    assert (cal.privacy.epsilon, cal.privacy.events) == (0.0, ())


def test_noise_that_hides_the_label_mix_is_reported(sites, monkeypatch):
    monkeypatch.setattr(private.noise, "discrete_gaussian", lambda sigma, shape: _zeros(shape))
    tiny = fc.Site("tiny", [0.1, 0.5, 0.9], [0, 1, 2], n_classes=3)
    with pytest.warns(fc.FedcoverWarning, match="privacy noise hides"):
        fc.calibrate([*sites, tiny], targets="tiny", privacy=BUDGET)


BAD = {
    "site level": ({"privacy": fc.Privacy(1, 1e-5, unit="site")}, "public_counts=True"),
    "pooled": ({"privacy": BUDGET, "method": fc.methods.Pooled()}, "method Global"),
    "algorithm 1": ({"privacy": BUDGET, "method": fc.methods.DPFedCP.paper()}, "Algorithm 1"),
    "a number": ({"privacy": 1.0}, "privacy is 1.0"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_promised_is_refused_before_anything_is_sent(sites, case):
    options, message = case

    class Dead:
        def run(self, method, task, sites):
            raise AssertionError("a message was sent")

    with pytest.raises(fc.FedcoverError, match=message):
        fc.calibrate(sites, engine=Dead(), **options)


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"delta": 0}, {"delta": 1},
     {"unit": "person"}, {"relation": "swap"}, {"view": "nobody"}],
    ids=str,
)  # fmt: skip
def test_bad_budgets_are_refused(options):
    with pytest.raises(fc.FedcoverError):
        fc.Privacy(**{"epsilon": 1.0, "delta": 1e-5, **options})


def test_ledgers_are_charged_what_was_stated_and_stop_the_next_run(sites, tmp_path):
    """The site works its charge out by itself; a retry of the run costs nothing, a new one does."""
    ledgers = {
        s.name: fc.privacy.Ledger(tmp_path / f"{s.name}.db", create=fc.privacy.Budget(1.0, 1e-5))
        for s in sites
    }
    engine = fc.engines.InProcess(ledgers=ledgers, run_name="monday")
    first = fc.calibrate(sites, privacy=BUDGET, engine=engine)["b"]
    spent = ledgers["a"].state().spent
    assert spent == pytest.approx(first.privacy.epsilon, abs=1e-6)
    again = fc.calibrate(sites, privacy=BUDGET, engine=engine)["b"]
    assert np.array_equal(again.thresholds, first.thresholds)  # stored replies, no fresh noise
    assert ledgers["a"].state().spent == spent
    other = fc.engines.InProcess(ledgers=ledgers, run_name="tuesday")
    with pytest.raises(fc.FedcoverError, match="budget"):
        fc.calibrate(sites, privacy=BUDGET, engine=other)
    with pytest.raises(fc.FedcoverError, match="budget"):
        fc.calibrate(sites, engine=other)  # exact counts cost infinitely much
    assert ledgers["a"].state().spent == spent
