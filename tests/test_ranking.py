"""Masses above and below, and rank: the compiled form gives the same numbers to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedcover as fc
from fedcover import ranking, scores


def by_definition(p):
    q = p.astype(np.float64)
    higher, self = q[:, None, :] > q[:, :, None], np.eye(p.shape[1], dtype=bool)
    above, other = (higher * q[:, None, :]).sum(axis=2), (~higher & ~self) * q[:, None, :]
    return above, other.sum(axis=2), 1 + higher.sum(axis=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_both_forms_follow_the_definition(dtype, data):
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(2, 9)))
    width = 32 if dtype == np.float32 else 64
    entry = st.one_of(st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0]), st.floats(0, 1, width=width))
    p = data.draw(hnp.arrays(dtype, shape, elements=entry))
    plain, compiled = ranking.masses(p, False), ranking.masses(p, True)
    for one, other in zip(plain, compiled, strict=True):
        assert np.array_equal(one, other)
    for one, wanted in zip(plain, by_definition(p), strict=True):
        assert np.allclose(one, wanted, rtol=1e-14, atol=0)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("upper", "lower"), [(True, False), (False, True), (False, False)])
def test_one_side_alone_is_the_same(compiled, upper, lower):
    p = np.random.default_rng(0).dirichlet(np.ones(5), 9)
    both = ranking.masses(p, compiled)
    some = ranking.masses(p, compiled, upper, lower)
    assert np.array_equal(some[0], both[0] if upper else np.empty((0, 5)))
    assert np.array_equal(some[1], both[1] if lower else np.empty((0, 5)))
    assert np.array_equal(some[2], both[2])


@given(data=st.data())
def test_one_label_has_what_it_has_among_all(data):
    entry = st.sampled_from([0.0, 1e-30, 1e-9, 0.25, 0.5, 1.0])
    p = data.draw(hnp.arrays(np.float64, (4, 5), elements=entry))
    rows = ranking.Rows(p)
    for y in range(5):
        one = ranking.Rows(p, np.full(4, y))
        for what in ("own", "above", "below", "rank", "rival"):
            alone, among = getattr(one, what)[:, 0], getattr(rows, what)[:, y]
            assert np.allclose(alone, among, rtol=1e-14, atol=0), what


@pytest.mark.parametrize("score", [scores.APS(), scores.RAPS(), scores.SAPS(), scores.TopK()])
def test_sets_do_not_depend_on_the_size_of_the_input(score, monkeypatch):
    rng = np.random.default_rng(0)
    p, u = rng.dirichlet(np.full(30, 0.2), 50).astype(np.float32), rng.random(50)
    small = score.of_all(p, u=u)
    monkeypatch.setattr(scores, "LARGE", 1)
    assert np.array_equal(score.of_all(p, u=u), small)


def test_a_view_with_strides_is_ranked_right():
    p = np.random.default_rng(0).dirichlet(np.ones(4), 20).T  # not contiguous in rows
    assert np.array_equal(ranking.masses(p.T, True)[2], ranking.masses(p.T, False)[2])
    assert fc.scores.TopK().of_all(p.T).max() == 1.0
