"""Groups of sites with similar label mixes."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.errors import FedcoverError
from fedcover.labelshift import group_sites


def site(name, counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    return fc.Site(name, np.full(len(labels), 0.5), labels, n_classes=len(counts))


SITES = [
    site("a", [90, 10, 0]), site("b", [5, 5, 90]), site("c", [17, 3, 0]), site("d", [1, 0, 9]),
]  # fmt: skip


def test_similar_sites_share_a_group_named_after_the_largest():
    assert group_sites(SITES, 2) == {"like a": ["a", "c"], "like b": ["b", "d"]}


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_every_site_is_in_exactly_one_group(groups):
    found = group_sites(SITES, groups)
    assert len(found) == groups
    assert sorted(name for group in found.values() for name in group) == ["a", "b", "c", "d"]


def test_sites_that_are_alike_are_not_torn_apart():
    alike = [site(n, [4, 6]) for n in "abc"]
    assert group_sites(alike, 2) == {"like a": ["a", "b", "c"]}


def test_groups_are_targets():
    found = fc.calibrate(SITES, targets=group_sites(SITES, 2), method=fc.methods.EstimatedWeights())
    assert set(found) == {"like a", "like b"}


@pytest.mark.parametrize(
    ("sites", "groups"), [(SITES, 0), (SITES, 5), (SITES, 1.0), ([], 1), ([1, 2, 3], 2), (None, 1)]
)
def test_bad_input_is_refused(sites, groups):
    with pytest.raises(FedcoverError):
        group_sites(sites, groups)
