"""DP-FedCP by search: the exact weighted quantile, without a raw score leaving a site."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.engines.base import Engine
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message
from fedcover.privacy import epsilon

DPFedCP, Exact = fc.methods.DPFedCP, fc.methods.EstimatedWeights
LEVELS = (0.05, 0.1, 0.25, 0.5)

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def assert_just_above(found, exact, gamma):
    """Never below the exact quantile, at most γ above it."""
    assert found.keys() == exact.keys()
    for name in exact:
        over = found[name].thresholds - exact[name].thresholds
        assert over.min() >= 0
        assert over.max() <= gamma
        assert np.array_equal(found[name].ratios, exact[name].ratios)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_sites=st.integers(1, 6),
    n_classes=st.integers(2, 6),
    kind=st.sampled_from(["continuous", "ties", "ranks", "ends"]),
    counts=st.booleans(),
)
def test_search_finds_the_exact_quantile(federation, seed, n_sites, n_classes, kind, counts):
    rng = np.random.default_rng(seed)
    sites = federation(rng, n_sites=n_sites, n_classes=n_classes, kind=kind, counts=counts, most=60)
    targets = {s.name: [s.name] for s in sites}
    targets["all"] = [s.name for s in sites]
    targets["given"] = rng.dirichlet(np.full(n_classes, 0.5))
    one_label = np.zeros(n_classes)
    one_label[rng.integers(n_classes)] = 3
    targets["one label"] = one_label
    options = {"alpha": LEVELS, "targets": targets}
    exact = fc.calibrate(sites, method=Exact(), **options)
    assert_just_above(fc.calibrate(sites, method=DPFedCP(), **options), exact, 1e-6)


@pytest.mark.parametrize("gamma", [1.0, 0.3, 1e-2, 1e-9, 1e-15, 1e-18, 1e-20, 1e-300])
def test_any_gamma_is_kept(federation, gamma):
    sites = federation(np.random.default_rng(0), most=80)
    exact = fc.calibrate(sites, method=Exact(), alpha=LEVELS)
    found = fc.calibrate(sites, method=DPFedCP(gamma=gamma), alpha=LEVELS)
    assert_just_above(found, exact, max(gamma, 2**-52))


@pytest.mark.parametrize(("rounds", "gamma"), [(3, 1e-6), (3, 1e-9), (200, 1e-12), (7, 1e-6)])
def test_rounds_are_a_limit(federation, rounds, gamma):
    sites = federation(np.random.default_rng(1))
    found = fc.calibrate(sites, method=DPFedCP(rounds=rounds, gamma=gamma))
    assert next(iter(found.values())).cost.rounds <= rounds + 1
    assert_just_above(found, fc.calibrate(sites, method=Exact()), gamma)


def test_too_few_rounds_are_refused_before_any_message(spy, federation):
    with pytest.raises(FedcoverError, match="rounds"):
        fc.calibrate(federation(np.random.default_rng(0)), method=DPFedCP(rounds=1))
    with pytest.raises(FedcoverError, match="rounds"):
        DPFedCP(rounds=1)


def test_mixture_counts_is_equation_10(federation):
    sites = federation(np.random.default_rng(2), counts=True)
    cal = fc.calibrate(sites, method=DPFedCP(mixture="counts"))["s0"]
    table = [s.label_counts for s in sites]
    assert np.array_equal(cal.ratios, fc.labelshift.likelihood_ratio(table, 0))
    other = fc.calibrate(sites, method=DPFedCP())["s0"]
    assert np.array_equal(
        other.ratios, fc.labelshift.likelihood_ratio(table, 0, [len(s) for s in sites])
    )


def test_subsample_uses_half_of_the_records_and_follows_the_seed(federation):
    sites = federation(np.random.default_rng(3), least=50, most=90)
    total = sum(len(s) for s in sites)
    runs = [fc.calibrate(sites, method=DPFedCP(subsample=True), seed=s)["s0"] for s in (0, 0, 1)]
    assert all(total // 2 - 20 <= r.n_records <= total // 2 for r in runs)
    assert np.array_equal(runs[0].thresholds, runs[1].thresholds)
    assert not np.array_equal(runs[0].thresholds, runs[2].thresholds)


def test_only_declared_arrays_travel_and_no_score_does(spy, federation):
    sites = federation(np.random.default_rng(4), least=20)
    method = spy(DPFedCP())
    cals = fc.calibrate(sites, method=method)
    allowed = {"counts": {"label_counts"}, "mass": {"mass"}}
    raw = np.concatenate([s.scores for s in sites])
    for _, _, reply in method.heard:
        assert set(reply.arrays) == allowed[reply.kind]
        assert set(reply.numbers) <= {"size"}
        for array in reply.arrays.values():
            assert not np.isin(array, raw).any()
    assert {r.kind for _, _, r in method.heard} == set(allowed)
    assert "no raw score" in cals["s0"].reveals
    assert not cals["s0"].shares_scores


def test_baselines_that_pool_say_so(spy, federation):
    sites = federation(np.random.default_rng(4))
    for method in (fc.methods.Pooled(), Exact()):
        cal = fc.calibrate(sites, method=method)["s0"]
        assert cal.shares_scores
        assert "raw score" in cal.reveals


def test_count_noise_comes_from_the_operating_system(spy, federation):
    sites = federation(np.random.default_rng(5), least=30)
    sent = []
    for _ in range(2):
        method = spy(DPFedCP(count_noise=20.0))
        fc.calibrate(sites, method=method, seed=0)
        replies = [r.arrays["label_counts"] for _, _, r in method.heard if r.kind == "counts"]
        sent.append(np.concatenate(replies))
    assert not np.array_equal(*sent)  # equal with probability below (1/40)^12
    assert min(s.min() for s in sent) >= 1  # Algorithm 2 cuts off below at 1
    truth = np.concatenate([s.label_counts for s in sites])
    assert not np.array_equal(sent[0], truth)


@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 0},
        {"rounds": 1.5},
        {"rounds": True},
        {"local_steps": 0},
        {"local_steps": 10**400},
        {"step": 0},
        {"step": float("inf")},
        {"step": 10**400},
        {"gamma": 0},
        {"gamma": 2},
        {"gamma": "x"},
        {"participation": 0},
        {"participation": 1.5},
        {"solver": "search", "participation": 0.5},
        {"solver": "newton"},
        {"sites_per_round": 0, "step": 0.1},
        {"solver": "search", "sites_per_round": 2},
        {"sites_per_round": 2, "participation": 0.5, "step": 0.1},
        {"start": -0.1},
        {"average": "median"},
        {"average": np.array(["tail", "all"])},
        {"mixture": None},
        {"gradient_noise": -1, "step": 0.1},
        {"solver": "search", "gradient_noise": 1.0},
        {"count_noise": -1},
        {"count_noise": float("nan")},
        {"subsample": "no"},
        {"subsample": None},
    ],
    ids=lambda o: repr(o)[:60],
)
def test_bad_options_are_refused(options):
    with pytest.raises(FedcoverError):
        DPFedCP(**options)


@pytest.mark.parametrize("noise", [1e20, 1e300])
def test_noise_beyond_any_count_is_refused(federation, noise):
    with pytest.raises(FedcoverError, match="count_noise"):
        fc.calibrate(federation(np.random.default_rng(0)), method=DPFedCP(count_noise=noise))


def test_more_sites_per_round_than_sites(federation):
    method = DPFedCP(step=0.1, sites_per_round=4)
    with pytest.raises(FedcoverError, match="sites_per_round"):
        fc.calibrate(federation(np.random.default_rng(0), n_sites=3), method=method)


def test_options_of_algorithm_1_choose_it_and_its_defaults_do_not():
    assert DPFedCP().solver == "search"
    assert DPFedCP(rounds=200, local_steps=20, step=1e-3, gamma=1e-6).solver == "search"
    assert DPFedCP(solver="averaging").solver == "averaging"
    for option in ({"start": 0.5}, {"step": 0.1}, {"average": "all"}, {"participation": 0.5}):
        assert DPFedCP(**option).solver == "averaging"


def test_algorithm_1_without_a_start_begins_near_the_quantile(federation):
    sites = federation(np.random.default_rng(5), n_sites=3, least=60, most=90)
    exact = fc.calibrate(sites, method=fc.methods.EstimatedWeights())
    near = fc.calibrate(sites, method=DPFedCP(rounds=2, step=1e-6))
    for name in exact:
        gap = near[name].thresholds - exact[name].thresholds
        assert np.abs(gap).max() <= 1 / 16 + 1e-4


def test_published_settings():
    paper = DPFedCP.paper(start=0.25)
    settings = (paper.rounds, paper.local_steps, paper.step, paper.gamma, paper.average)
    assert settings == (200, 20, 1e-3, 1e-6, "all")
    assert (paper.start, paper.subsample, paper.mixture) == (0.25, True, "counts")
    assert DPFedCP.paper(rounds=3).rounds == 3
    assert "converged" in paper.guarantee


def test_an_unknown_query_is_refused(federation):
    site = federation(np.random.default_rng(0))[0]
    with pytest.raises(FedcoverError, match="unknown"):
        DPFedCP().answer(Message("everything"), site)


# ---------------------------------------------------------------- under a budget: the sketch

BUDGET = fc.Privacy(2.0, 1e-5, view="secure-sum")


def budget_sites():
    rng = np.random.default_rng(0)
    return [
        fc.Site(name, rng.random(n), rng.choice(3, size=n, p=p), n_classes=3)
        for name, n, p in (("a", 900, [0.6, 0.3, 0.1]), ("b", 300, [0.1, 0.3, 0.6]))
    ]


@pytest.mark.parametrize("view", ["server", "secure-sum"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_under_a_budget_it_is_the_sketch(view, relation, monkeypatch):
    """The same statement, and the same thresholds where noise is taken out of both."""
    privacy = fc.Privacy(4.0, 1e-6, relation=relation, view=view)
    taken_out = "fedcover.privacy.noise.discrete_gaussian"
    monkeypatch.setattr(taken_out, lambda sigma, shape, source: np.zeros(shape, dtype=np.int64))
    targets = {"b": ["b"], "outside": [5, 3, 2]}
    one, two = (
        fc.calibrate(budget_sites(), LEVELS, m, targets=targets, privacy=privacy)
        for m in (DPFedCP(), fc.methods.Sketch())
    )
    for name in targets:
        assert one[name].privacy == two[name].privacy
        assert one[name].thresholds.tobytes() == two[name].thresholds.tobytes()
        assert one[name].coverage_error.tobytes() == two[name].coverage_error.tobytes()
        assert one[name].method == two[name].method == "Sketch"
        assert one[name].cost == two[name].cost
        assert one[name].cost.rounds == 1
    said = one["b"].privacy
    assert said.epsilon == pytest.approx(4.0, rel=1e-6)
    assert said.epsilon == epsilon(said.events, said.delta)
    assert "Not protected" in one["b"].reveals


def test_the_method_left_out_is_the_same():
    """`calibrate` alone takes DP-FedCP, and under a budget what that stands for."""
    cal = fc.calibrate(budget_sites(), privacy=BUDGET)["b"]
    assert (cal.method, cal.cost.rounds) == ("Sketch", 1)
    assert DPFedCP().with_budget() == fc.methods.Sketch()


def test_thresholds_under_a_budget_have_the_law_of_the_sketch():
    """60 runs of each: means within 6 standard errors of each other, false alarms below 2e-8."""
    sites = budget_sites()
    found = [
        [fc.calibrate(sites, 0.1, m(), targets="b", privacy=BUDGET)["b"].thresholds[0, 0]
         for _ in range(60)]
        for m in (DPFedCP, fc.methods.Sketch)
    ]  # fmt: skip
    one, two = (np.array(f) for f in found)
    assert len(set(one)) > 5  # fresh noise every time; thresholds are middles of bins
    assert abs(one.mean() - two.mean()) < 6 * np.hypot(one.std(), two.std()) / np.sqrt(60)


def test_noise_does_not_follow_the_seed():
    """Two runs often share one threshold, which is the middle of a bin (one pair in 360), but not
    57 of them: of 11,175 pairs none shared more than 11.
    """
    levels = np.arange(1, 20) / 20
    first, second = (
        fc.calibrate(budget_sites(), levels, seed=0, privacy=BUDGET)["b"] for _ in range(2)
    )
    assert not np.array_equal(first.thresholds, second.thresholds)


def test_a_loose_budget_comes_near_the_exact_thresholds():
    exact = fc.calibrate(budget_sites(), [0.1, 0.3], Exact())
    loose = fc.Privacy(1000, 1e-5, view="secure-sum")
    for name, cal in fc.calibrate(budget_sites(), [0.1, 0.3], privacy=loose).items():
        assert np.abs(cal.thresholds - exact[name].thresholds).max() < 0.01


def test_separate_label_counts_keep_the_coverage():
    """The target's mix is that of its label counts; records are what the sites have."""
    rng = np.random.default_rng(0)
    sites = []
    for name, n, p, m in (("a", 3000, [0.9, 0.1], 100), ("b", 1000, [0.1, 0.9], 50_000)):
        y = rng.choice(2, size=n, p=p)
        scores = np.where(y == 0, rng.random(n) ** 4, 1 - rng.random(n) ** 4 * 0.5)
        sites.append(fc.Site(name, scores, y, n_classes=2, label_counts=np.array(p) * m))
    exact = fc.calibrate(sites, method=Exact())
    noisy = fc.calibrate(sites, privacy=fc.Privacy(50, 1e-5))
    for name in exact:
        assert np.abs(noisy[name].thresholds - exact[name].thresholds).max() < 0.05
    hidden = fc.Privacy(50, 1e-5, relation="add-remove")  # label counts are no longer asked for
    for name, cal in fc.calibrate(sites, privacy=hidden).items():
        assert np.abs(cal.thresholds - exact[name].thresholds).max() < 0.05


