"""The random u of a record: uniform, and the same in whatever batch the record comes."""

import numpy as np
import pytest
from scipy import stats

import fedcover as fc
from fedcover.scores import row_uniforms


def rows(n, c=5, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(c), n).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_over_rows_over_keys_and_over_equal_rows(dtype):
    """Kolmogorov-Smirnov tests, false alarms 10⁻⁶ each."""
    p = rows(20_000, dtype=dtype)
    over_rows = row_uniforms(p, np.random.default_rng(1))
    over_keys = [row_uniforms(p[:1], np.random.default_rng(k))[0] for k in range(2000)]
    equal = row_uniforms(np.repeat(p[:2], 5000, axis=0), np.random.default_rng(1))
    for u in (over_rows, over_keys, equal):
        assert stats.kstest(u, "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(over_rows, p[:, 0])[0, 1]) < 0.04  # five standard errors


def test_independent_of_batches_and_order():
    p = rows(300)
    p[100] = p[7]  # a repeated row must not disturb the others
    whole = row_uniforms(p, np.random.default_rng(3))
    one_by_one = np.concatenate([row_uniforms(r[None], np.random.default_rng(3)) for r in p])
    others = np.arange(300) != 100
    assert np.array_equal(whole[others], one_by_one[others])
    assert whole[100] != whole[7]
    order = np.random.default_rng(0).permutation(300)
    shuffled = row_uniforms(p[order], np.random.default_rng(3))
    assert set(shuffled) == set(whole)


def test_one_record_at_a_time_with_one_seed_covers_as_a_batch_does():
    """A serving loop with a fixed seed must not give every record the same u."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.6] * 4, 4000)
    y = np.array([rng.choice(4, p=row) for row in p])
    site = fc.Site.from_probabilities("a", p[:2000], y[:2000], seed=0)
    cal = fc.calibrate([site], alpha=0.2, method=fc.methods.Local())["a"]
    batch = cal.predict_set(p[2000:], seed=0).mask
    single = np.concatenate([cal.predict_set(r[None], seed=0).mask for r in p[2000:2400]])
    assert np.array_equal(batch[:400], single)
    covered = batch[np.arange(2000), y[2000:]].mean()
    assert abs(covered - 0.8) < 0.07  # five standard errors of calibration and test
