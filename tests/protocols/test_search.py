"""The search's grid and schedule."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.errors import FedcoverError
from fedcover.protocols.search import schedule


@pytest.mark.parametrize("gamma", [1.0, 0.6, 0.5, 0.1, 1e-3, 1e-6, 2.0**-20, 1e-12])
@pytest.mark.parametrize("rounds", [3, 5, 200])
def test_schedule_reaches_gamma_within_the_rounds(gamma, rounds):
    bits = schedule(gamma, rounds)
    assert len(bits) <= rounds
    assert min(bits) >= 1
    assert 2.0 ** -sum(bits) <= gamma
    assert sum(bits) == 1 or 2.0 ** -(sum(bits) - 1) > gamma  # and no finer than asked for


def test_schedule_refuses_giant_rounds():
    with pytest.raises(FedcoverError, match="at least 2 rounds"):
        schedule(1e-6, 1)


def test_default_takes_a_handful_of_rounds():
    assert schedule(1e-6, 200) == [4] * 5


@pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")
def test_query_points_are_exact_binary_fractions(spy, federation):
    method = spy(fc.methods.DPFedCP())
    fc.calibrate(federation(np.random.default_rng(0)), method=method)
    seen = [q.arrays["points"] for _, q, _ in method.heard if q.kind == "mass"]
    for points in seen:
        assert np.array_equal(points * 2**20, np.round(points * 2**20))
        assert ((points >= 0) & (points <= 1)).all()


@pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")
def test_labels_in_one_bracket_share_their_query_points(spy):
    """1000 labels with one weight ask no more than one label does."""
    rng = np.random.default_rng(0)
    points = []
    for n_classes in (2, 1000):
        labels = np.arange(2000) % n_classes
        sites = [fc.Site("a", rng.random(2000), labels, n_classes=n_classes)]
        method = spy(fc.methods.DPFedCP())
        fc.calibrate(sites, method=method)
        points.append([len(q.arrays["points"]) for _, q, _ in method.heard if q.kind == "mass"])
    assert points[0] == points[1] == [17, 15, 15, 15, 15]


def test_answer_counts_weight_up_to_and_including_a_point():
    site = fc.Site("a", [0.25, 0.5, 0.5, 1.0], [0, 1, 0, 1], n_classes=2)
    from fedcover.protocols.base import Message
    from fedcover.protocols.search import answer

    arrays = {
        "ratios": np.array([[1.0, 10.0], [0.0, 1.0]]),
        "points": np.array([0.0, 0.25, 0.5, 1.0, 0.49, 0.5]),
        "ends": np.array([0, 4, 6]),
    }
    reply = answer(Message("mass", arrays, {"size": 4, "seed": 0}), site)
    assert reply.arrays["mass"].tolist() == [0, 1, 12, 22, 0, 1]
