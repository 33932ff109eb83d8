"""Thresholds from the table: the bin of the exact weighted quantile, or near it with noise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import fedcover as fc
from fedcover.methods.sketch import factor
from fedcover.methods.sketch.curve import WHOLE_BIN, Mixture
from fedcover.methods.sketch.personalise import LabelMix, Personal
from fedcover.methods.sketch.table import (
    Layout,
    SketchTable,
    bins_of,
    middles,
    standard_cuts,
    upper_edges,
)
from fedcover.position import TOP, positions

from .building import LEVELS, SKETCH, budget, covered, even, powers, table_of

quiet = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def at_of(cal):
    """The thresholds of a calibration as positions."""
    return positions(cal.thresholds, cal.distances)


def edges_of(rng, sites):
    """Some of the scores moved onto edges of the bins, exactly."""
    edges = np.array(fc.collect(sites).table.layout.cuts)
    out = []
    for s in sites:
        at = s.positions.copy()
        pick = rng.random(len(s)) < 0.5
        at[pick] = rng.choice(edges, pick.sum())
        one = {"scores": fc.position.scores_at(at), "distances": fc.position.distances_at(at)}
        out.append(fc.Site(s.name, one["scores"], s.labels, n_classes=s.n_classes,
                           distances=one["distances"]))  # fmt: skip
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
def test_without_noise_thresholds_are_the_upper_edges_of_the_exact_ones(
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
    cuts = sketch.table.layout.cut_array
    for site in sites:
        found = at_of(sketch.personalise(site.label_counts, LEVELS))
        assert np.array_equal(found, upper_edges(cuts)[bins_of(at_of(exact[site.name]), cuts)])
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
    edges = upper_edges(sketch.table.layout.cut_array)
    found = at_of(sketch.personalise([1, 0], 0.1))[0, 0]
    at = positions([score])[0]
    assert found == edges[edges >= at].min()
    custom = fc.collect(sites, SKETCH(bins=(0, 0.25, 3 / 1024 + 0.5, 1)))
    assert custom.personalise([1, 0], 0.1).thresholds[0, 0] == (0.25 if score <= 0.25 else
                                                               0.5 + 3 / 1024 if score <= 0.5 else
                                                               1.0)  # fmt: skip


@quiet
def test_scores_that_crowd_at_1_are_told_apart():
    """A tenth of all within 10⁻⁶ of 1, and 10⁻¹² to 10⁻³⁰ where floats say 1."""
    rng = np.random.default_rng(0)
    d = np.where(rng.random(4000) < 0.3, 10 ** rng.uniform(-30, -6, 4000), rng.random(4000))
    site = fc.Site("a", 1 - d, np.arange(4000) % 2, n_classes=2, distances=d)
    exact = fc.calibrate([site], [0.02, 0.1, 0.25], fc.methods.EstimatedWeights())["a"]
    sketch = fc.collect([site]).personalise([1, 1], [0.02, 0.1, 0.25])
    assert exact.distances.max() < 1e-6
    assert (sketch.distances <= exact.distances).all()
    assert (sketch.distances >= exact.distances * 0.63).all()  # a bin there is e^0.45 wide
    noisy = fc.collect([site], None, budget(1000.0)).personalise([1, 1], [0.02, 0.1, 0.25])
    above = [(d < q).mean() for q in noisy.distances[:, 0]]
    assert above == pytest.approx([0.02, 0.1, 0.25], abs=0.005)


@quiet
def test_targets_from_outside_and_distributions_agree_too(federation):
    sites = federation(np.random.default_rng(5), n_sites=3, least=30)
    wanted = {"x": [5.0, 1.0, 0.0, 4.0], "y": [0.1, 0.2, 0.3, 0.4]}
    exact = fc.calibrate(sites, LEVELS, fc.methods.EstimatedWeights(), targets=wanted)
    sketch = fc.collect(sites)
    cuts = sketch.table.layout.cut_array
    for name, shares in wanted.items():
        cal = sketch.personalise(shares, LEVELS)
        assert np.array_equal(at_of(cal), upper_edges(cuts)[bins_of(at_of(exact[name]), cuts)])
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
@given(seed=st.integers(0, 10**6))
def test_sets_are_nested_in_alpha(federation, seed):
    rng = np.random.default_rng(seed)
    sites = federation(rng, n_sites=2, least=5, most=200)
    noise = budget(float(rng.choice([0.3, 1, 4])), relation="add-remove")  # never refused
    for method, privacy in ((SKETCH(), None), (SKETCH(bins=64), noise)):
        cal = fc.collect(sites, method, privacy).personalise(rng.random(4), LEVELS)
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
    cal = fc.collect(sites, None, budget(1e4)).personalise(target, 0.1)
    assert (
        abs(covered(cal, target, hard)[0] - exact) < 0.01 + 0.5 / records
    )  # and a record's weight


@quiet
def test_noise_that_hides_the_mix_or_a_label_is_reported():
    rng = np.random.default_rng(0)
    sites = powers(rng, [60, 60], [0.5, 1.0, 2.0, 4.0])
    hidden = fc.collect(sites, privacy=budget(0.1, relation="add-remove"))
    cal = hidden.personalise([1, 0, 0, 9])
    assert any("privacy noise hides" in note for note in cal.notes)
    mixes = [[0.33, 0.33, 0.34, 0.0]] * 2
    bare = fc.collect(powers(rng, [4000, 4000], np.ones(4), mixes), privacy=budget(1.0))
    cal = bare.personalise([1, 1, 1, 3])
    assert any("so few records in the sketch" in note for note in cal.notes)
    assert bare.personalise([0.3, 0.3, 0.4, 0]).notes == ()


@quiet
def test_the_mixture_is_the_sum_of_its_rows(federation):
    """G(q) = Σ_y P*(y) (1 - F_y(q)), from the records themselves."""
    sites = federation(np.random.default_rng(2), n_sites=3, least=40)
    table = fc.collect(sites, SKETCH(bins=even(8))).table
    wanted = np.array([0.4, 0.3, 0.2, 0.1])
    scores, labels = (np.concatenate([getattr(s, k) for s in sites]) for k in ("scores", "labels"))
    values = [
        sum(p * np.mean(scores[labels == y] > q) for y, p in enumerate(wanted))
        for q in even(8)[-2::-1]
    ]
    assert Mixture(table, wanted).quantile(0.1).misses == pytest.approx(values, abs=1e-12)


# ---------------------------------------------------------------- with noise, by hand

SILENT = (1e-6, 1e-6)
"""Deviations of a factorised table with next to no noise."""


def spread_out(n, bins=1024):
    """One row: so many records in bins of their own, evenly, and an empty one."""
    row = np.zeros(bins, dtype=int)
    row[((np.arange(n) + 0.5) * bins / n).astype(int)] = 1
    return np.stack([row, np.zeros(bins, dtype=int)])


@pytest.mark.parametrize(("n", "alpha", "rank"), [(20, 0.1, 2), (9, 0.1, 1), (40, 0.05, 2),
                                                  (50, 0.2, 10), (31, 0.5, 16)])  # fmt: skip
def test_the_level_counts_the_record_to_come(n, alpha, rank):
    """Between two of n records the miss rate is known to a record's weight c = 1/n.

    The threshold is that record from the top whose expected miss rate rank/(n+1) is nearest to α;
    a level of α itself would take the next one.
    """
    table = table_of(spread_out(n), SILENT)
    quantile = Mixture(table, np.array([1.0, 0.0])).quantile(alpha)
    bins = np.flatnonzero(table.cells[0] > 0.5)
    found = bins_of(quantile.positions[:1], table.layout.cut_array)[0]
    assert found == bins[rank - 1]
    assert abs(rank / (n + 1) - alpha) <= 0.5 / (n + 1)


def test_without_crowds_the_threshold_is_the_middle_of_the_crossing_bin():
    row = np.full(400, 5)
    table = table_of(np.stack([row, row]), SILENT)
    quantile = Mixture(table, np.array([0.5, 0.5])).quantile(0.1001)
    cuts = table.layout.cut_array
    at = bins_of(quantile.positions, cuts)
    assert (quantile.positions == middles(cuts)[at]).all()
    assert np.abs(at - 40).max() <= 1
    assert quantile.cells[quantile.bin] == pytest.approx(1 / 400, abs=1e-6)


@pytest.mark.parametrize("mass", [0.012, 0.1, 0.7])
def test_a_bin_that_may_be_one_value_is_taken_whole(mass):
    """Its middle would miss all of that value; α is crossed within it."""
    n, bins = 100_000, 400
    crowd = int(mass * n)
    row = np.full(bins, (n - crowd) // (bins - 1))
    k = int(bins * 0.06) if mass < 0.5 else 10
    row[k] = crowd
    table = table_of(np.stack([row, row]), (factor.UNIT * 5.0, 1.0))
    above = row[:k].sum() / row.sum()
    alpha = above + mass / 2
    quantile = Mixture(table, np.array([0.5, 0.5])).quantile(alpha)
    edges = upper_edges(table.layout.cut_array)
    assert (quantile.positions == edges[k]).all()
    assert mass > WHOLE_BIN
    assert quantile.cells[quantile.bin] == pytest.approx(mass, rel=0.05)


def test_scores_that_crowd_in_one_place_are_covered():
    """Atoms at 0, 1 and in between, and heavy ties; never below 1-α, up to what noise adds."""
    rng = np.random.default_rng(0)
    for values in ([0.0, 0.3, 1.0], [0.25, 0.5, 0.75, 1.0], [0.7], [1.0], [0.0]):
        scores = rng.choice(values, 6000)
        sites = [fc.Site("a", scores, np.arange(6000) % 3, n_classes=3)]
        for seed in range(3):
            sketch = fc.collect(sites, None, budget(4.0), seed=seed)
            for alpha in (0.1, 0.2):
                q = sketch.personalise([0.3, 0.3, 0.4], alpha).thresholds[0, 0]
                assert (scores <= q).mean() >= 1 - alpha


@given(st.integers(0, 10**6), st.floats(0.02, 0.5))
def test_misses_are_mixed_first_and_made_monotone_then(seed, alpha):
    """Rows made monotone one by one would be biased where noise outweighs their records."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 30, (4, 64))
    table = table_of(counts, (factor.UNIT * 10.0, 1.0))
    table = noisy(table, rng)
    mixed = Mixture(table, rng.dirichlet(np.ones(4)))
    quantile = mixed.quantile(alpha)
    raw = quantile.shares @ table.misses
    means = []
    for window in (64, 32, 16, 8, 4, 2, 1, 0):
        i = np.arange(64)
        w = np.minimum(np.minimum(i, 63 - i), window)
        mean = [raw[a - b : a + b + 1].mean() for a, b in zip(i, w, strict=True)]
        means.append(np.clip(isotonic_regression(mean).x, 0, 1))
    assert min(np.abs(quantile.misses - m).max() for m in means) < 1e-9
    assert (np.diff(quantile.misses) >= 0).all()
    assert quantile.misses[quantile.bin] > alpha or quantile.bin == 63


