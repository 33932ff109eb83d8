"""DP-FedCP by search: the exact weighted quantile, without a raw score leaving a site."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.errors import FedcoverError

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
    from fedcover.protocols.base import Message

    site = federation(np.random.default_rng(0))[0]
    with pytest.raises(FedcoverError, match="unknown"):
        DPFedCP().answer(Message("everything"), site)
