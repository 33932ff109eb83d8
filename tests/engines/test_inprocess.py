"""The in-process engine counts rounds and bytes as a network would."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc

A = fc.Site("a", np.linspace(0.1, 0.9, 20), np.arange(20) % 3, n_classes=3)
B = fc.Site("b", np.linspace(0.2, 0.8, 30), np.arange(30) % 2, n_classes=3)


def cost(cal):
    return cal.cost.rounds, cal.cost.bytes_up, cal.cost.bytes_down


def test_bytes_of_the_search_by_hand():
    """γ = 2⁻⁴ is one round of 4 bits after the counts; two targets, three classes, 8 bytes each.

    counts   down: count_noise                                              8
             up:   3 label counts                                          24
    mass     down: 2×3 ratios, 2×71 points, 3 ends, size and seed    48+1136+24+16
             up:   142 weighted counts                                    1136
    """
    cals = fc.calibrate([A, B], method=fc.methods.DPFedCP(gamma=1.0, rounds=1))
    assert cost(cals["a"]) == cost(cals["b"]) == (2, 24 + 1136, 8 + 1224)


def test_bytes_of_pooling_by_hand():
    """Up: 3 label counts, and a score and a label per record."""
    cals = fc.calibrate([A, B], method=fc.methods.EstimatedWeights())
    assert cost(cals["a"]) == (1, 24 + 16 * 20, 0)
    assert cost(cals["b"]) == (1, 24 + 16 * 30, 0)


def test_bytes_of_algorithm_1_by_hand():
    """Counts, totals, two rounds of steps; one target, one level, three classes.

    totals   down: 3 ratios, size and seed            40     up: 1 total                8
    steps    down: 3 ratios, 3 q, 1 alpha, 7 numbers  112    up: 3 moves, 3 means      48
    """
    method = fc.methods.DPFedCP(rounds=2, step=0.1, start=0.5)
    cal = fc.calibrate([A, B], targets="a", method=method)["a"]
    assert cost(cal) == (4, 24 + 8 + 2 * 48, 8 + 40 + 2 * 112)


def test_groups_and_outside_targets_show_the_average_site():
    targets = {"both": ["a", "b"], "outside": [1, 1, 0]}
    cals = fc.calibrate([A, B], method=fc.methods.Pooled(), targets=targets)
    assert cost(cals["both"]) == (1, 24 + 16 * 25, 0)
    assert cost(cals["outside"]) == cost(cals["both"])


def test_sites_that_were_not_asked_pay_nothing(spy):
    method = spy(fc.methods.DPFedCP(rounds=1, step=0.1, sites_per_round=1))
    cals = fc.calibrate([A, B], method=method, seed=0)
    (asked,) = [name for name, query, _ in method.heard if query.kind == "steps"]
    other = "b" if asked == "a" else "a"
    assert cals[asked].cost.bytes_up > cals[other].cost.bytes_up


def test_progress_bar_changes_nothing(capsys):
    plain = fc.calibrate([A, B])
    shown = fc.calibrate([A, B], engine=fc.engines.InProcess(progress=True))
    for name in plain:
        assert np.array_equal(plain[name].thresholds, shown[name].thresholds)
        assert cost(plain[name]) == cost(shown[name])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("method", [fc.methods.DPFedCP(), fc.methods.DPFedCP(rounds=3, step=0.1)])
def test_most_rounds_is_a_limit(method):
    cal = fc.calibrate([A, B], method=method)["a"]
    assert method.most_rounds / 2 <= cal.cost.rounds <= method.most_rounds


def test_messages_do_not_change_when_a_site_answers_twice():
    """A query carries all it needs, so a site that restarts answers just the same."""
    from fedcover.methods.base import Message
    from fedcover.position import positions

    method = fc.methods.DPFedCP()
    arrays = {"ratios": np.ones((1, 3)), "points": positions([0.5]), "ends": np.array([0, 1])}
    query = Message("mass", arrays, {"size": 10, "seed": 4})
    again = fc.Site("a", A.scores, A.labels, n_classes=3)
    replies = [method.answer(query, s).arrays["mass"] for s in (A, A, again)]
    assert replies[0] == replies[1] == replies[2]
