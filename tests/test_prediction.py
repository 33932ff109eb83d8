"""PredictionSets: sizes, coverage and tables, all from one mask."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import fedcover as fc

RNG = np.random.default_rng(0)
PROBS, LABELS = RNG.dirichlet(np.ones(4), 300), RNG.integers(0, 4, 300)
MASK = np.array(
    [[[1, 1, 0], [1, 1, 1], [0, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 0]]],
    dtype=bool,
)
TRUTH = [1, 2, 0, 1]


@pytest.fixture
def sets():
    return fc.PredictionSets(MASK, (0.1, 0.3), ("x", "y|y", "z"))


@pytest.mark.parametrize(
    "score", [fc.scores.APS(), fc.scores.RAPS(), fc.scores.SAPS(), fc.scores.Margin()], ids=str
)
def test_sets_do_not_depend_on_the_batch_size(score):
    """A peer clips set sizes by the number of rows: its batches of one cover .11 instead of .90."""
    site = fc.Site.from_probabilities("a", PROBS, LABELS, score=score, seed=0)
    cal = fc.calibrate([site], alpha=[0.1, 0.4])["a"]
    u = RNG.random(300)
    whole = cal.predict_set(PROBS, u=u)
    for size in (1, 7, 100):
        parts = [slice(k, k + size) for k in range(0, 300, size)]
        masks = [cal.predict_set(PROBS[p], u=u[p]).mask for p in parts]
        assert np.array_equal(np.concatenate(masks, axis=1), whole.mask)


def test_a_batch_of_one_covers_as_often():
    site = fc.Site.from_probabilities("a", PROBS, LABELS, seed=0)
    cal = fc.calibrate([site], alpha=0.1)["a"]
    hits = [
        cal.predict_set(p[None], seed=k).coverage([y])
        for k, (p, y) in enumerate(zip(PROBS, LABELS, strict=True))
    ]
    assert np.mean(hits) > 0.8


def test_size_and_coverage_come_from_one_mask(sets):
    """A peer measures them on different sets."""
    assert sets.sizes.tolist() == [[2, 3, 0, 1], [1, 2, 0, 0]]
    assert sets.coverage(TRUTH).tolist() == [0.75, 0.25]
    assert len(sets) == 4
    assert "mean size 1.50, 0.75" in repr(sets)
    one = fc.PredictionSets(MASK[:1], (0.1,))
    assert one.sizes.tolist() == [2, 3, 0, 1]
    assert one.coverage(TRUTH) == 0.75
    assert one.mask.shape == (4, 3)


def test_coverage_by_class(sets):
    first, second = sets.coverage_by_class(TRUTH)
    assert {c: (v.hits, v.n) for c, v in first.items()} == {0: (0, 1), 1: (2, 2), 2: (1, 1)}
    assert {c: (v.hits, v.n) for c, v in second.items()} == {0: (0, 1), 1: (0, 2), 2: (1, 1)}


def test_coverage_by_size(sets):
    first, second = sets.coverage_by_size(TRUTH)
    assert {s: (v.hits, v.n) for s, v in first.items()} == {
        0: (0, 1),
        1: (1, 1),
        2: (1, 1),
        3: (1, 1),
    }
    assert {s: (v.hits, v.n) for s, v in second.items()} == {0: (0, 2), 1: (0, 1), 2: (1, 1)}


def test_coverage_band_is_clopper_pearson(sets):
    band = sets.coverage_band(TRUTH, confidence=0.9)
    assert band == [fc.diagnostics.clopper_pearson(h, 4, 0.9) for h in (3, 1)]


def test_rows_name_the_labels(sets):
    rows = list(sets.rows(ids=["p", "q", "r", "s"]))
    assert len(rows) == 8
    assert rows[0] == {"id": "p", "alpha": 0.1, "size": 2, "labels": ["x", "y|y"]}
    assert rows[6] == {"id": "r", "alpha": 0.3, "size": 0, "labels": []}
    assert fc.PredictionSets(MASK, (0.1, 0.3)).labels_of(1, 1) == ["1", "2"]
    assert [r["id"] for r in sets.rows()][:5] == [0, 1, 2, 3, 0]


def test_table_and_csv_hold_the_rows(sets, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = sets.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("records") == list(sets.rows())
    sets.to_csv(tmp_path / "sets.csv")
    with (tmp_path / "sets.csv").open(newline="", encoding="utf-8") as file:
        back = list(csv.DictReader(file))
    assert [int(r["size"]) for r in back] == sets.sizes.ravel().tolist()
    assert back[0]["alpha"] == "0.1"
    assert back[3]["labels"] == "y|y"


@pytest.mark.parametrize(
    "labels", [[0, 1], [0, 1, 2, 3], [0, 1, 2, -1], [[0, 1, 2, 0]], "abcd", None, [0.5] * 4, []]
)
def test_bad_labels_are_refused(sets, labels):
    for ask in (sets.coverage, sets.coverage_band, sets.coverage_by_class, sets.coverage_by_size):
        with pytest.raises(fc.FedcoverError, match="labels"):
            ask(labels)


def test_as_many_ids_as_records(sets, tmp_path):
    with pytest.raises(fc.FedcoverError, match="ids"):
        list(sets.rows(ids=[1, 2]))
    with pytest.raises(fc.FedcoverError, match="ids"):
        sets.to_csv(tmp_path / "x.csv", ids=[1])
    assert not (tmp_path / "x.csv").exists()
