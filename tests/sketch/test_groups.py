"""Labels that share a row: given by name or number, or learned in a round of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.sketch import plan, reply
from fedcover.sketch.groups import learned_groups, numbered
from fedcover.sketch.personal import counted_variance, errors_of, mixture

from .building import SKETCH, budget, covered, powers, zeros

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


@given(st.lists(st.one_of(st.integers(-2, 2), st.sampled_from(["a", "b"])), min_size=1))
def test_groups_are_numbered_in_order_of_appearance(groups):
    rows = numbered(groups)
    assert sorted(set(rows)) == list(range(len(set(groups))))
    assert all((rows[i] == rows[j]) == (groups[i] == groups[j])
               for i in range(len(rows)) for j in range(len(rows)))  # fmt: skip
    assert [rows.index(r) for r in range(max(rows) + 1)] == sorted(
        rows.index(r) for r in range(max(rows) + 1)
    )
    assert numbered(rows) == rows


def test_names_numbers_and_arrays_mean_the_same():
    given_as = [
        ["cat", "dog", "cat", "owl"],
        ("cat", "dog", "cat", "owl"),
        [7, 3, 7, -1],
        np.array([5, 6, 5, 0]),
        np.array(["x", "y", "x", "z"]),
    ]
    assert len({SKETCH(groups=g) for g in given_as}) == 1
    assert SKETCH(groups=given_as[0]).groups == (0, 1, 0, 2)


BAD = {
    "a word": "superclass",
    "nothing": [],
    "a number": 3,
    "lists": [[1], [2]],
    "lists in tuples": [([],), 1],
    "one array": np.array(5),
    "a table": np.zeros((2, 2), int),
    "a dictionary": {"a": 1},
}


@pytest.mark.parametrize("groups", BAD.values(), ids=BAD.keys())
def test_what_is_no_list_of_groups_is_refused(groups):
    with pytest.raises(fc.FedcoverError, match="groups"):
        SKETCH(groups=groups)


def test_groups_must_fit_the_classes(federation):
    sites = federation(np.random.default_rng(0), n_classes=4)
    with pytest.raises(fc.FedcoverError, match="4"):
        fc.collect(sites, SKETCH(groups=[0, 0, 1]))
    with pytest.raises(fc.FedcoverError, match="learned, without privacy"):
        fc.collect(sites, SKETCH(groups="learned"))


def test_rows_hold_the_labels_of_their_group(federation):
    sites = federation(np.random.default_rng(0), n_classes=4, least=30)
    groups = ["x", "y", "x", "z"]
    single = fc.collect(sites, SKETCH(bins=8)).table
    pooled = fc.collect(sites, SKETCH(bins=8, groups=groups)).table
    rows = np.array([0, 1, 0, 2])
    for r in range(3):
        assert np.array_equal(pooled.table[r], single.table[rows == r].sum(axis=0))
    assert np.array_equal(pooled.labels.sum(axis=1), single.labels[:, 0])
    cut = pooled.layout.label_cut
    scores, labels = (np.concatenate([getattr(s, k) for s in sites]) for k in ("scores", "labels"))
    above = np.bincount(labels[scores > cut], minlength=4)
    assert np.array_equal(pooled.labels[:, 1], above)


def test_without_noise_groups_of_like_labels_change_nothing_much():
    hard = np.repeat([0.6, 1.0, 1.8], 4)
    sites = powers(np.random.default_rng(0), [4000, 4000], hard)
    mix = np.arange(1, 13.0)
    pooled = fc.collect(sites, SKETCH(groups=np.repeat([0, 1, 2], 4)))
    single = fc.collect(sites)
    gap = pooled.personalise(mix).thresholds - single.personalise(mix).thresholds
    assert np.abs(gap).max() < 0.03
    assert not np.array_equal(pooled.table.table, single.table.table)


def many(rng, sizes=(4000, 4000), classes=40, spread=0.9):
    hard = np.exp(np.random.default_rng(5).normal(0, spread, classes))
    return powers(rng, sizes, hard), hard


def test_learned_groups_take_a_round_more_and_report_their_error():
    sites, hard = many(np.random.default_rng(0))
    sketch = fc.collect(sites, SKETCH(groups="learned"), budget())
    layout = sketch.table.layout
    assert sketch.cost.rounds == 2
    assert layout.learned
    assert layout.rows == len(set(layout.groups)) <= plan.MOST_GROUPS
    assert set(layout.groups) == set(range(layout.rows))
    rng = np.random.default_rng(1)
    mix = rng.dirichlet(np.full(40, 0.3))
    cal = sketch.personalise(mix)
    assert "unlike labels in a group" in cal.guarantee
    mixed = mixture(sketch.table, mix)
    variance = counted_variance(sketch.table, mixed, None, (0.1,))
    errors = errors_of(sketch.table, mixed, mix, variance, (0.1,))
    assert errors.groups[0] > 0.002
    assert errors.total[0] >= errors.groups[0]
    even = np.full(40, 1 / 40)  # a target like the records themselves: nothing to be unlike in
    like = errors_of(sketch.table, mixture(sketch.table, even), even, variance, (0.1,))
    assert like.groups[0] < errors.groups[0] / 3
    assert abs(covered(cal, mix, hard)[0] - 0.9) < 5 * errors.total[0]


def test_the_error_of_unlike_labels_is_honest():
    """Groups that throw unlike labels together: the stated error covers what goes wrong.

    No noise to speak of, so that only the groups are at fault; 40 random targets, of which the
    root mean square error is known to about 12 %.
    """
    sites, hard = many(np.random.default_rng(0), (30_000, 30_000), spread=0.8)
    groups = np.arange(40) % 5  # has nothing to do with difficulty
    sketch = fc.collect(sites, SKETCH(groups=groups, bins=64), budget(200.0))
    rng, off, stated = np.random.default_rng(2), [], []
    for _ in range(40):
        mix = rng.dirichlet(np.full(40, 0.5))
        mixed = mixture(sketch.table, mix)
        variance = counted_variance(sketch.table, mixed, None, (0.1,))
        stated.append(errors_of(sketch.table, mixed, mix, variance, (0.1,)).total[0])
        off.append(covered(sketch.personalise(mix), mix, hard)[0] - 0.9)
    real, said = (float(np.sqrt(np.mean(np.square(x)))) for x in (off, stated))
    assert real > 0.01  # otherwise nothing is tested
    assert real <= 1.5 * said


def test_learned_groups_are_of_like_difficulty_and_size(monkeypatch):
    monkeypatch.setattr(reply.noise, "discrete_gaussian", zeros)
    sites, hard = many(np.random.default_rng(0), (40_000, 40_000))
    sketch = fc.collect(sites, SKETCH(groups="learned"), budget())
    rows = np.array(sketch.table.layout.groups)
    within = np.mean([np.log(hard)[rows == r].std() for r in set(rows.tolist())])
    assert within < 0.2 * np.log(hard).std()
    assert np.bincount(rows).max() <= 4  # 40 labels of about equal size in 20 groups


def test_learned_groups_without_any_difference():
    """Labels that are all alike, and labels without records, make groups all the same."""
    rows = learned_groups(np.full((30, 2), 50.0), 5.0, 3000, 20)
    assert sorted(set(rows)) == list(range(max(rows) + 1))
    empty = np.zeros((30, 2))
    empty[0] = 3000
    for known in (3000, None):
        rows = learned_groups(empty, 30.0, known, 20)
        assert len(rows) == 30
        assert sorted(set(rows)) == list(range(max(rows) + 1))


def test_groups_are_learned_only_where_they_pay():
    few = powers(np.random.default_rng(0), [500, 500], np.ones(10))
    assert fc.collect(few, privacy=budget(0.5)).table.layout.groups is None
    crowd = powers(np.random.default_rng(0), [2000, 2000], np.ones(200))
    assert fc.collect(crowd, privacy=budget(1.0)).table.layout.learned
    assert fc.collect(crowd, privacy=budget(1.0)).cost.rounds == 2
    assert fc.collect(crowd, SKETCH(groups=None), budget(1.0)).cost.rounds == 1
    assert fc.collect(crowd).table.layout.groups is None  # without noise


def test_a_sketch_with_learned_groups_can_be_joined_later():
    sites, _ = many(np.random.default_rng(0), (500, 500))
    late, _ = many(np.random.default_rng(1), (500,))
    late = [fc.Site("late", late[0].scores, late[0].labels, n_classes=40)]
    first = fc.collect(sites, SKETCH(groups="learned"), budget())
    second = fc.collect(late, first.method, budget())
    both = first + second
    assert both.table.layout.groups == first.table.layout.groups
    assert both.table.layout.learned  # so that its error is still counted as learned
    assert (second + first).table.layout.learned


def test_rows_of_a_group_have_separate_totals_of_each_label(federation):
    """The divisors of a pooled row are its members' totals, as counted."""
    sites = federation(np.random.default_rng(0), n_classes=4, least=200, most=300)
    sketch = fc.collect(sites, SKETCH(groups=[0, 0, 1, 1]))
    mixed = mixture(sketch.table, np.full(4, 0.25))
    counts = sum(s.calibration_counts for s in sites)
    assert mixed.records.tolist() == counts.tolist()
    assert mixed.totals.tolist() == [counts[:2].sum(), counts[2:].sum()]