@pytest.mark.parametrize(
    "options",
    [{"start": 0.5}, {"step": 0.1}, {"local_steps": 5}, {"gradient_noise": 1.0},
     {"average": "all"}, {"participation": 0.5}, {"sites_per_round": 1},
     {"solver": "averaging"}, {"count_noise": 5.0}, {"subsample": True},
     {"gamma": 1e-3}, {"mixture": "counts"}, {"rounds": 50}],
    ids=str,
)  # fmt: skip
def test_options_of_algorithm_1_are_refused_under_a_budget(options):
    class Dead(Engine):
        def run(self, method, task, sites):
            raise AssertionError("a message was sent")

    method = DPFedCP(**options)
    with pytest.raises(FedcoverError, match="privacy together with options of DPFedCP"):
        fc.calibrate(budget_sites(), method=method, privacy=BUDGET, engine=Dead())
    fc.calibrate(budget_sites(), method=method)  # without one they are fine


BAD_BUDGETS = {
    "site level": ({"privacy": fc.Privacy(1, 1e-5, unit="site")}, "most_per_site"),
    "a group": ({"privacy": BUDGET, "targets": {"g": ["a", "b"]}}, "a group of sites"),
    "pooled": ({"privacy": BUDGET, "method": fc.methods.Pooled()}, "privacy with method Global"),
    "published": ({"privacy": BUDGET, "method": DPFedCP.paper()}, "options of DPFedCP"),
    "a number": ({"privacy": 1.0}, r"privacy is 1\.0"),
}


