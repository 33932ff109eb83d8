"""Scores: formulas, ties, chunks, and that the two ways to compute them agree."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fedcover import outputs, scores
from fedcover.errors import FedcoverError

SCORES = [
    scores.APS(),
    scores.APS(u=1.0),
    scores.RAPS(penalty=0.02, k_reg=2),
    scores.RAPS(penalty=0.5, k_reg=0, u=0.3),
    scores.SAPS(penalty=0.15),
    scores.LAC(),
    scores.Margin(),
    scores.TopK(),
]
each_score = pytest.mark.parametrize("score", SCORES, ids=str)


def published(score, p, y, u):
    """The score of one label as its paper writes it, with plain loops; ties share the best rank."""
    p = [float(x) for x in p]
    above = [x for x in p if x > p[y]]
    rank = 1 + len(above)
    match score:
        case scores.RAPS():
            return sum(above) + u * p[y] + score.penalty * max(0, rank - score.k_reg)
        case scores.APS():
            return sum(above) + u * p[y]
        case scores.SAPS():
            return u * max(p) if rank == 1 else max(p) + score.penalty * (rank - 2 + u)
        case scores.LAC():
            return 1 - p[y]
        case scores.Margin():
            return max(x for k, x in enumerate(p) if k != y) - p[y]
        case scores.TopK():
            return rank
    raise AssertionError(score)


def matrices(dtype):
    """Probability matrices that are easy to get wrong, all with 6 classes."""
    rng = np.random.default_rng(3)
    smooth = rng.dirichlet(np.ones(6), 40)
    steps = rng.integers(0, 4, (40, 6)) + np.eye(6)[rng.integers(0, 6, 40)]  # ties and zeros
    spiked = rng.dirichlet(np.full(6, 0.05), 40)
    all_alike, one_hot = np.full((3, 6), 1 / 6), np.eye(6)
    rows = np.vstack([smooth, steps / steps.sum(axis=1, keepdims=True), spiked, all_alike, one_hot])
    return rows.astype(dtype)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (scores.APS(u=0.5), [0.25, 0.65, 0.9]),
        (scores.APS(u=1.0), [0.5, 0.8, 1.0]),
        (scores.RAPS(u=0.5, penalty=0.1, k_reg=1), [0.25 / 1.2, 0.75 / 1.2, 1.1 / 1.2]),
        (scores.SAPS(u=0.5, penalty=0.1), [0.25 / 1.2, 0.55 / 1.2, 0.65 / 1.2]),
        (scores.LAC(), [0.5, 0.7, 0.8]),
        (scores.Margin(), [0.4, 0.6, 0.65]),
        (scores.TopK(), [1 / 3, 2 / 3, 1.0]),
    ],
    ids=str,
)
def test_formula_by_hand(score, expected):
    assert score.of_all([[0.5, 0.3, 0.2]])[0] == pytest.approx(expected, abs=1e-15)
    assert score.of_all([[0.2, 0.5, 0.3]])[0] == pytest.approx(
        [expected[2], expected[0], expected[1]], abs=1e-15
    )


@each_score
def test_maps_the_published_score_by_an_increasing_function(score):
    p, rng = matrices(np.float64), np.random.default_rng(0)
    u = rng.random(len(p))
    if score.spec().get("u", "uniform") != "uniform":
        u[:] = score.u
    literal = np.array(
        [[published(score, row, y, v) for y in range(6)] for row, v in zip(p, u, strict=True)]
    )
    mapped = score.of_all(p, u=u).ravel()
    order = np.argsort(literal.ravel(), kind="stable")
    rise, gap = np.diff(mapped[order]), np.diff(literal.ravel()[order])
    assert (rise >= -1e-12).all()
    assert (rise[gap > 1e-9] > 0).all()
    assert np.abs(rise[gap == 0]).max(initial=0) <= 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_score
def test_own_label_and_all_labels_agree(score, dtype):
    p = matrices(dtype)
    u = np.random.default_rng(1).random(len(p))
    full = score.of_all(p, u=u)
    for y in range(6):
        mine = score.of_labels(p, np.full(len(p), y), u=u)
        assert np.abs(mine - full[:, y]).max() <= 1e-14
    assert full.dtype == np.float64
    assert (full >= 0).all()
    assert (full <= 1).all()


@each_score
def test_tied_labels_share_their_score(score):
    values = score.of_all([[0.2, 0.3, 0.2, 0.3]], u=0.4)[0]
    assert values[0] == values[2]
    assert values[1] == values[3]
    assert values[0] > values[1]


def test_aps_ties_share_the_mass_strictly_above():
    assert scores.APS(u=0.0).of_all([[0.25, 0.25, 0.5, 0.0]])[0] == pytest.approx([0.5, 0.5, 0, 1])


@each_score
@pytest.mark.parametrize("elements", [1, 7, 100, 10**9])
def test_chunks_do_not_change_the_result(score, elements, monkeypatch):
    p, y = matrices(np.float64), np.arange(129) % 6
    whole = score.of_all(p, seed=5), score.of_labels(p, y, seed=5)
    monkeypatch.setattr(outputs, "CHUNK_ELEMENTS", elements)
    assert np.array_equal(score.of_all(p, seed=5), whole[0])
    assert np.array_equal(score.of_labels(p, y, seed=5), whole[1])


@each_score
def test_batches_do_not_change_the_result(score):
    """A peer clips set sizes by the number of rows in the batch."""
    p, y = matrices(np.float64), np.arange(129) % 6
    u = np.random.default_rng(2).random(129)
    one_by_one = np.vstack([score.of_all(p[k : k + 1], u=u[k : k + 1]) for k in range(129)])
    assert np.array_equal(one_by_one, score.of_all(p, u=u))
    halves = [score.of_labels(p[s], y[s], u=u[s]) for s in (slice(0, 50), slice(50, 129))]
    assert np.array_equal(np.concatenate(halves), score.of_labels(p, y, u=u))


def test_one_u_serves_all_labels_of_a_record():
    p = np.random.default_rng(0).dirichlet(np.ones(5), 50)
    drawn = scores.APS().of_all(p, seed=0) - scores.APS(u=0.0).of_all(p)  # u·f̂[y]
    u = drawn / p
    assert np.ptp(u, axis=1).max() < 1e-9
    assert np.ptp(u[:, 0]) > 0.5  # and it differs between records


def test_seed_fixes_the_random_part():
    p = np.full((20, 3), 1 / 3)
    a, b, c = (scores.APS().of_labels(p, np.zeros(20, int), seed=s) for s in (0, 0, 1))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


@each_score
def test_input_is_neither_changed_nor_copied(score):
    p = np.random.default_rng(0).dirichlet(np.ones(250), 4000).astype(np.float32)
    y = np.zeros(4000, dtype=np.int64)
    before = p.copy()
    p.flags.writeable = y.flags.writeable = False
    assert outputs.probabilities(p) is p
    score.of_labels(p[:10], y[:10])  # first-call allocations are none of ours
    tracemalloc.start()
    score.of_labels(p, y, seed=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.75 * p.nbytes
    score.of_all(p[:100], seed=0)
    assert np.array_equal(p, before)


@each_score
def test_description_round_trip(score):
    assert scores.from_spec(score.spec()) == score


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"name": "XYZ"},
        {"name": []},
        {"name": "APS", "v": 1},
        5,
        "APS",
        None,
        {"name": "LAC", 1: 2},
    ],
    ids=repr,
)
def test_unknown_descriptions_are_refused(spec):
    with pytest.raises(FedcoverError):
        scores.from_spec(spec)


@pytest.mark.parametrize(
    "make",
    [
        lambda: scores.APS(u=1.5),
        lambda: scores.APS(u="normal"),
        lambda: scores.APS(u=None),
        lambda: scores.APS(u=np.array([0.1, 0.2])),
        lambda: scores.RAPS(penalty=-1),
        lambda: scores.RAPS(k_reg=1.5),
        lambda: scores.RAPS(k_reg=-1),
        lambda: scores.SAPS(penalty=float("nan")),
        lambda: scores.RAPS(penalty=1e308).of_all([[0.5, 0.5]]),
        lambda: scores.SAPS(penalty=1e308).of_all(np.full((1, 9), 1 / 9)),
        lambda: scores.RAPS(k_reg=10**400).of_all([[0.5, 0.5]]),
    ],
)
def test_bad_options_are_refused(make):
    with pytest.raises(FedcoverError):
        make()


@pytest.mark.parametrize(
    "u", [[0.1, 0.2], [[0.1]], 1.5, float("nan"), "x", [[1], [1, 2]]], ids=repr
)
def test_bad_u_is_refused(u):
    with pytest.raises(FedcoverError, match="u"):
        scores.APS().of_all(np.full((3, 2), 0.5), u=u)


@pytest.mark.parametrize(
    ("probs", "says"),
    [
        ([[0.5, 0.6]], "sums to 1.1"),
        ([[1.5, -0.5]], "negative"),
        ([[np.nan, 1.0]], "NaN"),
        ([[1.0]], "shape"),
        ([], "shape"),
        ([[1e308, 1e308]], "sums to"),
        ([[1, 0], [1]], "not an array"),
        ([["a", "b"]], "text"),
    ],
)
def test_bad_probabilities_are_refused(probs, says):
    with pytest.raises(FedcoverError, match=says):
        scores.LAC().of_all(probs)