def noisy(table, rng):
    """The table with the noise it says it has."""
    from dataclasses import replace

    noise = np.rint(rng.normal(0, table.table_sd, table.table.shape)).astype(int)
    labels = np.rint(rng.normal(0, table.label_sd, len(table.labels))).astype(int)
    return replace(table, table=table.table + noise, labels=table.labels + labels)


def test_rows_that_noise_drowns_count_as_all_records_do():
    """3 records under noise of 20: the weight goes to all records, and the error says so."""
    counts = np.stack([np.full(500, 10), np.zeros(500, dtype=int)])
    counts[1, 100:103] = 1
    target = np.array([0.5, 0.5])
    clear, hidden = (
        Mixture(table_of(counts, (sd * factor.UNIT, 0.1)), target).quantile(0.1)
        for sd in (1e-6, 20.0)
    )
    assert clear.kept == pytest.approx(1, abs=1e-3)
    assert clear.shares[1] == pytest.approx(0.5 / 3, rel=1e-3)
    assert hidden.kept < 0.75
    assert hidden.shares[1] < 0.01
    assert hidden.smoothing > 0.1 > clear.smoothing
    # Whatever a row weighs, the weights of all records add up to one.
    for quantile in (clear, hidden):
        assert quantile.shares @ [5000, 3] == pytest.approx(1, rel=1e-3)


