"""Bytes of a malicious server at a site, and of a malicious site at the server.

A site always answers with an envelope, and never with data: its budget here allows nothing. The
server ends in a result or in a FedcoverError.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import fedcover as fc
from fedcover.engines.remote.codes import CODES
from fedcover.engines.remote.envelope import PHASES, Envelope, digest
from fedcover.methods.registry import entries
from fedcover.privacy import Budget, Ledger
from fedcover.wire import Message
from tests.remote.federation import EDGES, OPEN, SERVER_VIEW, SUMS, Net, Server, kind, made

KINDS = sorted({kind for entry in entries() for kind in entry.queries})
SUM_KINDS = [f"secure-sum/{stage}" for stage in ("keys", "shares", "masked", "agree", "unmask")]
NAMES = ["cuts", "rows", "weights", "ends", "table", "labels", "counts", "confusion", "terms",
         "sites", "queries", "positions",
         "run", "question", "shape:x", "card:s0", "masked", "signature:s1", "sealed:s2", "file",
         "thresholds", "ratios", "records", "unseen", "label_counts", "cells"]  # fmt: skip
NUMBERS = ["version", "threshold", "sigma", "size", "table", "labels", "factored", "scale",
           "confusion", "table_sigma", "label_sigma", "confusion_sigma", "most", "count_noise",
           "total", "seed", "conspirators"]  # fmt: skip

BUDGET = Budget(1e-4, 1e-9)

number = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-2, 3), st.floats())
dtype = st.sampled_from([np.int64, np.float64, np.uint8, np.uint64, np.int32, np.uint32])
array = dtype.flatmap(
    lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, min_side=0, max_side=5))
)
message = st.builds(
    Message,
    st.sampled_from([*KINDS, *SUM_KINDS, "fit", "sketch-file", "x", "letter"]),
    st.dictionaries(st.sampled_from(NAMES), array, max_size=5),
    st.dictionaries(st.sampled_from(NUMBERS), number, max_size=8),
)
value = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
plain = st.recursive(
    value,
    lambda one: st.one_of(st.lists(one, max_size=3), st.dictionaries(st.text(max_size=8), one)),
    max_leaves=6,
)
KEYS = ["method", "privacy", "alphas", "options", "cost", "n_sites", "code", "of", "name",
        "n_classes", "score", "temperature", "label_names", "records"]  # fmt: skip
facts = st.dictionaries(st.sampled_from(KEYS), plain, max_size=6)
envelope = st.builds(
    Envelope,
    st.sampled_from(PHASES),
    st.sampled_from(["november", "other", "☃"]),
    st.integers(0, 5),
    facts,
    st.one_of(st.none(), message),
)


@st.composite
def damaged(draw, data):
    """Bytes with some of them changed, cut out, or put in."""
    start, stop = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
    stop = min(stop, start + draw(st.sampled_from([0, 1, 8, 10**9])))
    return data[:start] + draw(st.binary(max_size=9)) + data[stop:]


@pytest.fixture(scope="module")
def site():
    """A site that has said hello, with a budget for nothing, and envelopes that it gets."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        rich = Net(folder + "/rich", budget=Budget(50.0, 1e-5))
        Server(rich, privacy=SERVER_VIEW).go()
        confused = fc.methods.Sketch(bins=EDGES, confusion=True)
        Server(rich, confused, SERVER_VIEW, run="other").go()
        Server(rich, run="☃").go()
        seen = [one.to_bytes() for name, one, _ in rich.heard if name == "s0"]
        net = Net(folder + "/poor", budget=BUDGET)
        for one in [Envelope.of_bytes(data) for data in seen]:
            if one.phase == "hello":
                small = {**one.header["privacy"], "epsilon": 1e-5, "delta": 1e-9}
                said = Envelope("hello", one.run, 0, {**one.header, "privacy": small}).to_bytes()
                assert Envelope.of_bytes(net.node(0).handle(said)).phase == "hello"
        yield net, seen


