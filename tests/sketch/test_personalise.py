"""A site makes its own calibration: from counts, labels or predictions, and with its own scores."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.methods.sketch.personalise import Errors, LabelMix, Personal, blend
from fedcover.position import positions, scores_at

from .building import LEVELS, SKETCH, budget, covered, powers

quiet = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

EXPONENTS = np.array([0.7, 1.0, 1.6])
MIX = np.array([0.1, 0.3, 0.6])


@pytest.fixture(scope="module")
def exact():
    return fc.collect(powers(np.random.default_rng(0), [2000, 2000], EXPONENTS), SKETCH(bins=128))


@pytest.fixture(scope="module")
def noisy():
    return fc.collect(powers(np.random.default_rng(0), [2000, 2000], EXPONENTS), None, budget(4.0))


def own(rng, n, mix=MIX, exponents=EXPONENTS):
    y = rng.choice(3, size=n, p=mix)
    return y, rng.random(n) ** (1 / np.asarray(exponents)[y])


def same(one, two):
    """Whether two calibrations say the same in everything."""
    return all(np.array_equal(getattr(one, k), v) for k, v in vars(two).items())


@pytest.mark.slow
@quiet
@given(st.lists(st.integers(0, 2), min_size=1, max_size=60))
def test_labels_and_their_counts_mean_the_same(exact, noisy, labels):
    counts = np.bincount(labels, minlength=3)
    for sketch in (exact, noisy):
        one, two = (
            sketch.personalise(counts, LEVELS),
            sketch.personalise(labels=labels, alpha=LEVELS),
        )
        assert same(one, two)


@quiet
def test_counts_shares_and_names_mean_the_same(exact):
    sites = powers(np.random.default_rng(0), [300], EXPONENTS)
    named = [
        fc.Site(s.name, s.scores, s.labels, n_classes=3, label_names=["a", "b", "c"]) for s in sites
    ]
    by_name = fc.collect(named).personalise(labels=["c", "c", "a"], alpha=LEVELS)
    by_number = fc.collect(sites).personalise([1, 0, 2], LEVELS)
    assert np.array_equal(by_name.thresholds, by_number.thresholds)
    shares = exact.personalise([0.1, 0.3, 0.6])
    counts = exact.personalise([100, 300, 600])
    assert np.array_equal(shares.thresholds, counts.thresholds)
    assert "own label mix" in counts.guarantee
    assert "own label mix" not in shares.guarantee  # nothing is known of where they come from


@quiet
def test_weights_of_any_size_are_shares(exact):
    """As for a target of `calibrate`; a sum beyond any float is no count of labels."""
    huge = exact.personalise([1e308, 1e308, 1e308])
    assert np.array_equal(huge.thresholds, exact.personalise([0.2, 0.2, 0.2]).thresholds)


def test_a_calibration_from_a_sketch_says_where_it_comes_from(noisy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cal = noisy.personalise([0.1, 0.3, 0.6], [0.1, 0.2], name="clinic")
    assert (cal.target, cal.alpha, cal.method) == ("clinic", (0.1, 0.2), "Sketch")
    assert cal.privacy == noisy.privacy
    assert cal.cost == noisy.cost
    assert cal.n_sites == 2
    assert abs(cal.n_records - 4000) < 60  # from noisy totals
    assert "do not publish them" in cal.reveals
    assert not cal.shares_scores
    for words in ("±", "calibration sample", "privacy noise", "noise on the table"):
        assert words in cal.guarantee


def test_a_personalised_calibration_is_a_file_like_any_other(noisy, tmp_path):
    cal = noisy.personalise([0.1, 0.3, 0.6], LEVELS)
    cal.save(tmp_path / "c.json")
    assert same(fc.Calibration.load(tmp_path / "c.json"), cal)


BAD = {
    "nothing": {},
    "two of them": {"label_counts": [1, 1, 1], "labels": [0, 1]},
    "no label": {"labels": []},
    "unknown label": {"labels": [0, 3]},
    "too few counts": {"label_counts": [1, 1]},
    "a negative count": {"label_counts": [1, -1, 3]},
    "all zero": {"label_counts": [0, 0, 0]},
    "NaN": {"label_counts": [1, math.nan, 0]},
    "two columns": {"probabilities": [[0.5, 0.5]]},
    "no probabilities": {"probabilities": [[2.0, 0.5, 0.1]]},
    "a bad source": {"probabilities": [[0.2, 0.3, 0.5]], "source": [1, 1]},
    "source beside counts": {"label_counts": [1, 1, 1], "source": [1, 1, 1]},
    "alpha of 1": {"label_counts": [1, 1, 1], "alpha": 1.0},
    "no alpha": {"label_counts": [1, 1, 1], "alpha": []},
    "no name": {"label_counts": [1, 1, 1], "name": ""},
    "scores above 1": {"label_counts": [1, 1, 1], "local_scores": [0.5, 1.5]},
    "no scores": {"label_counts": [1, 1, 1], "local_scores": []},
    "a table of scores": {"label_counts": [1, 1, 1], "local_scores": [[0.5, 0.1]]},
}


@pytest.mark.parametrize("options", BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused(exact, options):
    with pytest.raises(fc.FedcoverError):
        exact.personalise(**options)


@quiet
def test_predictions_find_the_mix_and_say_how_well(exact):
    """Well separated classes: EM finds the mix to a percent, and so the thresholds."""
    rng = np.random.default_rng(3)
    source, target = np.full(3, 1 / 3), np.array([0.7, 0.2, 0.1])

    def predictions(n, mix):
        y = rng.choice(3, size=n, p=mix)
        density = np.exp(-((rng.normal(size=(n, 1)) + 4 * y[:, None] - 4 * np.arange(3)) ** 2) / 2)
        return density / density.sum(axis=1, keepdims=True)

    few, lots = (
        exact.personalise(None, LEVELS, probabilities=predictions(n, target), source=source)
        for n in (60, 4000)
    )
    wanted = exact.personalise(target, LEVELS)
    assert lots.ratios == pytest.approx(wanted.ratios, abs=0.06)
    assert np.abs(lots.thresholds - wanted.thresholds).max() < 0.02
    assert few.coverage_error.max() > lots.coverage_error.max() > wanted.coverage_error.max() - 5e-4
    # Without `source` the predictions are taken as right for the sketch's own mix, which is even.
    default = exact.personalise(probabilities=predictions(4000, target))
    assert default.ratios == pytest.approx(wanted.ratios, abs=0.1)


def test_the_columns_of_predictions_are_the_classes_in_order():
    """As in `predict_set`: named columns in another order are put in order, and never mixed up."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]

    def frame(n, weights):
        return pandas.DataFrame(rng.dirichlet(weights, n), columns=names)

    site = fc.Site.from_probabilities("s", frame(200, [1, 1, 1]), rng.choice(names, 200), seed=0)
    sketch, outputs = fc.collect([site]), frame(300, [5, 1, 1])
    first = sketch.personalise(probabilities=outputs)
    assert sketch.personalise(probabilities=outputs[["c", "b", "a"]]) == first
    with pytest.raises(fc.FedcoverError, match="no class c"):
        sketch.personalise(probabilities=outputs.rename(columns={"c": "d"}))


