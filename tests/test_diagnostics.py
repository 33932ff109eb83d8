"""Confidence bands of a coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

import fedcover as fc
from fedcover.diagnostics import clopper_pearson, coverage_by


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("n", [1, 2, 9, 100, 1003])
def test_clopper_pearson_equals_scipy(n, confidence):
    for hits in {0, 1, n // 3, n - 1, n}:
        found = clopper_pearson(hits, n, confidence)
        band = binomtest(hits, n).proportion_ci(confidence, method="exact")
        assert (found.low, found.high) == pytest.approx((band.low, band.high), abs=1e-12)
        assert found.value == hits / n
        assert (found.hits, found.n, found.confidence) == (hits, n, confidence)


def test_reads_well():
    assert str(clopper_pearson(9, 10)) == "0.900 [0.555, 0.997] (n=10)"


def test_no_records_say_nothing():
    found = clopper_pearson(0, 0)
    assert (found.low, found.high) == (0, 1)
    assert np.isnan(found.value)


@pytest.mark.parametrize(
    ("hits", "n", "confidence"),
    [(5, 3, 0.9), (-1, 3, 0.9), (1.5, 3, 0.9), (1, -3, 0.9), (1, 3, 0), (1, 3, 1.2), (1, 3, "x")],
)
def test_bad_input_is_refused(hits, n, confidence):
    with pytest.raises(fc.FedcoverError):
        clopper_pearson(hits, n, confidence)


def test_coverage_by_group():
    groups, hit = np.array([3, 1, 3, 3]), np.array([True, False, False, True])
    found = coverage_by(groups, hit)
    assert {g: (c.hits, c.n) for g, c in found.items()} == {1: (0, 1), 3: (2, 3)}