@pytest.mark.parametrize("case", BAD_BUDGETS.values(), ids=BAD_BUDGETS.keys())
def test_what_cannot_be_promised_is_refused_before_anything_is_sent(case):
    options, message = case

    class Dead(Engine):
        def run(self, method, task, sites):
            raise AssertionError("a message was sent")

    with pytest.raises(FedcoverError, match=message):
        fc.calibrate(budget_sites(), engine=Dead(), **options)


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"delta": 0}, {"delta": 1},
     {"unit": "person"}, {"relation": "swap"}, {"view": "nobody"}],
    ids=str,
)  # fmt: skip
def test_bad_budgets_are_refused(options):
    with pytest.raises(FedcoverError):
        fc.Privacy(**{"epsilon": 1.0, "delta": 1e-5, **options})


def test_ledgers_are_charged_what_was_stated_and_stop_the_next_run(tmp_path):
    """The site works its charge out by itself; a retry of the run costs nothing, a new one does."""
    sites, wanted = budget_sites(), fc.privacy.Budget(2.0, 1e-5)
    ledgers = {s.name: fc.privacy.Ledger(tmp_path / f"{s.name}.db", create=wanted) for s in sites}
    engine = fc.engines.InProcess(ledgers=ledgers, run_name="monday")
    first = fc.calibrate(sites, privacy=BUDGET, engine=engine)["b"]
    spent = ledgers["a"].state().spent
    assert spent == pytest.approx(first.privacy.epsilon, abs=1e-6)
    again = fc.calibrate(sites, privacy=BUDGET, engine=engine)["b"]
    assert np.array_equal(again.thresholds, first.thresholds)  # stored replies, no fresh noise
    other = fc.engines.InProcess(ledgers=ledgers, run_name="tuesday")
    with pytest.raises(FedcoverError, match="budget"):
        fc.calibrate(sites, privacy=BUDGET, engine=other)
    with pytest.raises(FedcoverError, match="budget"):
        fc.calibrate(sites, engine=other)  # exact counts cost infinitely much
    with pytest.raises(FedcoverError, match="'A', which is not a site"):
        fc.calibrate(sites, engine=fc.engines.InProcess(ledgers={"A": ledgers["a"]}, run_name="x"))
    with pytest.raises(FedcoverError, match="without run_name"):
        fc.calibrate(sites, engine=fc.engines.InProcess(ledgers={"a": ledgers["a"]}))
    assert ledgers["a"].state().spent == spent