def test_a_lone_record_never_weighs_more_than_it_should():
    """Noisy totals near zero, or below, are no divisors."""
    counts = np.stack([np.full(64, 30), np.zeros(64, dtype=int), np.full(64, 30)])
    table = noisy(table_of(counts, (4.0 * factor.UNIT, 8.0)), np.random.default_rng(1))
    mixed = Mixture(table, np.array([0.2, 0.6, 0.2]))
    assert (mixed.totals >= 1).all()
    assert np.isfinite(mixed.quantile(0.1).misses).all()


def test_the_top_bin_is_the_last_resort():
    """Nothing is above it: where even its misses exceed α, the threshold is 1."""
    counts = np.zeros((2, 64), dtype=int)
    counts[:, 0], counts[:, 40] = 600, 400
    for noise in (None, SILENT):
        table = table_of(counts, noise)
        assert (Mixture(table, np.array([0.5, 0.5])).quantile(0.3).positions == TOP).all()


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
        stated.append(cal.coverage_error[0])
    return np.array(coverage), float(np.sqrt(np.mean(np.square(stated))))


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("counted", [None, 40], ids=["shares", "40 labels"])
@pytest.mark.parametrize("epsilon", [None, 4.0, 1.0])
def test_coverage_is_right_on_average_and_the_stated_error_is_the_real_one(epsilon, counted):
    """Calibration sample, noise and own label mix: 160 repetitions know a deviation to 5.6 %.

    The stated error is about 1.1 times the real one with noise, and 1.0 without: both bounds are
    four standard errors away or more, and the mean is given five beside the .005 that are allowed.
    False alarms are below 1e-4.
    """
    privacy = None if epsilon is None else budget(epsilon)
    coverage, stated = repeated([1000, 1000], privacy, counted, 160)
    real = float(np.sqrt(np.mean((coverage - 0.9) ** 2)))
    assert real <= 1.25 * stated
    assert stated <= 1.4 * real
    assert abs(coverage.mean() - 0.9) <= 0.005 + 5 * coverage.std() / np.sqrt(len(coverage))


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
        stated.append(cal.coverage_error[0])
    assert np.std(coverage) <= 1.25 * np.sqrt(np.mean(np.square(stated)))


