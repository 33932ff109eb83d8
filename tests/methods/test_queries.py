"""What a server asks: read strictly at the site, for every method."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from tests.fuzz import mutations

import fedcover as fc
from fedcover.methods import registry
from fedcover.methods.base import Message
from fedcover.methods.dp_fedcp import algorithm1, search

SITES = [
    fc.Site(name, rng.random(30), rng.integers(0, 3, 30), n_classes=3)
    for name, rng in (("a", np.random.default_rng(0)), ("b", np.random.default_rng(1)))
]

METHODS = {
    entry.name: entry.method()
    for entry in registry.entries()
    if entry.queries and not entry.only_in_studies
}
METHODS["algorithm-1"] = fc.methods.DPFedCP(rounds=2, local_steps=2, gradient_noise=0.1)
METHODS["labels"] = fc.methods.TDigest(per_label=True)


def asked(method, spy):
    """One query of every kind that a run asks, by its kind."""
    listening = spy(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(method, fc.methods.Sketch):
            fc.collect(SITES, method)
            return {"sketch": _sketch_query(method)}
        fc.calibrate(SITES, method=listening)
    return {query.kind: query for _, query, _ in listening.heard}


def _sketch_query(method):
    from fedcover.methods.base import Task

    rounds = method.server(Task(("a", "b"), 3, sizes=(30, 30)))
    return next(iter(next(rounds).queries.values()))


@pytest.mark.parametrize("name", METHODS)
def test_a_query_with_anything_changed_is_answered_or_refused(name, spy):
    method = METHODS[name]
    rng, refused = random.Random(name), 0
    for kind, query in asked(method, spy).items():
        for _ in range(60):
            hostile = mutations.message(rng, query)
            hostile = Message(kind, hostile.arrays, hostile.numbers)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    method.answer(hostile, SITES[0])
                except fc.FedcoverError:
                    refused += 1
    has_some = any(q.arrays or q.numbers for q in asked(method, spy).values())
    assert refused or not has_some


def step_query(**changed):
    numbers = {"size": 30, "seed": 0, "local_steps": 2, "share": 0.5, "step": 0.1, "gamma": 1e-3,
               "noise": 0.0}  # fmt: skip
    arrays = {"ratios": np.ones((1, 3)), "q": np.zeros((1, 1, 3)), "alphas": np.array([0.1])}
    arrays |= {k: v for k, v in changed.items() if k in arrays}
    return Message("steps", arrays, numbers | {k: v for k, v in changed.items() if k in numbers})


def test_noise_for_more_steps_than_memory_holds_is_refused():
    method = fc.methods.DPFedCP(rounds=2, local_steps=2)
    assert method.answer(step_query(), SITES[0]).arrays["move"].shape == (1, 1, 3)
    q, ratios = np.zeros((60, 1, 3)), np.ones((60, 3))
    hostile = step_query(noise=1.0, local_steps=algorithm1.MOST_STEPS, q=q, ratios=ratios)
    with pytest.raises(fc.FedcoverError, match="outside what was agreed"):
        method.answer(hostile, SITES[0])


@pytest.mark.parametrize("ends", [[0, 5], [0, 2, 4], [1, 5], [0, 6], [5, 0], [-1, 5], [0, 4]])
def test_points_of_other_targets_are_not_read(ends):
    points = np.arange(5) * 1000
    query = Message(
        "mass",
        {"ratios": np.ones((1, 3)), "points": points, "ends": np.array(ends)},
        {"size": 30, "seed": 0},
    )
    if ends == [0, 5]:
        assert len(search.answer(query, SITES[0]).arrays["mass"]) == 5
    else:
        with pytest.raises(fc.FedcoverError, match="'ends'"):
            search.answer(query, SITES[0])


@pytest.mark.parametrize(
    "changed",
    [{"local_steps": 2.0}, {"gamma": 0.0}, {"gamma": np.nan}, {"share": np.inf}, {"size": -1},
     {"seed": -1}, {"ratios": np.ones((1, 2))}, {"ratios": np.full((1, 3), np.nan)},
     {"alphas": np.array([[0.1]])}, {"q": np.zeros((1, 2, 3))}, {"q": np.zeros((1, 1, 3), int)}],
)  # fmt: skip
def test_numbers_and_shapes_outside_what_was_agreed_are_refused(changed):
    with pytest.raises(fc.FedcoverError, match="outside what was agreed"):
        fc.methods.DPFedCP().answer(step_query(**changed), SITES[0])
