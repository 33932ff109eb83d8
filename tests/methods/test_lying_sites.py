"""A site that is broken or lies gets a FedcoverError that names it, never another traceback."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.methods.base import Message

SEARCH = fc.methods.DPFedCP()
STEPS = fc.methods.DPFedCP(rounds=3, local_steps=2, step=0.01)
POOL = fc.methods.EstimatedWeights()

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


def tampered(kind, key, change):
    """Replace one array (or number) in the replies of site s1; None takes it out."""

    def alter(name, reply):
        if name != "s1" or reply.kind != kind:
            return reply
        arrays, numbers = dict(reply.arrays), dict(reply.numbers)
        box = numbers if key in numbers else arrays
        new = change(box[key])
        box.pop(key)
        if new is not None:
            box[key] = new
        return Message(kind, arrays, numbers)

    return alter


def wrong_type(array):
    return np.full(array.shape, "x")


LIES = {
    "missing": lambda a: None,
    "wrong length": lambda a: a[..., :-1],
    "wrong rank": lambda a: a[None],
    "text": wrong_type,
    "NaN": lambda a: np.full(a.shape, np.nan),
    "infinite": lambda a: np.full(a.shape, np.inf),
    "complex": lambda a: a * 1j,
    "objects": lambda a: a.astype(object),
}
NEGATIVE = {"negative": lambda a: -np.abs(a) - 1}

CASES = [
    (method, kind, key, lie)
    for method, kind, key, lies in [
        (SEARCH, "counts", "label_counts", LIES | NEGATIVE),
        (SEARCH, "mass", "mass", LIES | NEGATIVE),
        (STEPS, "totals", "totals", LIES | NEGATIVE),
        (STEPS, "steps", "move", LIES),
        (STEPS, "steps", "mean", LIES),
        (POOL, "scores", "label_counts", LIES | NEGATIVE),
        (POOL, "scores", "positions", LIES | NEGATIVE),
        (POOL, "scores", "labels", {k: v for k, v in (LIES | NEGATIVE).items() if k != "objects"}),
    ]
    for lie in lies.items()
]


@pytest.mark.parametrize(
    ("method", "kind", "key", "lie"), CASES, ids=[f"{k}-{key}-{e[0]}" for _, k, key, e in CASES]
)
def test_impossible_arrays_are_refused(spy, federation, method, kind, key, lie):
    sites = federation(np.random.default_rng(0), least=5)
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(sites, method=spy(method, tampered(kind, key, lie[1])))


@pytest.mark.parametrize("size", [0, -5, 2.5, float("nan"), float("inf"), "x", 2**70])
def test_impossible_sizes_are_refused(spy, federation, size):
    """A size travels beside noisy counts; without noise it is the sum of the counts."""
    sites = federation(np.random.default_rng(0), least=5)
    lie = tampered("counts", "size", lambda n: size)
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(sites, method=spy(fc.methods.DPFedCP(count_noise=1.0), lie))


def test_the_sum_of_the_counts_stands_in_for_a_size_that_is_left_out(spy, federation):
    sites = federation(np.random.default_rng(0), least=5)
    method = spy(fc.methods.DPFedCP(count_noise=1.0), tampered("counts", "size", lambda n: None))
    assert set(fc.calibrate(sites, method=method)) == {"s0", "s1", "s2"}
    counts, mass = [(query, reply) for name, query, reply in method.heard if name == "s1"][:2]
    assert counts[1].numbers == {}
    assert 0 < mass[0].numbers["size"] <= counts[1].arrays["label_counts"].sum()


def test_a_site_that_does_not_answer_is_named(federation):
    class Silent(fc.engines.InProcess):
        def run(self, method, task, sites):
            server = method.server(task)
            queries = next(server)
            replies = {name: method.answer(queries[name], s) for name, s in by_name(sites).items()}
            replies.pop("s1")
            server.send(replies)

    def by_name(sites):
        return {s.name: s for s in sites}

    sites = federation(np.random.default_rng(0), least=5)
    with pytest.raises(fc.FedcoverError, match="'s1' did not answer"):
        fc.calibrate(sites, engine=Silent())


def test_counts_whose_sum_overflows_are_refused(spy, federation):
    sites = federation(np.random.default_rng(0), least=5)
    lie = tampered("counts", "label_counts", lambda c: np.full(4, 2**62 + 1))
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(sites, method=spy(SEARCH, lie))


def test_weighted_counts_that_fall_are_refused(spy, federation):
    """G grows in q; a site whose counts fall would make the search end anywhere."""
    sites = federation(np.random.default_rng(0), least=5)
    lie = tampered("mass", "mass", lambda m: m[::-1].copy())
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(sites, targets="s0", method=spy(SEARCH, lie))


def test_more_scores_than_stated_are_refused(spy, federation):
    sites = federation(np.random.default_rng(0), least=5)
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.calibrate(sites, method=spy(POOL, tampered("scores", "label_counts", lambda c: c + 1)))
