"""The search's points and rounds."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message
from fedcover.methods.dp_fedcp.search import FIRST, answer, bits_per_round, most_rounds
from fedcover.position import TOP, distances_at, positions, scores_at

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def one_site(scores, labels=None, **more):
    labels = np.arange(len(scores)) % 2 if labels is None else labels
    return [fc.Site("a", scores, labels, n_classes=1 + max(labels.max(), 1), **more)]


def asked(method):
    return [q.arrays["points"] for _, q, _ in method.heard if q.kind == "mass"]


@pytest.mark.parametrize("gamma", [1.0, 0.6, 0.5, 0.1, 1e-3, 1e-6, 2.0**-20, 1e-12])
@pytest.mark.parametrize("rounds", [4, 5, 200])
def test_bits_reach_gamma_within_the_rounds(gamma, rounds):
    bits = bits_per_round(gamma, rounds)
    assert 2.0 ** -(bits * (rounds - 1)) <= gamma
    assert 1 < most_rounds(gamma, rounds) <= rounds


def test_giant_rounds_are_refused():
    with pytest.raises(FedcoverError, match="at least 3 rounds"):
        bits_per_round(1e-6, 1)
    with pytest.raises(FedcoverError, match="at least 3 rounds"):
        bits_per_round(1e-6, 2)


def test_the_first_points_are_even_in_the_middle_and_powers_of_two_at_the_ends():
    assert FIRST[0] == 0
    assert FIRST[-1] == TOP
    assert np.array_equal(FIRST, TOP - FIRST[::-1])
    assert np.isin(positions(np.arange(17) / 16), FIRST).all()
    assert np.diff(scores_at(FIRST)).max() == 1 / 16


def test_labels_in_one_bracket_share_their_query_points(spy):
    """1000 labels with one weight ask no more than one label does; five rounds are enough."""
    rng = np.random.default_rng(0)
    points = []
    for n_classes in (2, 1000):
        labels = np.arange(2000) % n_classes
        method = spy(fc.methods.DPFedCP())
        fc.calibrate(one_site(rng.random(2000), labels), method=method)
        points.append([len(p) for p in asked(method)])
    assert points[0] == points[1] == [len(FIRST), 31, 31, 31, 31]


@pytest.mark.parametrize(
    ("crowd", "alpha", "rounds"),
    [
        (lambda n: np.full(n, 0.3), 0.5, 10),
        (lambda n: np.ones(n), 0.2, 2),
        (lambda n: np.zeros(n), 0.8, 2),
        (lambda n: 0.3 * (1 + 1e-12 * np.arange(n) / n), 0.5, 10),
    ],
    ids=["tied", "at one", "at zero", "near one another"],
)
def test_crowds_are_taken_apart(crowd, alpha, rounds):
    """Half of the records on one spot, or nearly: the quantile inside is found all the same."""
    n = 5000
    low, high = np.linspace(0.01, 0.2, n // 4), np.linspace(0.8, 0.99, n // 4)
    scores = np.concatenate([low, crowd(n // 2), high])
    found = fc.calibrate(one_site(scores), alpha=alpha, method=fc.methods.DPFedCP())["a"]
    exact = fc.calibrate(one_site(scores), alpha=alpha, method=fc.methods.EstimatedWeights())["a"]
    assert found.cost.rounds <= rounds
    between = (scores > exact.thresholds.max()) & (scores <= found.thresholds.max())
    assert (found.thresholds >= exact.thresholds).all()
    assert between.sum() <= 1e-3 * n


@pytest.mark.parametrize("low", [1e-5, 1e-9, 1e-30, 1e-200])
def test_gamma_is_relative_to_the_nearer_end(low):
    distances = low * np.exp(np.random.default_rng(1).uniform(0, 3, 400))
    labels = np.arange(400) % 2
    for at_one in (False, True):
        sites = one_site(distances, labels)
        if at_one:
            sites = one_site(1 - distances, labels, distances=distances)
        exact = fc.calibrate(sites, alpha=0.3, method=fc.methods.EstimatedWeights())["a"]
        found = fc.calibrate(sites, alpha=0.3, method=fc.methods.DPFedCP())["a"]
        ratio = exact.distances / found.distances if at_one else found.thresholds / exact.thresholds
        assert (ratio >= 1).all()
        assert (ratio <= 1 + 2e-6).all()


def test_a_record_alone_is_not_searched_on_for(spy):
    """With 50 records each has more than a thousandth of the weight, and nothing crowds."""
    method = spy(fc.methods.DPFedCP())
    fc.calibrate(one_site(np.random.default_rng(0).random(50)), method=method)
    assert len(asked(method)) == 5


def test_answer_counts_weight_up_to_and_including_a_point():
    site = fc.Site("a", [0.25, 0.5, 0.5, 1.0], [0, 1, 0, 1], n_classes=2)
    arrays = {
        "ratios": np.array([[1.0, 10.0], [0.0, 1.0]]),
        "points": positions([0.0, 0.25, 0.5, 1.0, 0.49, 0.5]),
        "ends": np.array([0, 4, 6]),
    }
    reply = answer(Message("mass", arrays, {"size": 4, "seed": 0}), site)
    assert reply.arrays["mass"].tolist() == [0, 1, 12, 22, 0, 1]
    assert distances_at(arrays["points"])[3] == 0


def test_a_score_with_steps_is_searched_to_the_last_position():
    """Labels of sure records crowd on the steps of RAPS, where hardly a calibration record is."""
    rng = np.random.default_rng(0)
    probs = fc.softmax(30 * rng.normal(size=(300, 5)))
    labels = rng.integers(0, 5, 300)
    for score, most in ((fc.scores.RAPS(k_reg=1), 12), (fc.scores.LAC(), 8)):
        sites = [fc.Site.from_probabilities("a", probs, labels, score, seed=0)]
        exact = fc.calibrate(sites, alpha=0.3, method=fc.methods.EstimatedWeights())["a"]
        found = fc.calibrate(sites, alpha=0.3, method=fc.methods.DPFedCP())["a"]
        assert np.array_equal(found.distances, exact.distances) == score.steps
        assert found.cost.rounds <= most
