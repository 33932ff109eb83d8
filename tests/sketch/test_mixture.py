"""Thresholds from the table: a bin above the exact weighted quantile, or near it with noise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fedcover.sketch.mixture import mixture
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.sketch import reply

from .building import LEVELS, SKETCH, budget, covered, powers, total_error, zeros

quiet = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def edges_of(rng, sites):
    """Some of the scores moved onto edges of the bins, exactly."""
    out = []
    for s in sites:
        scores = s.scores.copy()
        pick = rng.random(len(s)) < 0.5
        scores[pick] = np.round(scores[pick] * 1024) / 1024
        out.append(fc.Site(s.name, scores, s.labels, n_classes=s.n_classes))
    return out


KINDS = ("continuous", "ties", "ranks", "ends", "edges")


@quiet
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    n_sites=st.integers(1, 4),
    n_classes=st.integers(2, 6),
    least=st.sampled_from([1, 1, 20]),
)
def test_without_noise_thresholds_are_less_than_a_thousandth_above_the_exact_quantile(
    federation, seed, kind, n_sites, n_classes, least
):
    """For every site, label and level; labels may be missing, sites may have one class only."""
    rng = np.random.default_rng(seed)
    options = {"n_sites": n_sites, "n_classes": n_classes, "least": least}
    sites = federation(rng, kind="continuous" if kind == "edges" else kind, **options)
    if kind == "edges":
        sites = edges_of(rng, sites)
    exact = fc.calibrate(sites, LEVELS, fc.methods.EstimatedWeights())
    sketch = fc.collect(sites)
    assert sketch.cost.rounds == 1
    for site in sites:
        gap = sketch.personalise(site.label_counts, LEVELS).thresholds - exact[site.name].thresholds
        assert gap.min() >= 0
        assert gap.max() < 1e-3
    one_step = fc.calibrate(sites, LEVELS, SKETCH())
    for site in sites:
        both = one_step[site.name].thresholds, sketch.personalise(site.label_counts, LEVELS)
        assert np.array_equal(both[0], both[1].thresholds)


@quiet
@pytest.mark.parametrize("score", [0.0, 1.0, 0.5, 3 / 1024, 1e-9, 1 - 1e-9])
def test_a_threshold_is_the_upper_edge_of_the_bin_of_the_exact_one(score):
    """A bin holds its upper edge: a score on an edge is found exactly."""
    sites = [fc.Site("a", np.full(50, score), np.zeros(50, int), n_classes=2)]
    sketch = fc.collect(sites)
    edges = np.array(sketch.table.layout.edges[1:])
    found = sketch.personalise([1, 0], 0.1).thresholds[0, 0]
    assert found == edges[edges >= score].min()


@quiet
def test_targets_from_outside_and_distributions_agree_too(federation):
    sites = federation(np.random.default_rng(5), n_sites=3, least=30)
    wanted = {"x": [5.0, 1.0, 0.0, 4.0], "y": [0.1, 0.2, 0.3, 0.4]}
    exact = fc.calibrate(sites, LEVELS, fc.methods.EstimatedWeights(), targets=wanted)
    sketch = fc.collect(sites)
    for name, shares in wanted.items():
        cal = sketch.personalise(shares, LEVELS)
        assert ((gap := cal.thresholds - exact[name].thresholds) >= 0).all()
        assert gap.max() < 1e-3
        assert cal.ratios == pytest.approx(exact[name].ratios)
        assert cal.effective_size == pytest.approx(exact[name].effective_size)
    with pytest.raises(fc.FedcoverError, match="group of sites"):
        fc.calibrate(sites, method=SKETCH(), targets={"both": ["s0", "s1"]})


def test_labels_without_records_are_in_every_set_and_warned_of():
    sites = [fc.Site(n, np.linspace(0, 0.9, 60), np.arange(60) % 2, n_classes=4) for n in "ab"]
    sketch = fc.collect(sites)
    with pytest.warns(fc.FedcoverWarning, match=r"no calibration record has label 3, 25\.0%"):
        cal = sketch.personalise([3, 3, 0, 2], [0.1, 0.4])
    assert (cal.thresholds[:, 3] == 1).all()
    assert (cal.thresholds[1, :3] < 1).all()
    with pytest.warns(fc.FedcoverWarning, match="every set will be full"):
        assert (sketch.personalise([0, 0, 1, 1], LEVELS).thresholds == 1).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sketch.personalise([0.5, 0.5, 0, 0], 0.1)  # label 3 does not occur there


@quiet
@given(seed=st.integers(0, 10**6), mode=st.sampled_from(["balanced", "guaranteed"]))
def test_sets_are_nested_in_alpha(federation, seed, mode):
    rng = np.random.default_rng(seed)
    sites = federation(rng, n_sites=2, least=5, most=200)
    for privacy in (None, budget(float(rng.choice([0.3, 1, 4])))):
        cal = fc.collect(sites, SKETCH(mode=mode), privacy).personalise(rng.random(4), LEVELS)
        assert (np.diff(cal.thresholds, axis=0) <= 0).all()
        assert ((cal.thresholds >= 0) & (cal.thresholds <= 1)).all()


@quiet
@pytest.mark.parametrize("view", ["server", "secure-sum"])
def test_with_little_noise_thresholds_come_near_the_exact_ones(view):
    sites = powers(np.random.default_rng(0), [3000, 2000], [0.6, 1.0, 1.5])
    exact, loose = fc.collect(sites), fc.collect(sites, privacy=budget(1000.0, view=view))
    for mix in ([1, 1, 1], [8, 1, 1], [1, 1, 8]):
        gap = loose.personalise(mix, LEVELS).thresholds - exact.personalise(mix, LEVELS).thresholds
        assert np.abs(gap).max() < 0.03


@quiet
@pytest.mark.parametrize("records", [10, 25, 400])
def test_a_rare_label_that_noise_does_not_hide_counts_in_full(records):
    """With hardly any noise a target of rare labels is covered as without any, not as the average.

    The rare label has few records beside 5000 others and is half of the target's labels.
    """
    rng = np.random.default_rng(0)
    hard = [1.0] * 9 + [3.0]
    mix = np.append(np.full(9, 5000 / 9), records) / (5000 + records)
    counts = np.rint(mix * (5000 + records)).astype(int)
    labels = np.repeat(np.arange(10), counts)
    pairs = zip(counts, hard, strict=True)
    scores = np.concatenate([((np.arange(n) + 0.5) / n) ** (1 / k) for n, k in pairs])
    order = rng.permutation(len(labels))
    sites = [
        fc.Site(f"s{i}", scores[part], labels[part], n_classes=10)
        for i, part in enumerate(np.array_split(order, 4))
    ]
    target = np.append(np.full(9, 0.5 / 9), 0.5)
    exact = covered(fc.collect(sites).personalise(target, 0.1), target, hard)[0]
    cal = fc.collect(sites, SKETCH(bins=64), budget(1e4)).personalise(target, 0.1)
    assert abs(covered(cal, target, hard)[0] - exact) < 0.02


@quiet
def test_guaranteed_never_asks_for_less_than_balanced(federation, monkeypatch):
    monkeypatch.setattr(reply.noise, "discrete_gaussian", zeros)
    sites = federation(np.random.default_rng(0), least=300, most=400)
    sketch = fc.collect(sites, SKETCH(mode="guaranteed"), budget(1.0))
    mix = [1, 2, 3, 4]
    low, high = (sketch.personalise(mix, LEVELS, mode=m).thresholds for m in ("balanced", None))
    assert (high >= low).all()
    assert np.isin(high, sketch.table.layout.edges).all()
    assert not np.array_equal(low, high)


@quiet
def test_noise_that_hides_the_mix_or_a_label_is_reported():
    rng = np.random.default_rng(0)
    sites = powers(rng, [60, 60], [0.5, 1.0, 2.0, 4.0])
    cal = fc.collect(sites, privacy=budget(0.1)).personalise([1, 0, 0, 9])
    assert any("privacy noise hides" in note for note in cal.notes)
    mixes = [[0.33, 0.33, 0.34, 0.0]] * 2
    bare = fc.collect(powers(rng, [4000, 4000], np.ones(4), mixes), privacy=budget(1.0))
    cal = bare.personalise([1, 1, 1, 3])
    assert any("so few records in the sketch" in note for note in cal.notes)
    assert bare.personalise([0.3, 0.3, 0.4, 0]).notes == ()


@quiet
def test_scores_that_crowd_in_a_bin_are_not_cut_short():
    """All scores in a tenth of a bin: the bin is taken whole, and the note says what to do."""
    scores = 1 - np.random.default_rng(0).random(4000) * 0.004
    labels = np.arange(4000) % 3
    sites = [fc.Site(n, scores, labels, n_classes=3) for n in "ab"]
    crowded = fc.collect(sites, SKETCH(warp="even"), budget(4.0)).personalise([1, 1, 1], 0.1)
    assert (crowded.thresholds == 1).all()
    assert any("warp='upper'" in note for note in crowded.notes)
    spread = fc.collect(sites, SKETCH(warp="upper"), budget(4.0)).personalise([1, 1, 1], 0.1)
    assert np.mean(scores <= spread.thresholds[0, 0]) == pytest.approx(0.9, abs=0.05)


@quiet
def test_the_mixture_is_the_sum_of_its_rows(federation):
    """G(q) = Σ_y P*(y) F_y(q), from the records themselves."""
    sites = federation(np.random.default_rng(2), n_sites=3, least=40)
    table = fc.collect(sites, SKETCH(bins=8)).table
    wanted = np.array([0.4, 0.3, 0.2, 0.1])
    scores, labels = (np.concatenate([getattr(s, k) for s in sites]) for k in ("scores", "labels"))
    values = [
        sum(p * np.mean(scores[labels == y] <= q) for y, p in enumerate(wanted))
        for q in table.layout.edges
    ]
    assert mixture(table, wanted).curve.values == pytest.approx(values, abs=1e-12)


# Score laws that are nearly even when mixed, as those of randomised APS are.
EXPONENTS = np.array([0.5, 0.7, 1.0, 1.4, 2.0])
TARGET = np.array([0.05, 0.1, 0.15, 0.3, 0.4])


def repeated(sizes, privacy, counted, repetitions, method=None):
    """Coverages of fresh federations, and the errors that were stated."""
    coverage, stated = [], []
    for r in range(repetitions):
        rng = np.random.default_rng([7, r])
        sketch = fc.collect(powers(rng, sizes, EXPONENTS), method, privacy)
        mix = TARGET if counted is None else rng.multinomial(counted, TARGET)
        cal = sketch.personalise(mix, 0.1)
        coverage.append(covered(cal, TARGET, EXPONENTS)[0])
        stated.append(total_error(cal))
    return np.array(coverage), float(np.sqrt(np.mean(np.square(stated))))


@quiet
@pytest.mark.parametrize("counted", [None, 40], ids=["shares", "40 labels"])
@pytest.mark.parametrize("epsilon", [None, 4.0, 1.0])
def test_the_stated_error_is_the_real_one(epsilon, counted):
    """Calibration sample, noise and own label mix: 250 repetitions know a deviation to 4.5 %.

    A quarter is 5.5 of those deviations; without noise the ratio is 1.0, so false alarms are
    below 1e-6. With noise the stated error is the larger one (a prior that is looser than the
    scores: by 1.3 at ε = 4), so it is bounded by 1.5, and not at all with much noise.
    """
    privacy = None if epsilon is None else budget(epsilon)
    coverage, stated = repeated([1000, 1000], privacy, counted, 250)
    real = float(np.sqrt(np.mean((coverage - 0.9) ** 2)))
    assert real <= 1.25 * stated
    if epsilon != 1.0:
        assert stated <= 1.5 * real


@quiet
def test_the_stated_error_knows_that_a_rare_label_is_hard():
    """A third of the target is a label with 20 records, far harder than the others.

    Its own coverage at the threshold is about .7, so it spreads more than at .9; 300 repetitions
    know the real deviation to 4 %, and a quarter is five times that.
    """
    hard, coverage, stated = np.array([1.0, 1.0, 1.0, 12.0]), [], []
    target, mix = np.array([0.23, 0.23, 0.24, 0.3]), np.array([0.332, 0.332, 0.332, 0.004])
    for r in range(300):
        sites = powers(np.random.default_rng([8, r]), [2500, 2500], hard, [mix, mix])
        cal = fc.collect(sites, SKETCH(bins=256)).personalise(target, 0.1)
        coverage.append(covered(cal, target, hard)[0])
        stated.append(total_error(cal))
    assert np.std(coverage) <= 1.25 * np.sqrt(np.mean(np.square(stated)))