# ---------------------------------------------------------------- own scores beside the sketch


def share_of_own(cal):
    return int(re.search(r"own scores count (\d+)%", cal.guarantee).group(1)) / 100


class Given(Personal):
    """A personal calibration whose errors are given."""

    @property
    def errors(self):
        return self.known


def blended(sketch, scores, error, mix=0.0, in_sketch=False, counted=None):
    """`blend` with a sketch whose error is given, and that of its label mix."""
    personal = Given(sketch.table, LabelMix(MIX, counted), LEVELS)
    zero, one = np.zeros(len(LEVELS)), np.ones(len(LEVELS))
    errors = Errors(error * one, zero, zero, zero, mix * one, zero)
    object.__setattr__(personal, "known", errors)
    return blend(personal, positions(scores), in_sketch)


@quiet
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), ties=st.booleans())
def test_own_scores_alone_are_the_local_method(exact, seed, n, ties):
    """A sketch that knows nothing: λ = 1, and the thresholds are those of Local, bit for bit."""
    y, v = own(np.random.default_rng(seed), n)
    v = v.round(1) if ties else v
    both = blended(exact, v, error=1e3)
    assert (both.share == 1).all()
    alone = fc.calibrate([fc.Site("s", v, y, n_classes=3)], LEVELS, fc.methods.Local())["s"]
    assert np.array_equal(both.positions, positions(alone.thresholds))
    sampling = np.sqrt([a * (1 - a) / n for a in LEVELS])
    assert both.error == pytest.approx(sampling)


