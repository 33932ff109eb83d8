"""Bins: as many as asked for, in order, fine at both ends and in the middle."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcover as fc
from fedcover.methods.base import Task
from fedcover.methods.sketch import table
from fedcover.methods.sketch.table import (
    EXACT_BINS,
    FEWEST_BINS,
    MOST_BINS,
    MOST_CELLS,
    NOISY_BINS,
    are_standard,
    bins_of,
    checked_cuts,
    middles,
    standard_cuts,
    upper_edges,
)
from fedcover.position import TOP, distances_at, positions, scores_at

from .building import SKETCH, budget

DIGESTS = {
    64: "7bd579b04840f800",
    512: "cea3babad5ad1782",
    1840: "68e704fadce1520c",
    4096: "b905c593610e6942",
}


@pytest.mark.slow
def test_every_number_of_bins_is_kept_exactly_and_edges_grow():
    """All of them, as anybody may ask for any."""
    for bins in range(FEWEST_BINS, MOST_BINS + 1):
        cuts = np.array(table.standard_cuts.__wrapped__(bins))
        assert len(cuts) == bins - 1
        assert (np.diff(cuts) > 0).all()
        assert cuts[0] > 0
        assert cuts[-1] < TOP


@pytest.mark.parametrize("bins", [FEWEST_BINS, 300, NOISY_BINS, EXACT_BINS])
def test_the_grid_is_the_same_from_both_ends(bins):
    """What is resolved near 1 is resolved near 0, up to the last bits of a distance."""
    cuts = np.array(standard_cuts(bins))
    assert np.abs(cuts - (TOP - cuts[::-1])).max() <= 512  # of 2⁵² that double a distance


@pytest.mark.parametrize("bins", [NOISY_BINS, EXACT_BINS])
def test_both_ends_are_resolved_to_the_smallest_number(bins):
    """Next to an end, bins are narrow in the logarithm of the distance to it."""
    cuts = np.array(standard_cuts(bins))
    for distance in (distances_at(cuts)[::-1], scores_at(cuts)):
        assert distance[0] == 5e-324
        near = np.log(distance[distance < 0.0025])
        width = np.diff(near)
        for least, widest in ((-36, 0.14), (-110, 1.01), (-746, 10.1)):
            assert width[near[:-1] >= least].max() <= widest
    assert bins_of(positions([1.0, 0.0]), cuts).tolist() == [0, len(cuts)]
    middle = np.diff(scores_at(cuts))
    assert middle.max() <= 1.3e-3


@pytest.mark.parametrize(
    "edges", [(0, 0.3, 0.9, 1), (0, 1e-300, 1 - 2**-53, 1), np.linspace(0, 1, 9)]
)
def test_a_bin_holds_its_upper_edge(edges):
    cuts = np.array(checked_cuts(edges))
    assert np.array_equal(scores_at(cuts), np.array(edges)[1:-1])
    at = positions(np.array(edges)[1:])[::-1]
    assert np.array_equal(upper_edges(cuts), at)
    assert bins_of(at, cuts).tolist() == list(range(len(edges) - 1))
    just_above = at[1:] + 1
    assert bins_of(just_above, cuts).tolist() == list(range(len(edges) - 2))
    inside = middles(cuts)
    assert bins_of(inside, cuts).tolist() == list(range(len(edges) - 1))


@given(st.lists(st.integers(0, TOP), min_size=1, max_size=50), st.integers(64, 200))
def test_every_position_is_in_the_bin_it_is_said_to_be(at, bins):
    cuts = np.array(standard_cuts(bins))
    at, upper = np.array(at), upper_edges(cuts)
    lower = np.append(upper[1:], -1)
    i = bins_of(at, cuts)
    assert ((lower[i] < at) & (at <= upper[i])).all()


def test_distances_known_better_than_scores_find_their_bin():
    """A score of 1 - 10⁻²⁰ is 1 as a float; its distance is not lost."""
    cuts = np.array(standard_cuts(NOISY_BINS))
    tails = np.array([1e-18, 1e-20, 1e-40, 1e-80])
    site = fc.Site("s", np.ones(4), [0, 0, 0, 0], n_classes=2, distances=tails)
    found = bins_of(site.positions, cuts)
    assert len(set(found.tolist())) == 4
    assert (distances_at(upper_edges(cuts)[found]) <= tails).all()
    assert bins_of(positions([1.0]), cuts)[0] == 0


NOT_EDGES = {
    "falling": [0, 0.5, 0.4, 1],
    "repeated": [0, 0.5, 0.5, 1],
    "not from 0": [0.1, 0.5, 1],
    "not to 1": [0, 0.5, 0.9],
    "one bin": [0, 1],
    "NaN": [0, float("nan"), 1],
    "text": ["0", "a", "1"],
    "table": [[0, 0.5, 1]],
    "none": [],
    "too many": np.linspace(0, 1, MOST_BINS + 2),
    "a truth": True,
    "a number": 0.5,
    "a word": "many",
}


@pytest.mark.parametrize("bins", NOT_EDGES.values(), ids=NOT_EDGES.keys())
def test_what_is_no_list_of_edges_is_refused(bins):
    with pytest.raises(fc.FedcoverError):
        SKETCH(bins=bins)


@pytest.mark.parametrize("bins", [1, 0, -3, FEWEST_BINS - 1, MOST_BINS + 1])
def test_a_number_of_bins_that_cannot_be_is_refused(bins):
    with pytest.raises(fc.FedcoverError, match="bins"):
        SKETCH(bins=bins)


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("privacy", [None, budget()], ids=["exact", "private"])
def test_a_number_of_bins_is_taken_whatever_its_type(kind, privacy):
    task = Task(("a", "b"), 4, privacy=privacy, sizes=(500, 500))
    assert SKETCH(bins=kind(70)).layout(task).cuts == standard_cuts(70)


def test_edges_given_are_edges_used(federation):
    sites = federation(np.random.default_rng(0), least=200, most=300)
    edges = (0.0, 0.3, 0.9, 1.0)
    for privacy in (None, budget()):
        layout = fc.collect(sites, SKETCH(bins=list(edges)), privacy).table.layout
        assert scores_at(layout.cut_array).tolist() == [0.3, 0.9]


@pytest.mark.parametrize("classes", [2, 10, 1000, 16_384, 100_000, 1_000_000])
@pytest.mark.parametrize("privacy", [None, budget()], ids=["exact", "private"])
def test_tables_of_many_labels_keep_to_what_a_site_answers(classes, privacy):
    """Fewer bins where rows are many; never more cells than the limit."""
    layout = SKETCH().layout(Task(("a", "b"), classes, privacy=privacy))
    usual = EXACT_BINS if privacy is None else NOISY_BINS
    assert layout.rows * layout.bins <= MOST_CELLS
    assert layout.bins == min(usual, max(FEWEST_BINS, MOST_CELLS // classes))
    assert layout.factored == (privacy is not None)


def test_cuts_are_the_same_on_every_processor():
    """The digests of tables made with exact arithmetic; a processor's e^x differs in last bits."""
    digests = {
        bins: hashlib.sha256(np.array(standard_cuts(bins), "<i8").tobytes()).hexdigest()[:16]
        for bins in (64, 512, 1840, 4096)
    }
    assert digests == DIGESTS


def test_a_sketch_whose_cuts_another_processor_made_is_personalised():
    """Version 0.1 put them up to a position away; as edges they would fall together near 1."""
    rng = np.random.default_rng(0)
    sites = [fc.Site(n, rng.random(300), rng.integers(0, 3, 300), n_classes=3) for n in "ab"]
    sketch = fc.collect(sites)
    cuts = sketch.table.layout.cuts
    moved = tuple(c + (1 if k % 40 == 7 else 0) for k, c in enumerate(cuts))
    layout = replace(sketch.table.layout, cuts=moved)
    other = replace(sketch, table=replace(sketch.table, layout=layout))
    assert other.method == sketch.method == fc.methods.Sketch(bins=4096)
    found = other.personalise(sites[0], 0.1)
    wanted = sketch.personalise(sites[0], 0.1)
    assert np.abs(found.thresholds - wanted.thresholds).max() < 1e-15
    far = replace(layout, cuts=(*cuts[:-1], cuts[-1] - 9))
    assert not are_standard(far.cuts)
