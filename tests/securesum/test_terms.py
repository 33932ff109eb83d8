"""What a run may be about."""

from __future__ import annotations

import numpy as np
import pytest

from fedcover.errors import FedcoverError
from fedcover.securesum import SumSpec
from fedcover.wire import Message
from tests.securesum.driving import over_the_wire


def terms(count=4, **options):
    sites = tuple(f"s{k}" for k in range(count))
    return SumSpec(**({"run": "r", "sites": sites, "shapes": {"x": (3,)}} | options))


@pytest.mark.parametrize(("count", "needed"), [(3, 2), (4, 3), (5, 4), (6, 4), (9, 6), (10, 7)])
def test_the_default_threshold_is_two_thirds(count, needed):
    assert terms(count).threshold == terms(count).needed == needed


@pytest.mark.parametrize("count", range(3, 9))
def test_the_threshold_is_more_than_half(count):
    for threshold in range(1, count + 1):
        if 2 * threshold > count:
            assert terms(count, threshold=threshold).needed == threshold
            continue
        with pytest.raises(FedcoverError, match="a lying server could ask one half"):
            terms(count, threshold=threshold)


@pytest.mark.parametrize("threshold", [0, -1, 5, 3.0, "3", True])
def test_other_thresholds_are_refused(threshold):
    with pytest.raises(FedcoverError, match="threshold"):
        terms(4, threshold=threshold)


@pytest.mark.parametrize("sites", [(), ("a",), ("a", "b"), ("a", "b", "b"), ("a", "b", "c", "a")])
def test_fewer_than_three_different_sites_are_refused(sites):
    with pytest.raises(FedcoverError, match="a sum hides nothing"):
        terms(sites=sites)


def test_too_many_sites_are_refused():
    with pytest.raises(FedcoverError, match="to 100 different sites"):
        terms(101)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\ud800", 7, None])
def test_unprintable_names_are_refused(name):
    with pytest.raises(FedcoverError):
        terms(run=name)
    with pytest.raises(FedcoverError):
        terms(sites=("a", "b", name))


@pytest.mark.parametrize("shapes", [{}, {"x": (0,)}, {"x": (-1,)}, {"x": (2**26,)}])
def test_impossible_shapes_are_refused(shapes):
    with pytest.raises(FedcoverError, match="shapes"):
        terms(shapes=shapes)


def test_the_query_tells_all_of_it():
    question = Message("histogram", {"cuts": np.arange(3.0)}, {"sigma": 2.5})
    one = terms(5, threshold=4, question=question, shapes={"a:b": (2, 0, 3), "c": (), "é": (7,)})
    again = SumSpec.of_query(over_the_wire(one.query()))
    assert again.digest == one.digest
    assert (again.run, again.sites, again.needed, again.count) == ("r", one.sites, 4, 8)
    assert again.shapes == one.shapes


def test_everything_in_the_terms_changes_the_digest():
    others = [
        terms(),
        terms(run="q"),
        terms(5, threshold=3),
        terms(sites=("s1", "s0", "s2", "s3")),
        terms(threshold=4),
        terms(shapes={"x": (4,)}),
        terms(shapes={"y": (3,)}),
        terms(question=Message("sum", numbers={"sigma": 1.0})),
    ]
    assert len({t.digest for t in others}) == len(others)
    assert terms().digest == terms(shapes={"x": [np.int64(3)]}, threshold=3).digest
