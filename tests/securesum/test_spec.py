"""What a run may be about."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fedcover.engines.base import usual_survivors
from fedcover.errors import FedcoverError
from fedcover.securesum import SumSpec
from fedcover.wire import Message
from tests.securesum.driving import over_the_wire


def sum_spec(count=4, **options):
    sites = tuple(f"s{k}" for k in range(count))
    return SumSpec(**({"run": "r", "sites": sites, "shapes": {"x": (3,)}} | options))


@pytest.mark.parametrize(
    ("count", "against", "threshold"),
    [(3, 0, 2), (3, 1, 3), (4, 1, 3), (5, 1, 4), (6, 1, 4), (9, 1, 6), (10, 1, 7), (10, 5, 8),
     (10, 9, 10), (100, 1, 67)],
)  # fmt: skip
def test_the_default_threshold_is_two_thirds_or_what_conspirators_ask_for(
    count, against, threshold
):
    assert sum_spec(count, conspirators=against).threshold == threshold
    assert usual_survivors(count, against) == threshold


@pytest.mark.parametrize("count", range(3, 9))
def test_twice_the_threshold_is_more_than_all_sites_and_the_conspirators(count):
    for against, threshold in product(range(count), range(1, count + 1)):
        given = {"threshold": threshold, "conspirators": against}
        if 2 * threshold > count + against:
            assert sum_spec(count, **given).threshold == threshold
            continue
        with pytest.raises(FedcoverError, match=f"{(count + against) // 2 + 1} to {count}"):
            sum_spec(count, **given)


@pytest.mark.parametrize("conspirators", [-1, 4, 1.0, "1", True, None])
def test_other_numbers_of_conspirators_are_refused(conspirators):
    with pytest.raises(FedcoverError, match="conspirators"):
        sum_spec(4, conspirators=conspirators)


@pytest.mark.parametrize("threshold", [0, -1, 5, 3.0, "3", True])
def test_other_thresholds_are_refused(threshold):
    with pytest.raises(FedcoverError, match="threshold"):
        sum_spec(4, threshold=threshold)


@pytest.mark.parametrize("sites", [(), ("a",), ("a", "b"), ("a", "b", "b"), ("a", "b", "c", "a")])
def test_fewer_than_three_different_sites_are_refused(sites):
    with pytest.raises(FedcoverError, match="3 to 100 different sites"):
        sum_spec(sites=sites)


def test_too_many_sites_are_refused():
    with pytest.raises(FedcoverError, match="to 100 different sites"):
        sum_spec(101)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\ud800", 7, None])
def test_unprintable_names_are_refused(name):
    with pytest.raises(FedcoverError):
        sum_spec(run=name)
    with pytest.raises(FedcoverError):
        sum_spec(sites=("a", "b", name))


@pytest.mark.parametrize("shapes", [{}, {"x": (0,)}, {"x": (-1,)}, {"x": (2**26,)}])
def test_impossible_shapes_are_refused(shapes):
    with pytest.raises(FedcoverError, match="shapes"):
        sum_spec(shapes=shapes)


def test_the_invitation_tells_all_of_it():
    query = Message("histogram", {"cuts": np.arange(3.0)}, {"sigma": 2.5})
    one = sum_spec(
        5, threshold=4, conspirators=2, query=query, shapes={"a:b": (2, 0, 3), "c": (), "é": (7,)}
    )
    again = SumSpec.of_message(over_the_wire(one.to_message()))
    assert again.digest == one.digest
    assert again.conspirators == one.conspirators == 2
    assert (again.run, again.sites, again.threshold, again.count) == ("r", one.sites, 4, 8)
    assert again.shapes == one.shapes


def test_everything_in_it_changes_the_digest():
    others = [
        sum_spec(),
        sum_spec(run="q"),
        sum_spec(5, threshold=4),
        sum_spec(conspirators=0),
        sum_spec(sites=("s1", "s0", "s2", "s3")),
        sum_spec(threshold=4),
        sum_spec(shapes={"x": (4,)}),
        sum_spec(shapes={"y": (3,)}),
        sum_spec(query=Message("sum", numbers={"sigma": 1.0})),
    ]
    assert len({t.digest for t in others}) == len(others)
    assert sum_spec().digest == sum_spec(shapes={"x": [np.int64(3)]}, threshold=3).digest
