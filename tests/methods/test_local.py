"""Unweighted Local: split conformal prediction at one site."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc

Local = fc.methods.Local


def test_threshold_is_the_textbook_rank():
    """⌈(1-α)(n+1)⌉-th smallest score: rank 9 of 10 at α = .2, n = 10."""
    scores = np.random.default_rng(0).permutation(np.arange(1, 11) / 20)
    site = fc.Site("a", scores, np.zeros(10, int), n_classes=3)
    other = fc.Site("b", np.ones(50), np.zeros(50, int), n_classes=3)
    cals = fc.calibrate([site, other], alpha=[0.2, 0.5], method=Local())
    assert cals["a"].thresholds.tolist() == [[0.45] * 3, [0.3] * 3]
    assert cals["a"].n_records == 10
    assert cals["b"].thresholds.tolist() == [[1.0] * 3] * 2


@pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")
def test_sends_nothing(spy, federation):
    method = spy(Local())
    cals = fc.calibrate(federation(np.random.default_rng(0)), method=method)
    assert method.heard == []
    for cal in cals.values():
        assert (cal.cost.rounds, cal.cost.bytes_up, cal.cost.bytes_down) == (0, 0, 0)


@pytest.mark.parametrize("targets", [{"both": ["s0", "s1"]}, {"x": [1, 1, 1, 1]}])
def test_serves_single_sites_only(federation, targets):
    with pytest.raises(fc.FedcoverError, match="Local"):
        fc.calibrate(federation(np.random.default_rng(0)), method=Local(), targets=targets)