def checked(net, data):
    """The reply is an envelope without data."""
    reply = Envelope.of_bytes(net.node(0).handle(data))
    assert reply.header["of"] == digest(data)
    if reply.phase == "refused":
        assert set(reply.header) == {"code", "of"}
        assert reply.header["code"] in CODES
        assert reply.payload is None
    elif reply.phase == "hello":
        assert reply.payload is None
    elif reply.phase == "finish":
        assert set(reply.header) == {"of"}
        assert reply.payload is None
    elif reply.phase == "sum":  # keys and seals of a sum that goes nowhere
        assert kind(reply) in ("keys", "shares")
    else:  # only under noise so large that this budget pays for it
        last = Ledger(net.ledgers["s0"]).state().answers[-1]
        assert last.spent <= BUDGET.epsilon
        assert all(event.noise_multiplier > 10_000 for event in last.events)
    return reply


@given(st.binary(max_size=200))
def test_any_bytes_to_a_site(site, data):
    assert checked(site[0], data).header["code"] in ("query", "version")


@settings(max_examples=60)
@given(st.data())
def test_damaged_letters_to_a_site(site, data):
    net, seen = site
    checked(net, data.draw(damaged(data.draw(st.sampled_from(seen)))))


@settings(max_examples=80)
@given(envelope)
@pytest.mark.filterwarnings("ignore")
def test_letters_of_any_content_to_a_site(site, one):
    checked(site[0], one.to_bytes())


@settings(max_examples=60)
@given(st.data())
@pytest.mark.filterwarnings("ignore")
def test_real_queries_with_other_numbers_to_a_site(site, data):
    net, seen = site
    one = Envelope.of_bytes(data.draw(st.sampled_from([s for s in seen if b'"ask"' in s])))
    arrays, numbers = dict(one.payload.arrays), dict(one.payload.numbers)
    for key in data.draw(st.lists(st.sampled_from([*numbers, *arrays]), max_size=3)):
        (numbers if key in numbers else arrays)[key] = data.draw(
            number if key in numbers else array
        )
    body = Message(one.payload.kind, arrays, numbers)
    checked(net, Envelope(one.phase, one.run, one.number, one.header, body).to_bytes())


@pytest.fixture(scope="module")
def open_net():
    with tempfile.TemporaryDirectory() as folder:
        yield Net(folder, made(3), policy=replace(OPEN, least_sum=2, conspirators=0))


TRUSTING = replace(SUMS, conspirators=0)

RUNS = {
    "sketch": ({"privacy": None}, 40),
    "search": ({"privacy": None, "method": fc.methods.DPFedCP(gamma=0.1)}, 40),
    "private": ({"privacy": SERVER_VIEW}, 30),
    "secure sum": ({"privacy": TRUSTING, "min_survivors": 2}, 20),
    "summed here": ({"privacy": TRUSTING, "min_survivors": 2, "secure": False}, 20),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.filterwarnings("ignore")
def test_any_bytes_to_the_server(open_net, run):
    more, examples = RUNS[run]

    @settings(max_examples=examples)
    @given(st.data())
    def attempt(data):
        stage = data.draw(
            st.sampled_from(["hello", "ask", *(k.partition("/")[2] for k in SUM_KINDS)])
        )

        def fault(name, sent, answer):
            reply = answer()
            if name != "s1" or stage not in (sent.phase, kind(sent)):
                return reply
            how = data.draw(st.sampled_from(["bytes", "damaged", "body", "letter", "facts"]))
            found = Envelope.of_bytes(reply)
            if how == "bytes":
                return data.draw(st.binary(max_size=60))
            if how == "damaged":
                return data.draw(damaged(reply))
            if how == "body":
                body = data.draw(message)
                if found.payload is not None:  # near what is wanted
                    arrays = {k: data.draw(array) for k in found.payload.arrays}
                    numbers = {k: data.draw(number) for k in found.payload.numbers}
                    body = data.draw(
                        st.sampled_from([body, Message(found.payload.kind, arrays, numbers)])
                    )
                return Envelope(found.phase, found.run, found.number, found.header, body).to_bytes()
            new = {**found.header, **data.draw(facts), "of": digest(sent.to_bytes())}
            if how == "facts":
                return Envelope(found.phase, found.run, found.number, new, found.payload).to_bytes()
            one = data.draw(envelope)
            return Envelope(one.phase, sent.run, sent.number, new, one.payload).to_bytes()

        open_net.fault, open_net.heard, open_net.passed = fault, [], []
        with contextlib.suppress(fc.FedcoverError):
            Server(open_net, resends=0, quorum=2, run=f"run {id(data)}", **more).go()

    attempt()