@quiet
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60))
def test_a_sketch_that_knows_all_stands_alone(exact, seed, n):
    both = blended(exact, own(np.random.default_rng(seed), n)[1], error=1e-9)
    assert (both.share == 0).all()
    alone = exact.personalise(MIX, LEVELS)
    assert np.array_equal(both.positions, positions(alone.thresholds, alone.distances))
    assert both.error == pytest.approx(1e-9)


@quiet
@given(seed=st.integers(0, 10**6), error=st.floats(0.005, 0.2))
def test_in_between_the_share_goes_by_the_errors_and_so_do_the_thresholds(exact, seed, error):
    """λ = e²/(e² + α(1-α)/n); thresholds between those of the two, up to a step of either."""
    v = own(np.random.default_rng(seed), 80)[1]
    both = blended(exact, v, error)
    mine = np.array([a * (1 - a) / 80 for a in LEVELS])
    wanted = error**2 / (error**2 + mine)
    wanted[wanted < 0.05], wanted[wanted > 0.95] = 0, 1
    assert both.share == pytest.approx(wanted)
    assert both.error == pytest.approx(np.sqrt(wanted**2 * mine + (1 - wanted) ** 2 * error**2))
    found = scores_at(both.positions)
    ends = [scores_at(blended(exact, v, 1e3).positions), exact.personalise(MIX, LEVELS).thresholds]
    inside = (both.share > 0) & (both.share < 1)
    low, high = np.minimum(*ends)[inside], np.maximum(*ends)[inside]
    assert (found[inside] >= low - 1 / 64).all()
    assert (found[inside] <= high + 1 / 64).all()


@quiet
@pytest.mark.parametrize("mix", [0.0, 0.02], ids=["mix known", "mix of the same labels"])
@pytest.mark.parametrize("inside", [False, True], ids=["other records", "own in the sketch"])
def test_the_share_is_the_one_with_the_least_error(exact, mix, inside):
    """λ against a search for the least variance, with what the two errors have in common."""
    n, v = 150, own(np.random.default_rng(1), 150)[1]
    level = np.array(LEVELS)
    counted = np.rint(MIX * n).astype(int) if mix else None
    both = blended(exact, v, 0.04, mix, inside, counted)
    counts = exact.table.labels
    common = float(np.sum(MIX * MIX / counts)) if inside else 0.0
    mine, theirs = level * (1 - level) / n, 0.04**2 + mix**2
    shared = mix**2 + level * (1 - level) * common
    tried = np.linspace(0, 1, 10_001)[:, None]
    variance = tried**2 * mine + (1 - tried) ** 2 * theirs + 2 * tried * (1 - tried) * shared
    best = tried[variance.argmin(axis=0), 0]
    within = (best > 0.06) & (best < 0.94)
    assert within.sum() >= 5
    assert both.share[within] == pytest.approx(best[within], abs=2e-4)
    assert both.error[within] == pytest.approx(np.sqrt(variance.min(axis=0))[within], rel=1e-5)


@quiet
def test_a_hopeless_sketch_leaves_it_to_own_scores():
    few = powers(np.random.default_rng(0), [5, 5], EXPONENTS)
    hopeless = fc.collect(few, None, budget(0.01, relation="add-remove"))
    y, v = own(np.random.default_rng(1), 3000)
    cal = hopeless.personalise(labels=y, local_scores=v)
    assert share_of_own(cal) == 1
    assert "own scores alone" in cal.guarantee
    alone = fc.calibrate([fc.Site("s", v, y, n_classes=3)], 0.1, fc.methods.Local())["s"]
    assert np.array_equal(cal.thresholds, alone.thresholds)


@quiet
def test_a_good_sketch_leaves_few_own_scores_aside():
    big = fc.collect(powers(np.random.default_rng(0), [60_000, 60_000], EXPONENTS))
    v = own(np.random.default_rng(1), 8)[1]
    cal = big.personalise(MIX, LEVELS, local_scores=v)
    assert share_of_own(cal) == 0
    assert "the sketch alone" in cal.guarantee
    assert np.array_equal(cal.thresholds, big.personalise(MIX, LEVELS).thresholds)