def test_a_retry_cannot_change_what_was_charged(tmp_path):
    ledger = fc.privacy.Ledger(tmp_path / "a.db", create=fc.privacy.Budget(9.0, 1e-5))
    query = Message("sketch")
    cheap, dear = (
        (fc.privacy.GaussianRelease("label totals", sigma, 90.0),) for sigma in (500.0, 100.0)
    )
    ledger.answer("q", query, cheap, lambda: Message("sketch"))
    with pytest.raises(FedcoverError, match="other content"):
        ledger.answer("q", query, dear, lambda: Message("sketch"))


def test_save_and_load_keep_the_statement(tmp_path):
    cal = fc.calibrate(budget_sites(), privacy=BUDGET)["a"]
    cal.save(tmp_path / "a.json")
    assert fc.Calibration.load(tmp_path / "a.json").privacy == cal.privacy


def test_local_sends_nothing_and_says_so():
    cal = fc.calibrate(budget_sites(), method=fc.methods.Local(), privacy=BUDGET)["a"]
    assert (cal.privacy.epsilon, cal.privacy.events) == (0.0, ())


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_equal_rows_and_a_known_seed_do_not_void_the_sensitivity(relation, monkeypatch):
    """A tree with few leaves: the random u of a record must not depend on other records."""
    monkeypatch.setattr(
        "fedcover.privacy.noise.discrete_gaussian",
        lambda sigma, shape, source: np.zeros(shape, dtype=np.int64),
    )
    rng = np.random.default_rng(0)
    leaves = rng.dirichlet(np.ones(3), 4)
    rows, labels = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    method = fc.methods.Sketch(bins=64)
    privacy = fc.Privacy(1.0, 1e-5, relation=relation)
    query = next(method.server(fc.methods.base.Task(("s",), 3, privacy=privacy))).queries["s"]
    charged = {e.what.split()[-1]: e.sensitivity for e in method.charges(query, privacy, 1)}

    def sent(rows, labels):
        site = fc.Site.from_probabilities("s", leaves[rows], labels, seed=0)
        return method.answer(query, site).arrays

    before = sent(rows, labels)
    for k in range(60):
        if relation == "replace":
            other_rows, other_labels = rows.copy(), labels.copy()
            other_rows[k], other_labels[k] = rng.integers(0, 4), rng.integers(0, 3)
        else:
            other_rows, other_labels = np.delete(rows, k), np.delete(labels, k)
        after = sent(other_rows, other_labels)
        for key, what in (("table", "table"), ("labels", "totals")):
            moved = np.linalg.norm((after[key] - before[key]).astype(float))
            assert moved <= charged[what] * (1 + 1e-12)
