"""Bins: transforms that invert, edges that are where they are said to be."""

from __future__ import annotations

import numpy as np
import pytest
from fedcover.sketch.bins import (
    MOST_BINS,
    WARPS,
    checked_edges,
    even_edges,
    from_even,
    to_even,
    warp_for,
)
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedcover as fc
from fedcover.protocols.base import Task
from fedcover.sketch import plan

from .building import SKETCH, budget

units = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1))


@given(units, st.sampled_from(WARPS))
def test_transforms_invert_and_grow(values, warp):
    values = np.sort(values)
    there = to_even(values, warp)
    assert ((there >= 0) & (there <= 1)).all()
    assert (np.diff(there) >= 0).all()
    assert np.abs(from_even(there, warp) - values).max() <= 1e-12
    back = from_even(values, warp)
    assert ((back >= 0) & (back <= 1)).all()
    assert (np.diff(back) >= 0).all()
    assert np.abs(to_even(back, warp) - values).max() <= 1e-9


@pytest.mark.parametrize("warp", WARPS)
def test_transforms_keep_the_ends(warp):
    ends = np.array([0.0, 1.0])
    assert np.array_equal(to_even(ends, warp), ends)
    assert np.abs(from_even(ends, warp) - ends).max() <= 1e-12


@given(st.integers(2, MOST_BINS), st.sampled_from(WARPS))
def test_edges_run_from_0_to_1_and_are_even_in_the_transform(bins, warp):
    edges = even_edges(bins, warp)
    assert (edges[0], edges[-1], len(edges)) == (0.0, 1.0, bins + 1)
    assert (np.diff(edges) > 0).all()
    assert np.abs(np.diff(to_even(edges, warp)) * bins - 1).max() <= 1e-6
    assert checked_edges(edges) == tuple(edges.tolist())


def test_transforms_put_bins_where_scores_crowd():
    upper, lower = even_edges(20, "upper"), even_edges(20, "lower")
    assert (upper > 0.99).sum() >= 10
    assert (lower < 0.1).sum() >= 10


SUITS = {
    "even": [None, fc.scores.APS(), fc.scores.RAPS(), fc.scores.SAPS(), fc.scores.APS(u=0.0)],
    "upper": [fc.scores.APS(u=1.0), fc.scores.APS(u=0.5)],
    "lower": [fc.scores.LAC(), fc.scores.Margin()],
    "lower:0.025": [fc.scores.TopK()],
}


@pytest.mark.parametrize(("warp", "score"), [(w, s) for w in SUITS for s in SUITS[w]], ids=str)
def test_the_score_chooses_the_transform(warp, score):
    assert warp_for(score, 4) == warp
    task = Task(("a", "b"), 4, privacy=budget(), score=score, sizes=(500, 500))
    layout, _ = SKETCH(bins=8)._layout(task)
    assert layout.warp == warp
    assert np.array_equal(layout.edges, even_edges(8, warp))


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


@pytest.mark.parametrize("bins", [1, 0, -3, MOST_BINS + 1])
def test_a_number_of_bins_that_cannot_be_is_refused(bins):
    with pytest.raises(fc.FedcoverError, match="bins"):
        SKETCH(bins=bins)


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("privacy", [None, budget()], ids=["exact", "private"])
def test_a_number_of_bins_is_taken_whatever_its_type(federation, kind, privacy):
    sites = federation(np.random.default_rng(0), least=20)
    assert fc.collect(sites, SKETCH(bins=kind(7)), privacy).table.layout.bins == 7


def test_edges_given_are_edges_used(federation):
    sites = federation(np.random.default_rng(0), least=20)
    edges = (0.0, 0.3, 0.9, 1.0)
    for privacy in (None, budget()):
        layout = fc.collect(sites, SKETCH(bins=list(edges)), privacy).table.layout
        assert layout.edges == edges
        assert layout.even.tolist() == pytest.approx(list(edges))


@given(st.integers(2, 10**6))
@example(65_536)
def test_bins_without_noise_are_finer_than_a_thousandth_while_the_table_is_small(rows):
    edges = np.array(plan.exact_edges(rows))
    widest = np.diff(edges).max()
    assert widest < 1e-3 or rows > 50_000
    assert (edges[0], edges[-1]) == (0.0, 1.0)
    assert rows * (len(edges) - 1) <= plan.MOST_CELLS  # what `SketchResult.load` takes


def test_more_noise_means_fewer_bins():
    counts = [len(plan.noisy_edges(noise, "even", ())) - 1 for noise in np.geomspace(1e-5, 1, 20)]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (plan.MOST_NOISY_BINS, plan.FEWEST_BINS)


@pytest.mark.parametrize("warp", WARPS)
def test_guaranteed_has_an_edge_between_each_expected_quantile_and_1(warp):
    edges = np.array(plan.noisy_edges(0.05, warp, (0.1, 0.02)))
    even = to_even(edges, warp)
    for alpha in (0.1, 0.02):
        assert np.abs(even - (1 - alpha / 2)).min() < 1e-9
    assert (np.diff(edges) > 0).all()
