"""Mass above and rank: the compiled form gives the same numbers to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedcover as fc
from fedcover import ranking, scores


def by_definition(p):
    higher = p[:, None, :] > p[:, :, None]
    return (higher * p[:, None, :].astype(np.float64)).sum(axis=2), 1 + higher.sum(axis=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_both_forms_follow_the_definition(dtype, data):
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(2, 9)))
    width = 32 if dtype == np.float32 else 64
    entry = st.one_of(st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0]), st.floats(0, 1, width=width))
    p = data.draw(hnp.arrays(dtype, shape, elements=entry))
    plain, compiled = ranking.above_all(p, False), ranking.above_all(p, True)
    mass, rank = by_definition(p)
    assert np.array_equal(plain[0], compiled[0])
    assert np.array_equal(plain[1], compiled[1])
    assert np.allclose(plain[0], mass, rtol=0, atol=1e-12)
    assert np.array_equal(plain[1], rank)


@pytest.mark.parametrize("score", [scores.APS(), scores.RAPS(), scores.SAPS(), scores.TopK()])
def test_sets_do_not_depend_on_the_size_of_the_input(score, monkeypatch):
    rng = np.random.default_rng(0)
    p, u = rng.dirichlet(np.full(30, 0.2), 50).astype(np.float32), rng.random(50)
    small = score.of_all(p, u=u)
    monkeypatch.setattr(scores, "LARGE", 1)
    assert np.array_equal(score.of_all(p, u=u), small)


def test_a_view_with_strides_is_ranked_right():
    p = np.random.default_rng(0).dirichlet(np.ones(4), 20).T  # not contiguous in rows
    assert np.array_equal(ranking.above_all(p.T, True)[1], ranking.above_all(p.T, False)[1])
    assert fc.scores.TopK().of_all(p.T).max() == 1.0
