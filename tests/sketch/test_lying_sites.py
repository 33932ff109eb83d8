"""A site that is broken or lies gets one clear error that names it, or lies within its bounds."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.engines.base import Engine
from fedcover.privacy.randomness import SYSTEM
from fedcover.wire import Message

from .building import FOUR, SKETCH, budget, powers

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")


class Liar(SKETCH):
    """The sketch, with one array of the reply of s1 changed; None takes it out."""

    def __init__(self, key, change, **options):
        super().__init__(**options)
        object.__setattr__(self, "lie", (key, change))

    def answer(self, query, site, source=SYSTEM):
        reply = super().answer(query, site, source)
        key, change = self.lie
        if site.name != "s1" or key not in reply.arrays:
            return reply
        arrays = dict(reply.arrays)
        new = change(arrays.pop(key))
        if new is not None:
            arrays[key] = new
        return Message(reply.kind, arrays, reply.numbers)


@pytest.fixture(scope="module")
def sites():
    return powers(np.random.default_rng(0), [600, 600, 600], np.ones(3))


LIES = {
    "missing": lambda a: None,
    "shorter": lambda a: a[..., :-1],
    "wrong rank": lambda a: a[None],
    "one number": lambda a: np.int64(3),
    "empty": lambda a: a[:0],
    "floats": lambda a: a.astype(np.float64),
    "NaN": lambda a: np.full(a.shape, np.nan),
    "infinite": lambda a: np.full(a.shape, np.inf),
    "truths": lambda a: a > 0,
    "text": lambda a: np.full(a.shape, "x"),
    "complex": lambda a: a * 1j,
    "objects": lambda a: a.astype(object),
}
TOO_LARGE = {
    "beyond 63 bits": lambda a: np.full(a.shape, 2**63 + 5, dtype=np.uint64),
    "three of these beyond 63 bits": lambda a: np.full(a.shape, 2**62, dtype=np.int64),
}
COUNTS = {
    "negative": lambda a: -a - 1,
    "more records": lambda a: a * 2 + 1,
    "fewer records": lambda a: a * 0,
}
CELLS = {
    "out of range": lambda a: np.append(a[:-1], np.uint32(2**31)),
    "just out of range": lambda a: np.append(a[:-1], np.uint32(3 * 4096)),
    "signed": lambda a: a.astype(np.int64),
    "more records": lambda a: np.append(a, a),
}


@pytest.mark.parametrize("view", ["server", "secure-sum"])
@pytest.mark.parametrize("key", ["table", "labels"])
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_impossible_noisy_arrays_are_refused_by_name(sites, view, key, lie):
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.collect(sites, Liar(key, lie, bins=FOUR), budget(8.0, view=view))


@pytest.mark.parametrize("key", ["table", "labels"])
@pytest.mark.parametrize("lie", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_numbers_that_overflow_the_sum_are_refused_by_name(sites, key, lie):
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.collect(sites, Liar(key, lie, bins=FOUR), budget(8.0, view="server"))


@pytest.mark.parametrize("lie", (LIES | TOO_LARGE | COUNTS).values(),
                         ids=(LIES | TOO_LARGE | COUNTS).keys())  # fmt: skip
@pytest.mark.parametrize("key", ["table", "labels"])
def test_impossible_counts_are_refused_by_name(sites, key, lie):
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.collect(sites, Liar(key, lie, bins=FOUR))


@pytest.mark.parametrize("lie", (LIES | CELLS).values(), ids=(LIES | CELLS).keys())
def test_impossible_cells_are_refused_by_name(sites, lie):
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.collect(sites, Liar("cells", lie))


def test_cells_of_any_unsigned_type_are_read(sites):
    """What a site of another version may send; numpy does not count 64-bit unsigned numbers."""
    exact = fc.collect(sites, SKETCH()).table
    for kind in (np.uint16, np.uint32, np.uint64):
        other = fc.collect(sites, Liar("cells", lambda a, k=kind: a.astype(k))).table
        assert np.array_equal(other.table, exact.table)


def test_a_list_of_cells_is_no_noisy_table(sites):
    """With noise the server waits for a table; cells would count as many as noise scales to."""

    class Lists(SKETCH):
        def answer(self, query, site, source=SYSTEM):
            reply = super().answer(query, site, source)
            if site.name != "s1":
                return reply
            cells = {"cells": np.zeros(600, dtype=np.uint32), "labels": reply.arrays["labels"]}
            return Message("sketch", cells)

    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.collect(sites, Lists(bins=FOUR), budget(8.0, view="server"))


def test_a_table_that_contradicts_its_labels_is_refused(sites):
    """Without noise the two arrays count the same records."""
    swap = lambda a: a[::-1].copy()  # noqa: E731
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.collect(sites, Liar("labels", lambda a: np.array([600, 0, 0]), bins=FOUR))
    with pytest.raises(fc.FedcoverError, match="'s1'"):
        fc.collect(sites, Liar("table", swap, bins=FOUR))


def test_a_site_that_does_not_answer_is_named(sites):
    class Silent(Engine):
        def run(self, method, task, sites):
            server = method.server(task)
            asked = next(server)
            server.send({s.name: method.answer(asked[s.name], s) for s in sites if s.name != "s1"})

    with pytest.raises(fc.FedcoverError, match="'s1' did not answer"):
        fc.collect(sites, engine=Silent())
