"""PredictionSets: sizes, coverage and tables, all from one mask."""

from __future__ import annotations

import csv
import os

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
    return fc.PredictionSets(MASK, (0.1, 0.3), ("x", "y y", "z"))


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
    assert rows[0] == {"id": "p", "alpha": 0.1, "size": 2, "labels": ["x", "y y"]}
    assert rows[6] == {"id": "r", "alpha": 0.3, "size": 0, "labels": []}
    assert fc.PredictionSets(MASK, (0.1, 0.3)).labels_of(1, 1) == [1, 2]
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
    assert back[3]["labels"] == "y y"
    assert back[0]["labels"] == "x|y y"


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


def test_true_labels_by_name(sets):
    names = ["y y", "z", "x", "y y"]
    assert sets.coverage(names).tolist() == sets.coverage(TRUTH).tolist()
    assert sets.coverage_by_class(np.array(names)) == sets.coverage_by_class(TRUTH)
    with pytest.raises(fc.FedcoverError, match="'w' is not a class"):
        sets.coverage(["x", "z", "w", "x"])


def test_records_are_indexed_and_iterated(sets):
    assert sets[0] == [["x", "y y"], ["x"]]
    assert sets[-1] == [["y y"], []]
    one = fc.PredictionSets(MASK[:1], (0.1,))
    assert list(one) == [[0, 1], [0, 1, 2], [], [1]]


@pytest.mark.parametrize(
    ("record", "level"), [(4, 0), (-5, 0), (0, 2), (0, -3), (0.5, 0), ("x", 0), (None, 0), (0, "x")]
)
def test_no_such_record_or_level(sets, record, level):
    with pytest.raises(fc.FedcoverError, match=r"record is|level is"):
        sets.labels_of(record, level)
    if level == 0:
        with pytest.raises(fc.FedcoverError, match="record is"):
            sets[record]


def test_a_bar_in_a_class_name_would_make_the_file_ambiguous(tmp_path):
    sets = fc.PredictionSets(MASK, (0.1, 0.3), ("x", "y|y", "z"))
    with pytest.raises(fc.FedcoverError, match=r"'y\|y' contains.*to_frame"):
        sets.to_csv(tmp_path / "sets.csv")
    assert not any(tmp_path.iterdir())
    assert next(sets.rows())["labels"] == ["x", "y|y"]


@pytest.mark.parametrize("place", ["nowhere/sets.csv", ".", "file/sets.csv", "a" * 300, "a\0b"])
def test_a_place_that_cannot_be_written(sets, tmp_path, place):
    (tmp_path / "file").write_text("here")
    with pytest.raises(fc.FileError, match="Allowed: a file name in a folder that exists"):
        sets.to_csv(tmp_path / place)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_file(sets, tmp_path):
    class Ids(list):
        def __getitem__(self, k):
            if k == 2:
                raise OSError(28, "No space left on device")
            return k

    path = tmp_path / "sets.csv"
    path.write_text("old")
    with pytest.raises(fc.FileError, match="No space left"):
        sets.to_csv(path, ids=Ids(range(4)))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["sets.csv"]


def test_links_are_written_through(sets, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    sets.to_csv(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("id,alpha")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_pipes_are_written_and_not_replaced(sets, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        sets.to_csv(pipe)
        assert os.read(reader, 8) == b"id,alpha"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