# ---------------------------------------------------------------- steps between shared values


def stepped(level):
    """Two labels whose misses rise slowly from bin 10 to 29, as a step does under noise.

    At bin 10 and 30 many records share a score; between them the misses are `level` on average.
    """
    bins = 40
    row = np.zeros(bins)
    row[10], row[11:30], row[30], row[39] = 1000 * level - 10, 1.0, 300, 400
    row = np.rint(row * 100).astype(np.int64)
    row[39] += 100_000 - row.sum()
    return SketchTable(
        layout=Layout(2, standard_cuts(64)[: bins - 1]),
        table=np.stack([row, row]),
        labels=np.full(2, 100_000),
        scale=100,
        table_noise=(4.5e9,),  # the misses of the two together are known to .016
        label_noise=(1.0,),
        records=2000,
        sites=("a",),
    )


def test_a_step_is_known_by_its_mean():
    """Misses of .107 on average between two shared values: the upper one belongs into the set."""
    table = stepped(0.107)
    misses = table.misses.mean(axis=0) / 1000
    assert misses[10] < 0.1 < misses[29]  # the fit itself reaches .1 inside the step
    found = Mixture(table, np.array([0.5, 0.5])).quantile(0.1)
    assert found.bin == 10
    assert (found.positions == upper_edges(table.layout.cut_array)[10]).all()


def test_a_neighbour_that_may_be_the_right_one_is_in_the_stated_error():
    """Misses of .098 leave out a value of .088: nearly half of all noise would have it inside."""
    near = Personal(stepped(0.098), LabelMix(np.array([0.5, 0.5])), (0.1,))
    assert near.quantiles[0].bin == 30
    far = Personal(stepped(0.05), LabelMix(np.array([0.5, 0.5])), (0.1,))
    assert far.quantiles[0].bin == 30
    inside = 0.3 / np.sqrt(12)
    assert near.errors.bins[0] ** 2 - inside**2 > 0.3 * 0.088**2
    assert far.errors.bins[0] == pytest.approx(inside, rel=0.05)
