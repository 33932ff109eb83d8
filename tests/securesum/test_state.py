"""A site's memory that somebody else wrote: refused as a whole, at every stage of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedcover import wire
from fedcover.errors import FedcoverError
from fedcover.securesum.state import State
from fedcover.wire import Message

from .driving import STAGES, Federation


def states():
    """The state of s0 after each stage, and the query that comes next."""
    sites, found = Federation(), {}
    while sites.result is None:
        stage, query = sites.stage, sites.queries["s0"]
        if sites.states["s0"] is not None:
            found[stage] = (sites, sites.states["s0"], query)
        sites.step()
    return found


FOUND = states()


def test_every_honest_state_is_read_as_it_was():
    for _, data, _ in FOUND.values():
        assert State.of_bytes(data).to_bytes() == data


@pytest.mark.parametrize("answered", [np.nan, np.inf, 2.0, -1, 6, 2**62])
def test_a_stage_that_is_none_is_refused(answered):
    stored = wire.decode(FOUND["masked"][1])
    numbers = {**stored.numbers, "answered": answered}
    with pytest.raises(FedcoverError, match="cannot be read"):
        State.of_bytes(wire.encode(Message(stored.kind, stored.arrays, numbers)))


CHANGES = {
    "a short key": ("shares", {"mask_key": b"x"}),
    "a seed that should be gone": ("agree", {"seed": b"x" * 32}),
    "no terms": ("masked", {"spec": None}),
    "another stage": ("masked", {"answered": 4}),
    "survivors without shares": ("unmask", {"held": {}}),
    "no survivors": ("unmask", {"survivors": ()}),
    "shares of strangers": ("agree", {"held": {"x": bytes(64)}}),
    "a key of zeros": ("shares", {}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_state_that_no_answer_leaves_behind_is_refused(what):
    stage, change = CHANGES[what]
    state = State.of_bytes(FOUND[stage][1])
    if what == "a key of zeros":
        zeros = {n: replace(k, share_key=bytes(32)) for n, k in state.advertised.items()}
        change = {"advertised": zeros}
    with pytest.raises(FedcoverError, match="cannot be read"):
        State.of_bytes(replace(state, **change).to_bytes())


@pytest.mark.parametrize("stage", STAGES[1:])
def test_the_state_of_another_site_is_refused(stage):
    sites, data, query = FOUND[stage]
    state = State.of_bytes(data)
    others = {n: k for n, k in state.advertised.items() if n != "s0"}
    held = {n: k for n, k in state.held.items() if n != "s0"}
    gone = replace(state, advertised=others, held=held, survivors=tuple(others)[:3])
    if stage != "unmask":
        gone = replace(gone, survivors=())
    sites.states["s0"] = gone.to_bytes()
    with pytest.raises(FedcoverError):
        sites.answer("s0", query)
    sites.states["s0"] = data
