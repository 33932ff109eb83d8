"""Designs: whole numbers that can be undone, and the noise they are said to have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fedcover.sketch.design import (
    BRANCHES,
    DESIGNS,
    ROOT_SCALE,
    best_design,
    design_matrix,
    longest_column,
    prefix_deviation,
    recovery,
)

import fedcover as fc

from .building import LEVELS, SKETCH, budget

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

SIZES = [2, 3, 4, 5, 7, 16, 17, 33, 64, 65, 100, 257]


@pytest.mark.parametrize("bins", SIZES)
@pytest.mark.parametrize("name", DESIGNS)
def test_designs_are_whole_numbers_that_can_be_undone(name, bins):
    design = design_matrix(name, bins)
    assert design.dtype == np.int64
    assert (design >= 0).all()
    assert design.shape[1] == bins
    assert np.abs(recovery(name, bins) @ design - np.eye(bins)).max() < 1e-8
    columns = np.sqrt((design.astype(float) ** 2).sum(axis=0))
    assert longest_column(name, bins) == columns.max()
    assert not design.flags.writeable


@pytest.mark.parametrize("bins", SIZES)
def test_a_tree_measures_every_bin_once_on_each_level(bins):
    design = design_matrix("tree", bins)
    levels = max(1, math.ceil(math.log(bins, BRANCHES)))
    assert (design.sum(axis=0) == levels).all()
    assert longest_column("tree", bins) == pytest.approx(math.sqrt(levels))
    assert set(np.unique(design)) <= {0, 1}


@pytest.mark.parametrize("bins", [2, 16, 100, 257])
def test_the_root_squared_is_the_prefix_sum(bins):
    root = design_matrix("root", bins) / ROOT_SCALE
    assert np.abs(root @ root - np.tril(np.ones((bins, bins)))).max() < bins / ROOT_SCALE
    # 1, 1/2, 3/8, 5/16, …: the series of 1/√(1-x)
    first = [1.0, 1 / 2, 3 / 8, 5 / 16][:bins]
    assert root[: len(first), 0] == pytest.approx(first, abs=0.5 / ROOT_SCALE)


@pytest.mark.parametrize("bins", [5, 12, 64])
def test_predicted_noise_of_plain_bins_is_that_of_their_sums(bins):
    """k whole bins and a part p of the next have the variance k + p²."""
    place = np.linspace(0.02, 0.4, 20) * bins
    variance = np.floor(place) + (place - np.floor(place)) ** 2
    assert prefix_deviation("flat", bins) == pytest.approx(math.sqrt(variance.mean()))


@pytest.mark.parametrize("name", DESIGNS)
def test_predicted_noise_is_what_noise_does(name):
    """20,000 draws of noise for 20 places: the root mean square is known to 1 %."""
    bins, rng = 24, np.random.default_rng(0)
    measured = rng.normal(size=(20_000, len(design_matrix(name, bins)))) * longest_column(
        name, bins
    )
    masses = measured @ recovery(name, bins).T
    cdf = np.hstack([np.zeros((len(masses), 1)), np.cumsum(masses[:, ::-1], axis=1)])
    places = np.linspace(0.02, 0.4, 20) * bins
    at = [[np.interp(p, np.arange(bins + 1), row) for p in places] for row in cdf[:2000]]
    assert math.sqrt(np.mean(np.square(at))) == pytest.approx(
        prefix_deviation(name, bins), rel=0.05
    )


def test_the_best_design_is_the_one_with_the_least_noise():
    for bins in range(2, 66):
        least = min(prefix_deviation(name, bins) for name in DESIGNS)
        assert prefix_deviation(best_design(bins), bins) == pytest.approx(least, abs=1e-5)
    assert best_design(2) == "flat"  # nothing to gain, and the fewest numbers to send


@pytest.mark.parametrize("least", [5, 300], ids=["few records", "many records"])
@pytest.mark.parametrize("design", DESIGNS)
def test_without_noise_every_design_gives_the_same_thresholds(federation, design, least):
    """A design is about noise. Few records travel as a list of cells, many as a table."""
    sites = federation(np.random.default_rng(3), least=least, most=least + 200)
    plain = fc.collect(sites, SKETCH(bins=16, design="flat"))
    other = fc.collect(sites, SKETCH(bins=16, design=design))
    for site in sites:
        one, two = (s.personalise(site.label_counts, LEVELS).thresholds for s in (plain, other))
        assert np.array_equal(one, two)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_loose_budget_comes_near_the_exact_thresholds_with_every_design(federation, design):
    sites = federation(np.random.default_rng(3), least=800, most=1000)
    exact = fc.collect(sites)
    loose = fc.collect(sites, SKETCH(bins=64, design=design), budget(1e4))
    mix = sum(s.label_counts for s in sites)
    gap = loose.personalise(mix, LEVELS).thresholds - exact.personalise(mix, LEVELS).thresholds
    assert np.abs(gap).max() < 0.02


def test_unknown_designs_and_transforms_are_refused():
    for bad in ({"design": "spiral"}, {"warp": "left"}, {"mode": "brave"}, {"design": 1}):
        with pytest.raises(fc.FedcoverError, match=next(iter(bad))):
            SKETCH(**bad)
