"""The demo's federation: mixes as stated, and no record where it must not be."""

import numpy as np
import pytest
from scipy.stats import chisquare

from fedcover.experiments.demo import data

pytestmark = pytest.mark.xdist_group("demo-data")


@pytest.fixture(scope="module")
def fed():
    return data.federation(0)


def test_hospitals_are_five_with_full_mixes_and_one_small():
    assert len({h.name for h in data.HOSPITALS}) == 5
    for h in data.HOSPITALS:
        assert len(h.mix) == 10
        assert sum(h.mix) == 100
        assert h.prior.sum() == pytest.approx(1)
    assert min(data.HOSPITALS, key=lambda h: h.size) == data.SMALL
    assert 40 <= data.SMALL.size <= 50


def test_model_is_modest_and_its_training_records_are_gone(fed):
    assert fed.n_training == sum(data.TRAINING_COUNTS)
    assert len(fed.labels) == 1797 - fed.n_training
    assert fed.probs.shape == (len(fed.labels), 10)
    assert 0.5 < fed.accuracy < 0.9


def test_calibration_and_test_share_no_record(fed):
    for r in range(20):
        drawn = data.split(fed, np.random.default_rng(r))
        calibration = np.concatenate(drawn.calibration)
        assert len(np.unique(calibration)) == len(calibration), "a record is at two hospitals"
        for h, mine, test in zip(fed.hospitals, drawn.calibration, drawn.test, strict=True):
            assert len(mine) == h.size
            assert len(np.unique(test)) == len(test) == data.TEST_SIZE
            assert not np.intersect1d(test, calibration).size


def test_labels_follow_the_mixes(fed):
    """20 chi-square tests at 1e-5 each: a false alarm once in 10,000 seeds."""
    counts = np.zeros((2, len(fed.hospitals), 10))
    rng = np.random.default_rng(0)
    for _ in range(60):
        drawn = data.split(fed, rng)
        for part, sites in enumerate((drawn.calibration, drawn.test)):
            for s, rows in enumerate(sites):
                counts[part, s] += np.bincount(fed.labels[rows], minlength=10)
    for part in counts:
        for h, seen in zip(fed.hospitals, part, strict=True):
            assert chisquare(seen, h.prior * seen.sum()).pvalue > 1e-5


def test_same_seed_same_federation(fed):
    again = data.federation(0)
    np.testing.assert_array_equal(fed.probs, again.probs)
    one, two = (data.split(fed, np.random.default_rng(3)) for _ in range(2))
    for a, b in zip(one.calibration + one.test, two.calibration + two.test, strict=True):
        np.testing.assert_array_equal(a, b)
