"""calibrate: what it refuses, and before what; targets; levels; warnings."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import fedcover as fc

methods = fc.methods


class Untouchable(list):
    """Sites that explode when anybody looks at them."""

    def _explode(self, *_):
        raise AssertionError("the data were touched")

    __len__ = __iter__ = __getitem__ = __bool__ = _explode


def sites_of(n, n_classes=3, names="ab"):
    rng = np.random.default_rng(0)
    return [
        fc.Site(name, rng.uniform(0.01, 0.99, n), np.arange(n) % n_classes, n_classes=n_classes)
        for name in names
    ]


@pytest.mark.parametrize("alpha", [1.7, -3, 0, 1, float("nan"), True, "x", None, [], [0.1, 2]])
def test_a_bad_level_is_refused_before_any_data_is_touched(alpha):
    """One peer accepts 1.7 and -3, another refuses a bad level only at prediction."""
    with pytest.raises(fc.FedcoverError, match="alpha"):
        fc.calibrate(Untouchable(), alpha=alpha)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "dp-fedcq"},
        {"method": methods.DPFedCP},  # without brackets
        {"method": methods.Local},
        {"privacy": 1.0},
        {"seed": -1},
        {"seed": 1.5},
        {"engine": "fast"},
        {"engine": fc.engines.InProcess},
    ],
    ids=repr,
)
def test_bad_options_are_refused_before_any_data_is_touched(options):
    with pytest.raises(fc.FedcoverError, match=next(iter(options))):
        fc.calibrate(Untouchable(), **options)


@pytest.mark.parametrize(
    "sites", [None, [], sites_of(5)[0], [1, 2], sites_of(5) * 2, "ab", {"a": 1}, iter([])]
)
def test_bad_sites_are_refused(sites):
    with pytest.raises(fc.FedcoverError):
        fc.calibrate(sites)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"n_classes": 4}, "n_classes"),
        ({"score": fc.scores.LAC()}, "score"),
        ({"temperature": 2.0}, "temperature"),
        ({"label_names": ["x", "y", "w"]}, "label_names"),
    ],
)
def test_sites_must_be_alike(change, what):
    common = {"n_classes": 3, "label_names": ["x", "y", "z"]}
    a = fc.Site("a", [0.5] * 30, [0] * 30, **common)
    given = common | change
    if "n_classes" in change:
        given.pop("label_names")
    b = fc.Site("b", [0.5] * 30, [0] * 30, **given)
    with pytest.raises(fc.FedcoverError, match=what):
        fc.calibrate([a, b])


@pytest.mark.parametrize(
    "targets",
    [5, "zz", [], {}, ["a", "a"], [["a"]], [1], object(), {"x": []}, {"x": 5}, {"x": None},
     {"x": [1, 2]}, {"x": [0, 0, 0]}, {"x": ["a", 3]}, {"x": ["a", "a"]}, {"x": [-1, 1, 1]},
     {1: ["a"]}, {"x": ["zz"]}, {"\ud800": ["a"]}, {"": ["a"]}],
    ids=lambda t: repr(t)[:15],
)  # fmt: skip
def test_bad_targets_are_refused(targets):
    with pytest.raises(fc.FedcoverError, match="target"):
        fc.calibrate(sites_of(30), targets=targets)


def test_targets_by_name_group_and_distribution():
    sites = sites_of(60, names="abc")
    every = fc.calibrate(sites)
    assert list(every) == ["a", "b", "c"]
    assert list(fc.calibrate(sites, targets="b")) == ["b"]
    assert list(fc.calibrate(sites, targets=("c", "a"))) == ["c", "a"]
    mixed = fc.calibrate(sites, targets={"ab": ["a", "b"], "x": [20, 20, 20], "one": "c"})
    assert np.array_equal(mixed["x"].ratios, [1, 1, 1])
    assert np.array_equal(mixed["one"].thresholds, every["c"].thresholds)
    assert mixed["ab"].target == "ab"


@pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")
def test_levels_keep_their_order_and_sets_are_nested(federation):
    sites = federation(np.random.default_rng(1), least=20)
    # Noisy iterates of four levels and labels cross almost surely, were they left alone.
    noisy = methods.DPFedCP(rounds=2, step=0.05, gradient_noise=5.0, average="last")
    for method in (None, noisy):
        cal = fc.calibrate(sites, alpha=[0.2, 0.05, 0.5, 0.1], method=method)["s0"]
        assert cal.alpha == (0.2, 0.05, 0.5, 0.1)
        falling = cal.thresholds[np.argsort(cal.alpha)]
        assert (np.diff(falling, axis=0) <= 0).all()


def test_several_levels_are_the_single_ones():
    sites = sites_of(60)
    both = fc.calibrate(sites, alpha=[0.3, 0.1])["a"].thresholds
    for row, alpha in zip(both, (0.3, 0.1), strict=True):
        assert np.array_equal(fc.calibrate(sites, alpha=alpha)["a"].thresholds[0], row)


def needed(message):
    return int(re.search(r"(\d+) more records", message)[1])


def test_too_few_records_says_how_many_are_missing():
    """Peers let the level exceed 1 in silence; n = 5 at α = .1 needs 4 more."""
    with pytest.warns(fc.FedcoverWarning, match="will be in every set") as caught:
        cal = fc.calibrate(sites_of(5)[:1], alpha=0.1, method=methods.Local())["a"]
    assert (cal.thresholds == 1).all()
    assert needed(str(caught[0].message)) == 4
    assert cal.notes == (str(caught[0].message),)
    with pytest.warns(fc.FedcoverWarning):
        assert (fc.calibrate(sites_of(8)[:1], method=methods.Local())["a"].thresholds == 1).all()
    assert (fc.calibrate(sites_of(9)[:1], method=methods.Local())["a"].thresholds < 1).all()


@pytest.mark.parametrize("alpha", [0.01, 0.02, 0.025, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45])
def test_the_number_missing_is_exactly_right(alpha):
    for n in (1, 2, 3, 7):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fc.calibrate(sites_of(n)[:1], alpha=alpha, method=methods.Local())
        if not caught:
            continue
        enough = n + needed(str(caught[0].message))
        cal = fc.calibrate(sites_of(enough)[:1], alpha=alpha, method=methods.Local())["a"]
        assert (cal.thresholds < 1).all()  # and no warning, which would be an error here
        if enough > 1:
            with pytest.warns(fc.FedcoverWarning):
                fc.calibrate(sites_of(enough - 1)[:1], alpha=alpha, method=methods.Local())


@pytest.mark.parametrize("alpha", [5e-324, 1e-300, 1e-17])
def test_tiny_levels_warn_and_nothing_else(alpha):
    with pytest.warns(fc.FedcoverWarning, match="too few"):
        cal = fc.calibrate(sites_of(30), alpha=alpha, targets="a")["a"]
    assert (cal.thresholds == 1).all()


@pytest.mark.parametrize("method", [methods.EstimatedWeights(), methods.DPFedCP()], ids=str)
def test_warns_whenever_the_point_mass_makes_the_threshold(method):
    """Label counts from training data may promise more weight than the records have."""
    labels = [0] * 9 + [1]
    a = fc.Site("a", [0.5] * 10, labels, n_classes=2, label_counts=[50, 50])
    b = fc.Site("b", [0.5] * 10, labels, n_classes=2, label_counts=[98, 2])
    with pytest.warns(fc.FedcoverWarning, match="1 of 2 labels will be in every set"):
        cal = fc.calibrate([a, b], alpha=0.09, targets="a", method=method)["a"]
    assert cal.thresholds[0] == pytest.approx([0.5, 1.0], abs=1e-6)


@pytest.mark.parametrize("method", [methods.EstimatedWeights(), methods.DPFedCP()], ids=str)
def test_labels_of_the_target_without_any_record_are_always_included(method):
    """Weight 0 would let their share vanish from the coverage without a word."""
    rng = np.random.default_rng(0)
    sites = [
        fc.Site(name, rng.random(200), rng.integers(0, 2, 200), n_classes=3) for name in ("a", "b")
    ]
    with pytest.warns(fc.FedcoverWarning, match=r"label 2, 80.0% of the labels"):
        cal = fc.calibrate(sites, targets={"clinic": [10, 10, 80]}, method=method)["clinic"]
    assert cal.thresholds[0, 2] == 1.0
    assert (cal.thresholds[0, :2] < 1).all()
    trained = [
        fc.Site(s.name, s.scores, s.labels, n_classes=3, label_counts=[10, 10, 80]) for s in sites
    ]
    with pytest.warns(fc.FedcoverWarning, match=r"label 2, 80.0% of the labels"):
        cal = fc.calibrate(trained, targets="a", method=method)["a"]
    assert cal.thresholds[0, 2] == 1.0


def test_remarks_on_poorly_known_targets_are_notes_and_no_warnings():
    sites = [fc.Site("a", np.linspace(0, 1, 90), np.arange(90) % 2, n_classes=3)]
    sites.append(fc.Site("tiny", [0.1, 0.2, 0.3], [0, 1, 1], n_classes=3))
    cals = fc.calibrate(sites, alpha=0.2)
    assert any("3 counted labels" in note for note in cals["tiny"].notes)
    assert any("no calibration record has label 2" in note for note in cals["a"].notes)


def test_no_warning_when_scores_are_one_but_records_suffice():
    site = fc.Site("a", np.ones(50), np.arange(50) % 2, n_classes=2)
    assert (fc.calibrate([site])["a"].thresholds == 1).all()


def test_a_target_without_any_known_label_gets_full_sets_and_a_warning():
    site = fc.Site("a", [0.5] * 50, [0] * 50, n_classes=2)
    with pytest.warns(fc.FedcoverWarning, match="x"):
        cal = fc.calibrate([site], targets={"x": [0, 1]})["x"]
    assert (cal.thresholds == 1).all()


def test_the_warning_points_at_the_callers_line():
    with pytest.warns(fc.FedcoverWarning) as caught:
        fc.calibrate(sites_of(5)[:1], method=methods.Local())
    assert caught[0].filename == __file__


def test_what_a_calibration_knows():
    cal = fc.calibrate(sites_of(40), alpha=0.2)["b"]
    assert (cal.target, cal.n_records, cal.n_sites, cal.n_classes) == ("b", 80, 2, 3)
    assert cal.method == "DP-FedCP"
    assert cal.options["gamma"] == 1e-6
    assert cal.privacy is None
    assert cal.effective_size == pytest.approx(80, rel=1e-3)
    assert "1-α" in cal.guarantee


def test_options_given_as_numpy_numbers_are_kept_for_the_record():
    method = methods.DPFedCP(rounds=np.int64(50), gamma=np.float32(1e-3))
    options = fc.calibrate(sites_of(40), method=method)["a"].options
    assert options["rounds"] == 50
    assert options["gamma"] == pytest.approx(1e-3)
