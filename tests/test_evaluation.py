"""An evaluation counts what the sets cover, in all and in every group."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.diagnostics import clopper_pearson
from fedcover.evaluation import ALL, CLASS, FILE, SIZE, Evaluation

NAMES = ("cat", "dog", "eel")


def outputs(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    logits = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[labels]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probs, labels


@pytest.fixture(scope="module")
def cal():
    probs, labels = outputs(300, 0)
    site = fc.Site.from_probabilities("home", probs, labels, seed=0, label_names=NAMES)
    return fc.calibrate([site], [0.1, 0.3], "local")["home"]


@pytest.fixture(scope="module")
def made(cal):
    return Evaluation.of(cal, {"one": outputs(80, 1), "two": outputs(40, 9)}, seed=5)


def test_every_group_is_counted_as_by_hand(cal, made):
    probs, labels = (
        np.concatenate(both) for both in zip(outputs(80, 1), outputs(40, 9), strict=True)
    )
    mask = cal.predict_set(probs, seed=5).mask
    for a in range(2):
        hits = mask[a, np.arange(120), labels]
        size = mask[a].sum(axis=1)
        groups = {
            (ALL, ALL): np.full(120, True),
            (FILE, "one"): np.arange(120) < 80,
            (FILE, "two"): np.arange(120) >= 80,
            **{(CLASS, k): labels == k for k in range(3)},
            **{(SIZE, k): size == k for k in set(size.tolist())},
        }
        found = {(part, k): c for part, levels in made.parts.items() for k, c in levels[a].items()}
        assert found == {
            key: clopper_pearson(int(hits[rows].sum()), int(rows.sum()))
            for key, rows in groups.items()
        }
        assert made.sizes(a).tolist() == size.tolist()


def test_one_file_is_no_group_and_one_level_works(cal):
    alone = Evaluation.of(cal, {"a": outputs(9, 3)})
    assert list(alone.parts) == [ALL, CLASS, SIZE]
    probs, labels = outputs(50, 4)
    single = fc.calibrate([fc.Site.from_probabilities("s", probs, labels, seed=0)], 0.2)["s"]
    both = Evaluation.of(single, {"a": (probs[:20], labels[:20]), "b": (probs[20:], labels[20:])})
    (by_file,) = both.parts[FILE]
    assert sum(c.hits for c in by_file.values()) == both.overall(0).hits
    assert both.sizes(0).shape == (50,)


def test_verdict_counts_the_chance_of_what_was_found(cal, made):
    assert made.verdict(0) == "on"
    assert "agrees with 0.9" in made.said(0)
    probs, labels = outputs(200, 6)
    wrong = Evaluation.of(cal, {"a": (probs, (labels + 1) % 3)})
    assert wrong.verdict(0) == "below"
    assert "below 0.9 by more than 200 test records" in wrong.said(0)
    hit = cal.predict_set(probs, seed=0).mask[0, np.arange(200), labels]
    sure = Evaluation.of(cal, {"a": (probs[hit], labels[hit])})  # a record's set is its own
    assert sure.overall(0).value == 1
    assert sure.verdict(0) == "above"


def test_groups_have_the_names_of_the_classes(made):
    assert [made.named(CLASS, 1), made.named(FILE, "one"), made.named(SIZE, 2)] == [
        "class dog",
        "one",
        "set size 2",
    ]


def test_no_record_is_refused(cal):
    with pytest.raises(fc.FedcoverError, match="holds no record"):
        Evaluation.of(cal, {"a": (np.empty((0, 3)), np.empty(0, dtype=np.int64))})
