"""Labels that share a row: given by name or number; the error says what that costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.methods.sketch.curve import Mixture
from fedcover.methods.sketch.personalise import LabelMix, Personal
from fedcover.methods.sketch.table import numbered

from .building import SKETCH, budget, covered, even, powers

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


def test_rows_hold_the_labels_of_their_group(federation):
    sites = federation(np.random.default_rng(0), n_classes=4, least=30)
    groups = ["x", "y", "x", "z"]
    single = fc.collect(sites, SKETCH(bins=even(8))).table
    pooled = fc.collect(sites, SKETCH(bins=even(8), groups=groups)).table
    rows = np.array([0, 1, 0, 2])
    for r in range(3):
        assert np.array_equal(pooled.table[r], single.table[rows == r].sum(axis=0))
    assert np.array_equal(pooled.labels, single.labels)  # still one total for every label


def test_without_noise_groups_of_like_labels_change_nothing_much():
    hard = np.repeat([0.6, 1.0, 1.8], 4)
    sites = powers(np.random.default_rng(0), [4000, 4000], hard)
    mix = np.arange(1, 13.0)
    pooled = fc.collect(sites, SKETCH(groups=np.repeat([0, 1, 2], 4)))
    single = fc.collect(sites)
    gap = pooled.personalise(mix).thresholds - single.personalise(mix).thresholds
    assert np.abs(gap).max() < 0.03
    assert not np.array_equal(pooled.table.table, single.table.table)


def test_the_error_of_unlike_labels_is_honest():
    """Groups that throw unlike labels together: the stated error covers what goes wrong.

    No noise to speak of, so that only the groups are at fault; 40 random targets, of which the
    root mean square error is known to about 12 %.
    """
    hard = np.exp(np.random.default_rng(5).normal(0, 0.8, 40))
    sites = powers(np.random.default_rng(0), [30_000, 30_000], hard)
    groups = np.arange(40) % 5  # has nothing to do with difficulty
    sketch = fc.collect(sites, SKETCH(groups=groups), budget(200.0))
    rng, off, stated = np.random.default_rng(2), [], []
    for _ in range(40):
        mix = rng.dirichlet(np.full(40, 0.5))
        cal = sketch.personalise(mix)
        assert "unlike labels in a group" in cal.guarantee
        stated.append(cal.coverage_error[0])
        off.append(covered(cal, mix, hard)[0] - 0.9)
    real, said = (float(np.sqrt(np.mean(np.square(x)))) for x in (off, stated))
    assert real > 0.01  # otherwise nothing is tested
    assert real <= 1.5 * said


def test_a_target_like_the_records_has_nothing_to_be_unlike_in():
    sites = powers(np.random.default_rng(0), [4000, 4000], np.linspace(0.5, 2, 12))
    table = fc.collect(sites, SKETCH(groups=np.arange(12) % 3)).table
    uneven = np.append(np.full(11, 0.02), 0.78)
    wide, none = (
        Personal(table, LabelMix(mix), (0.1,)).errors for mix in (uneven, table.labels / 8000)
    )
    assert none.groups[0] == pytest.approx(0, abs=1e-9)
    assert wide.groups[0] > 0.1
    assert wide.total[0] >= wide.groups[0]
    single = Personal(fc.collect(sites).table, LabelMix(uneven), (0.1,)).errors
    assert single.groups[0] == 0


def test_rows_of_a_group_have_separate_totals_of_each_label(federation):
    """The divisors of a pooled row are its members' totals, as counted."""
    sites = federation(np.random.default_rng(0), n_classes=4, least=200, most=300)
    sketch = fc.collect(sites, SKETCH(groups=[0, 0, 1, 1]))
    mixed = Mixture(sketch.table, np.full(4, 0.25))
    counts = sum(s.calibration_counts for s in sites)
    assert mixed.records.tolist() == counts.tolist()
    assert mixed.totals.tolist() == [counts[:2].sum(), counts[2:].sum()]
