"""Positions: exact, increasing, and what a threshold becomes where a float cannot say it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcover.position import HALF, TOP, distances_at, positions, scores_at

EDGES = [0.0, 5e-324, 1e-300, 0.25, np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1), 0.75, 1.0]
unit = st.one_of(st.sampled_from(EDGES), st.floats(0, 1), st.floats(0, 1e-12))
below_half = st.one_of(st.sampled_from(EDGES[:6]), st.floats(0, 0.5), st.floats(0, 1e-12))


@given(st.lists(unit, min_size=2, max_size=20))
def test_positions_are_in_the_order_of_scores(values):
    v = np.array(values)
    at = positions(v)
    assert at.dtype == np.int64
    assert ((at >= 0) & (at <= TOP)).all()
    assert np.array_equal(at[:, None] < at, v[:, None] < v)
    assert np.array_equal(scores_at(at), v)


@given(st.lists(below_half, min_size=2, max_size=20))
def test_positions_are_in_the_order_of_distances(values):
    d = np.array(values)
    at = positions(1 - d, d)
    clear = d < 0.25  # from there on, 1 - d is beyond one half for sure
    assert np.array_equal(distances_at(at)[clear], d[clear])
    assert np.array_equal((at[:, None] < at)[clear][:, clear], (d[:, None] > d)[clear][:, clear])


@given(st.integers(0, TOP))
def test_every_position_has_one_score_and_one_distance(at):
    v, d = scores_at(at), distances_at(at)
    assert positions(v, d) == at
    assert (v > 0.5) == (at > HALF)


@given(below_half.filter(lambda d: 1 - d > 0.5))
def test_thresholds_are_rounded_up(d):
    at = positions(1 - d, d)
    v, exact = float(scores_at(at)), 1 - Fraction(d)
    assert np.nextafter(v, 0) < exact <= v


def test_negative_zero_is_zero():
    assert positions(-0.0) == 0
    assert positions(1.0, -0.0) == TOP
