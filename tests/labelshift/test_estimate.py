"""A target's label distribution from predictions alone."""

from __future__ import annotations

import numpy as np
import pytest

from fedcover.errors import FedcoverError
from fedcover.labelshift import confusion, from_unlabelled

CENTRES, SOURCE = np.array([-1.5, 0.0, 2.0]), np.array([0.5, 0.3, 0.2])


def draw(rng, prior, n):
    """Labels, and the exact probabilities P(y | x) of a model trained under SOURCE."""
    y = rng.choice(3, n, p=prior)
    x = rng.normal(CENTRES[y])
    joint = SOURCE * np.exp(-0.5 * (x[:, None] - CENTRES) ** 2)
    return joint / joint.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("prior", [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.0, 0.9, 0.1]], ids=str)
@pytest.mark.parametrize("method", ["em", "bbse"])
def test_recovers_a_shifted_prior(method, prior):
    rng = np.random.default_rng(0)
    known, labels = draw(rng, SOURCE, 20_000)
    probs, _ = draw(rng, prior, 20_000)
    found = from_unlabelled(probs, method, source=SOURCE, confusion=confusion(known, labels))
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert (found >= 0).all()
    assert np.abs(found - prior).max() < 0.03  # standard errors are near .01


def test_em_reaches_the_maximum_of_the_likelihood():
    rng = np.random.default_rng(1)
    probs, _ = draw(rng, [0.2, 0.2, 0.6], 500)
    found = from_unlabelled(probs, source=SOURCE)

    def likelihood(q):
        return np.log(probs @ (np.asarray(q) / SOURCE)).sum()

    best = likelihood(found)
    for _ in range(200):
        other = np.clip(found + rng.normal(scale=0.02, size=3), 1e-6, 1)
        assert likelihood(other / other.sum()) <= best + 1e-4


def test_a_label_the_source_never_had_stays_at_zero():
    probs = np.array([[0.5, 0.5, 0.0], [0.6, 0.3, 0.1]])
    assert from_unlabelled(probs, source=[0.5, 0.5, 0.0])[2] == 0


def test_confusion_counts_predicted_by_true():
    probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]
    assert confusion(probs, [0, 1, 1]).tolist() == [[1, 1], [0, 1]]


def test_bbse_uses_only_labels_the_table_has_seen():
    found = from_unlabelled([[0.0, 1.0]], "bbse", confusion=[[5, 0], [0, 0]])
    assert found.tolist() == [1, 0]


@pytest.mark.parametrize(
    "options",
    [
        {"method": "em"},
        {"method": "bbse"},
        {"method": "magic", "source": SOURCE},
        {"source": [1, 1]},
        {"source": [0, 0, 0]},
        {"source": SOURCE, "tolerance": "x"},
        {"source": SOURCE, "tolerance": float("nan")},
        {"source": SOURCE, "tolerance": -1},
        {"method": "bbse", "confusion": np.ones((2, 3))},
        {"method": "bbse", "confusion": np.zeros((3, 3))},
        {"method": "bbse", "confusion": -np.ones((3, 3))},
        {"method": "bbse", "confusion": [[1], [1, 2]]},
        {"method": "bbse", "confusion": np.full((3, 3), 1e308)},
        {"method": np.array(["em", "bbse"]), "source": SOURCE},
    ],
    ids=repr,
)
def test_bad_options_are_refused(options):
    with pytest.raises(FedcoverError):
        from_unlabelled([[0.2, 0.3, 0.5]], **options)


def test_predictions_that_the_source_rules_out_are_refused():
    """Every record has probability 0 under all labels of the source."""
    with pytest.raises(FedcoverError):
        from_unlabelled([[0.0, 1.0]], source=[1, 0])
