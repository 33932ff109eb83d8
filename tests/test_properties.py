"""Changes that must not matter: order, names, how records are spread over sites, units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

SEARCH, EXACT = fc.methods.DPFedCP(), fc.methods.EstimatedWeights()
ALPHAS = (0.1, 0.3)
seeds = st.integers(0, 2**32 - 1)
methods = st.sampled_from([SEARCH, EXACT, fc.methods.Pooled()])


def thresholds(sites, method, targets=None):
    found = fc.calibrate(sites, alpha=ALPHAS, method=method, targets=targets)
    return {name: cal.thresholds for name, cal in found.items()}


def site(name, scores, labels, counts=None, n_classes=4):
    return fc.Site(name, scores, labels, n_classes=n_classes, label_counts=counts)


def same(a, b):
    assert a == pytest.approx(b, abs=1e-12)


@given(seeds, methods, st.sampled_from(["continuous", "ties"]))
def test_order_of_records_does_not_matter(federation, seed, method, kind):
    rng = np.random.default_rng(seed)
    sites = federation(rng, kind=kind)
    orders = [rng.permutation(len(s)) for s in sites]
    moved = [site(s.name, s.scores[o], s.labels[o]) for s, o in zip(sites, orders, strict=True)]
    before, after = thresholds(sites, method), thresholds(moved, method)
    for name in before:
        same(before[name], after[name])


@given(seeds, methods, st.permutations(range(4)))
def test_order_of_sites_does_not_matter(federation, seed, method, order):
    sites = federation(np.random.default_rng(seed), n_sites=4, counts=True)
    before, after = thresholds(sites, method), thresholds([sites[i] for i in order], method)
    assert list(after) == [f"s{i}" for i in order]
    for name in before:
        same(before[name], after[name])


@given(seeds, methods)
def test_names_of_sites_do_not_matter(federation, seed, method):
    sites = federation(np.random.default_rng(seed), counts=True)
    renamed = [site(f"Ω {s.name}", s.scores, s.labels, s.label_counts) for s in sites]
    before, after = thresholds(sites, method), thresholds(renamed, method)
    for name in before:
        same(before[name], after[f"Ω {name}"])


@given(seeds, methods, st.integers(2, 1000))
def test_unit_of_label_counts_does_not_matter(federation, seed, method, factor):
    sites = federation(np.random.default_rng(seed), counts=True)
    scaled = [site(s.name, s.scores, s.labels, s.label_counts * factor) for s in sites]
    before, after = thresholds(sites, method), thresholds(scaled, method)
    for name in before:
        same(before[name], after[name])


@given(seeds, methods, st.integers(1, 5))
def test_splitting_a_site_evenly_does_not_matter(federation, seed, method, parts):
    """Copies of one record each: every part has the label mix of the whole."""
    rng = np.random.default_rng(seed)
    sites = federation(rng)
    first = sites[0]
    whole = site("s0", np.tile(first.scores, parts), np.tile(first.labels, parts))
    split = [site(f"s0 part {k}", first.scores, first.labels) for k in range(parts)]
    before = thresholds([whole, *sites[1:]], method)
    after = thresholds([*split, *sites[1:]], method)
    same(before["s1"], after["s1"])
    same(before["s0"], after["s0 part 0"])


@given(seeds, methods)
def test_merging_sites_that_are_not_the_target_does_not_matter(federation, seed, method):
    """By default the label counts are those of the records, so the mixture stays the same."""
    sites = federation(np.random.default_rng(seed), n_sites=4)
    a, b = sites[2:]
    merged = site("m", np.append(a.scores, b.scores), np.append(a.labels, b.labels))
    before = thresholds(sites, method, targets=["s0", "s1"])
    after = thresholds([*sites[:2], merged], method, targets=["s0", "s1"])
    for name in before:
        same(before[name], after[name])


@given(seeds, methods)
def test_a_group_is_its_sites_merged(federation, seed, method):
    sites = federation(np.random.default_rng(seed))
    a, b = sites[:2]
    merged = site("m", np.append(a.scores, b.scores), np.append(a.labels, b.labels))
    before = thresholds(sites, method, targets={"m": ["s0", "s1"]})["m"]
    same(before, thresholds([merged, sites[2]], method, targets="m")["m"])


@given(seeds, methods, st.permutations(range(4)))
def test_numbering_of_classes_does_not_matter(federation, seed, method, order):
    sites = federation(np.random.default_rng(seed), counts=True)
    new = np.argsort(order)  # class order[k] becomes class k
    moved = [site(s.name, s.scores, new[s.labels], s.label_counts[order]) for s in sites]
    before, after = thresholds(sites, method), thresholds(moved, method)
    for name in before:
        same(before[name][:, order], after[name])


@given(seeds, st.permutations(range(5)))
def test_numbering_of_classes_does_not_matter_for_sets(seed, order):
    rng = np.random.default_rng(seed)
    probs, labels = rng.dirichlet(np.ones(5), 60), rng.integers(0, 5, 60)
    u = rng.random(60)
    for score in (fc.scores.APS(u=0.7), fc.scores.SAPS(u=0.2), fc.scores.Margin()):
        masks = []
        for p, y in ((probs, labels), (probs[:, order], np.argsort(order)[labels])):
            one = fc.Site.from_probabilities("a", p, y, score=score)
            masks.append(fc.calibrate([one], alpha=0.2)["a"].predict_set(p, u=u).mask)
        assert np.array_equal(masks[0][:, order], masks[1])


@given(seeds)
def test_a_duplicated_federation_has_the_same_limits_or_tighter(federation, seed):
    """Twice the records move only the query's share of the weight."""
    sites = federation(np.random.default_rng(seed))
    twice = [site(s.name, np.tile(s.scores, 2), np.tile(s.labels, 2)) for s in sites]
    before, after = thresholds(sites, EXACT), thresholds(twice, EXACT)
    for name in before:
        assert (after[name] <= before[name] + 1e-12).all()


@given(seeds, st.floats(0.02, 0.5), st.floats(1.05, 3.0))
def test_a_larger_level_never_gives_larger_thresholds(federation, seed, alpha, factor):
    sites = federation(np.random.default_rng(seed))
    low, high = (
        fc.calibrate(sites, alpha=a, method=SEARCH)["s0"].thresholds
        for a in (alpha, min(0.99, alpha * factor))
    )
    assert (high <= low).all()
