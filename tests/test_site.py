"""Site: checked, copied, frozen, and reproducible by seed and name."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.errors import FedcoverError
from fedcover.position import scores_at

RNG = np.random.default_rng(0)
PROBS, LABELS = RNG.dirichlet(np.ones(3), 30), RNG.integers(0, 3, 30)


def test_keeps_private_read_only_copies():
    scores, labels, counts = np.array([0.1, 0.9]), np.array([0, 1]), np.array([4, 5])
    site = fc.Site("a", scores, labels, n_classes=2, label_counts=counts)
    scores[0], labels[0], counts[0] = 0.7, 1, 99
    assert site.scores.tolist() == [0.1, 0.9]
    assert site.labels.tolist() == [0, 1]
    assert site.label_counts.tolist() == [4, 5]
    for array in (site.scores, site.labels, site.label_counts, site.calibration_counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_label_counts_default_to_the_calibration_counts():
    site = fc.Site("a", [0.5] * 4, [2, 0, 2, 2], n_classes=4)
    assert site.label_counts.tolist() == site.calibration_counts.tolist() == [1, 0, 3, 0]
    assert len(site) == 4
    assert "4 records" in repr(site)


def test_scores_come_from_the_score_function():
    score = fc.scores.RAPS(u=0.3)
    site = fc.Site.from_probabilities("a", PROBS, LABELS, score=score)
    assert np.array_equal(site.scores, score.of_labels(PROBS, LABELS))
    assert site.score == score
    assert fc.Site.from_probabilities("a", PROBS, LABELS).score == fc.scores.APS()


def test_random_numbers_depend_on_seed_and_name():
    def make(name, seed):
        return fc.Site.from_probabilities(name, PROBS, LABELS, seed=seed).scores

    assert np.array_equal(make("a", 0), make("a", 0))
    assert not np.array_equal(make("a", 0), make("b", 0))
    assert not np.array_equal(make("a", 0), make("a", 1))
    assert not np.array_equal(make("a", None), make("a", None))


def test_calibration_and_prediction_do_not_share_random_numbers():
    site = fc.Site.from_probabilities("a", PROBS, LABELS, seed=0)
    u_site = site.scores - fc.scores.APS(u=0.0).of_labels(PROBS, LABELS)
    cal = fc.calibrate([site], method=fc.methods.Local(), alpha=0.5)["a"]
    mask = cal.predict_set(PROBS, seed=0).mask
    u = u_site / PROBS[np.arange(30), LABELS]
    assert not np.array_equal(mask, cal.predict_set(PROBS, u=np.clip(u, 0, 1)).mask)


def test_from_logits_is_the_softmax_of_scaled_logits():
    logits = RNG.normal(size=(30, 3)) * 5
    soft = np.exp(logits / 2.5) / np.exp(logits / 2.5).sum(axis=1, keepdims=True)
    a = fc.Site.from_logits("a", logits, LABELS, temperature=2.5, score=fc.scores.LAC())
    b = fc.Site.from_probabilities("a", soft, LABELS, score=fc.scores.LAC())
    assert a.scores == pytest.approx(b.scores, abs=1e-12)
    assert a.temperature == 2.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1e-60, 1e-10, 1.0, 1e60])
def test_softmax_survives_extreme_logits(dtype, temperature):
    top = np.finfo(dtype).max
    probs = fc.softmax(np.array([[top, -top, 0], [1, 1, 1]], dtype=dtype), temperature)
    assert probs.dtype == dtype
    assert np.isfinite(probs).all()
    assert probs.sum(axis=1) == pytest.approx(1)
    assert probs[0, 0] >= probs[0, 2] >= probs[0, 1]


def test_softmax_does_not_depend_on_a_shift():
    logits = RNG.normal(size=(5, 4))
    assert fc.softmax(logits + 700) == pytest.approx(fc.softmax(logits), abs=1e-12)


def test_sorted_records_keep_score_and_label_together():
    site = fc.Site("a", [0.3, 0.1, 0.2, 0.1], [2, 0, 1, 2], n_classes=3)
    at, labels = site.sorted_records()
    assert scores_at(at).tolist() == [0.1, 0.1, 0.2, 0.3]
    assert labels.tolist() == [0, 2, 1, 2]


def test_distances_tell_apart_what_scores_cannot():
    far = [1e-30, 0.3, 1e-20, 1.0]
    site = fc.Site("a", [1.0, 0.7, 1.0, 0.0], [0, 1, 0, 1], n_classes=2, distances=far)
    assert site.distances.tolist() == far
    assert site.scores == pytest.approx([1.0, 0.7, 1.0, 0.0], abs=2e-16)
    assert np.argsort(site.positions).tolist() == [3, 1, 2, 0]
    plain = fc.Site("a", [1.0, 0.7, 1.0, 0.0], [0, 1, 0, 1], n_classes=2)
    assert np.array_equal(plain.distances, 1 - plain.scores)
    assert plain.positions[0] == plain.positions[2]


def test_probabilities_give_distances_as_well():
    score = fc.scores.LAC()
    probs = np.array([[1 - 1e-30, 1e-30], [1e-25, 1.0]])
    site = fc.Site.from_probabilities("a", probs, [1, 0], score)
    assert site.distances == pytest.approx([1e-30, 1e-25], rel=1e-12, abs=0)
    logits = np.log(probs) * 2
    assert fc.Site.from_logits("a", logits, [1, 0], 2.0, score).distances == pytest.approx(
        site.distances, rel=1e-12, abs=0
    )


def test_subsets_are_drawn_by_seed_without_replacement():
    scores = np.arange(100) / 100
    site = fc.Site("a", scores, np.arange(100) % 7, n_classes=7)
    first, labels = site.sorted_records(40, seed=1)
    assert len(np.unique(first)) == 40
    assert np.array_equal(labels, np.round(scores_at(first) * 100).astype(int) % 7)
    assert np.array_equal(first, site.sorted_records(40, seed=1)[0])
    assert not np.array_equal(first, site.sorted_records(40, seed=2)[0])
    assert len(site.sorted_records(500, seed=1)[0]) == 100


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "site name"),
        ({"name": 3}, "site name"),
        ({"name": "\ud800"}, "site name"),
        ({"scores": [0.1, 1.2]}, r"scores\[1\] is 1.2"),
        ({"scores": [0.1, np.nan]}, r"scores\[1\] is nan"),
        ({"scores": [[0.1, 0.2]]}, "shape"),
        ({"scores": []}, "no records"),
        ({"distances": [0.9]}, "distances has 1 entries"),
        ({"distances": [0.9, 1.8]}, r"distances\[1\] is 1.8"),
        ({"distances": [0.9, 0.2]}, r"distances\[1\] is 0.2 and scores\[1\] is 0.2"),
        ({"distances": [0.1, 0.2]}, "1 - scores"),
        ({"distances": [0.9, np.nan]}, "distances"),
        ({"scores": ["a", "b"]}, "text"),
        ({"labels": [0]}, "1 entries for 2 records"),
        ({"labels": [0, 2]}, r"labels\[1\] is 2"),
        ({"labels": [0, -1]}, r"labels\[1\] is -1"),
        ({"labels": [0, 0.5]}, "whole"),
        ({"labels": [0, 1e300]}, "labels"),
        ({"labels": [0, np.inf]}, "whole"),
        ({"labels": ["0", "1"]}, "whole"),
        ({"n_classes": 1}, "n_classes"),
        ({"n_classes": 2.0}, "n_classes"),
        ({"n_classes": 10**6 + 1}, "n_classes"),
        ({"label_counts": [1]}, "label_counts"),
        ({"label_counts": [1, -1]}, "label_counts"),
        ({"label_counts": [0, 0]}, "label_counts"),
        ({"label_counts": [1.5, 1]}, "label_counts"),
        ({"label_counts": [1e300, 1]}, "label_counts"),
        ({"label_counts": [1e308, 1e308]}, "label_counts"),
        ({"label_names": ["x"]}, "label_names"),
        ({"label_names": ["x", "x"]}, "label_names"),
        ({"label_names": 5}, "label_names"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": 10**400}, "temperature"),
        ({"score": "aps"}, "score"),
        ({"score": fc.scores.APS}, "score"),
    ],
    ids=repr,
)
def test_bad_input_is_refused_by_name(change, says):
    given = {"name": "a", "scores": [0.1, 0.2], "labels": [0, 1], "n_classes": 2} | change
    with pytest.raises(FedcoverError, match=says):
        fc.Site(given.pop("name"), given.pop("scores"), given.pop("labels"), **given)


@pytest.mark.parametrize("score", ["aps", fc.scores.APS, 5, np.ones(3)], ids=repr)
def test_from_probabilities_wants_a_score_object(score):
    with pytest.raises(FedcoverError, match="score"):
        fc.Site.from_probabilities("a", PROBS, LABELS, score=score)


def test_whole_numbers_stored_as_floats_are_labels():
    assert fc.Site("a", [0.1, 0.2], [0.0, 1.0], n_classes=2).labels.tolist() == [0, 1]


def test_labels_by_name():
    names = ("ant", "bee", "cat")
    plain = fc.Site.from_probabilities("a", PROBS, LABELS, seed=0)
    for given in (np.array(names)[LABELS], [names[y] for y in LABELS]):
        site = fc.Site.from_probabilities("a", PROBS, given, seed=0, label_names=names)
        assert np.array_equal(site.scores, plain.scores)
        assert np.array_equal(site.labels, LABELS)
    site = fc.Site("a", [0.1, 0.2], ["bee", "ant"], n_classes=2, label_names=["ant", "bee"])
    assert site.labels.tolist() == [1, 0]


def test_a_table_names_the_classes():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(PROBS, columns=["ant", "bee", "cat"])
    text = pandas.Series(["ant", "bee", "cat"])[LABELS]
    site = fc.Site.from_probabilities("a", table, text, seed=0)
    assert site.label_names == ("ant", "bee", "cat")
    assert np.array_equal(site.labels, LABELS)
    logits = np.log(table)
    assert fc.Site.from_logits("a", logits, text).label_names == ("ant", "bee", "cat")
    renamed = fc.Site.from_probabilities("a", table, LABELS, label_names=["A", "B", "C"])
    assert renamed.label_names == ("A", "B", "C")
    assert fc.Site.from_probabilities("a", pandas.DataFrame(PROBS), LABELS).label_names is None
    for make, given in ((fc.Site.from_probabilities, table), (fc.Site.from_logits, logits)):
        with pytest.raises(FedcoverError, match="different orders"):
            make("a", given, LABELS, label_names=["bee", "ant", "cat"])


def test_probabilities_given_as_logits_are_noticed():
    cal = fc.calibrate([fc.Site.from_probabilities("a", PROBS, LABELS)])["a"]
    for ask in (
        lambda p: fc.softmax(p),
        lambda p: fc.Site.from_logits("a", p, LABELS[: len(p)]),
        lambda p: cal.predict_set(logits=p),
    ):
        with pytest.warns(fc.FedcoverWarning, match="look like probabilities already"):
            ask(PROBS)
        ask(np.log(PROBS))
        ask(PROBS[:1])  # a single row may be chance
        ask(PROBS * 1.1)