@quiet
def test_the_share_of_own_scores_grows_with_their_number(exact, noisy):
    for sketch in (exact, noisy):
        shares = []
        for n in (10, 100, 1000, 100_000):
            v = own(np.random.default_rng(1), n)[1]
            shares.append(share_of_own(sketch.personalise(MIX, local_scores=v)))
        assert shares == sorted(shares)
        assert shares[0] < 0.2
        assert shares[-1] == 1


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("same_data", [True, False], ids=["labels of the scores", "other labels"])
@pytest.mark.parametrize("inside", [False, True], ids=["not in the sketch", "in the sketch"])
def test_the_error_of_both_together_is_the_real_one(same_data, inside):
    """400 repetitions, new records everywhere: deviations are known to 3.5 %, a quarter is 7 σ."""
    found, stated, alone, local = [], [], [], []
    for r in range(400):
        rng = np.random.default_rng([4, r])
        y, v = own(rng, 250)
        mine = fc.Site("own", v, y, n_classes=3)
        sites = powers(rng, [500, 500 - 250 * inside], EXPONENTS) + [mine] * inside
        sketch = fc.collect(sites, SKETCH(bins=128))
        counts = np.bincount(y if same_data else own(rng, 200)[0], minlength=3)
        cal = sketch.personalise(counts, local_scores=v, name="own")
        found.append(covered(cal, MIX, EXPONENTS)[0])
        stated.append(cal.coverage_error[0])
        alone.append(covered(sketch.personalise(counts), MIX, EXPONENTS)[0])
        by_itself = fc.calibrate([mine], 0.1, fc.methods.Local())["own"]
        local.append(covered(by_itself, MIX, EXPONENTS)[0])
    real = {k: float(np.std(x)) for k, x in (("both", found), ("sketch", alone), ("own", local))}
    said = float(np.sqrt(np.mean(np.square(stated))))
    assert said / 1.25 <= real["both"] <= 1.25 * said
    assert real["both"] <= 1.05 * min(real["sketch"], real["own"])


def alarms(cal):
    return [note for note in cal.notes if "standard deviations apart" in note]


@quiet
def test_scores_that_do_not_look_alike_are_noticed(exact, noisy):
    """The same labels with other scores: label shift does not hold at this site."""
    rng = np.random.default_rng(0)
    y, v = own(rng, 300, exponents=[4.0, 4.0, 4.0])
    for sketch in (exact, noisy):
        assert alarms(sketch.personalise(labels=y, local_scores=v))
        with pytest.warns(fc.FedcoverWarning, match="only own scores"):
            sketch.personalise(labels=y, local_scores=v)


@quiet
@pytest.mark.parametrize("alpha", [0.1, LEVELS], ids=["one level", "nine levels"])
def test_a_difference_in_the_highest_scores_alone_is_noticed(exact, noisy, alpha):
    """Thresholds at .9 cover two thirds there; the median is as it should be."""
    y, v = own(np.random.default_rng(12), 300)
    higher = np.where(v > 0.7, 0.97 + 0.03 * v, v)
    for sketch in (exact, noisy):
        assert alarms(sketch.personalise(labels=y, local_scores=higher, alpha=alpha))


@pytest.mark.slow
@quiet
def test_scores_that_look_alike_rarely_raise_the_alarm(noisy):
    """At most 1 in 1000 by chance: 4 or more of 200 then have a probability below 6e-5.

    The statistical suite measures the rate.
    """
    seen = 0
    for r in range(200):
        y, v = own(np.random.default_rng([9, r]), 60)
        seen += bool(alarms(noisy.personalise(labels=y, local_scores=v, alpha=LEVELS)))
    assert seen <= 3


@quiet
def test_a_site_that_knows_more_than_the_sketch_is_told(noisy):
    few = powers(np.random.default_rng(0), [60, 60], EXPONENTS)
    poor = fc.collect(few, None, budget(0.5, relation="add-remove"))
    cal = poor.personalise([200, 300, 500])
    assert any("give local_scores" in note for note in cal.notes)
    assert not any("give local_scores" in n for n in noisy.personalise([3, 3, 3]).notes)
    few = noisy.personalise([2, 1, 1], 0.5)
    assert any("rests on 4 counted labels" in note for note in few.notes)
