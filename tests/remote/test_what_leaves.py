"""Every byte that leaves a site: the declared fields, and nothing that tells two sites apart."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

import fedcover as fc
from fedcover import wire
from fedcover.engines.remote.client import guarded
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.codes import CODES
from fedcover.engines.remote.envelope import Envelope
from fedcover.wire import Message
from tests.remote.federation import (
    BUDGET,
    EDGES,
    SERVER_VIEW,
    SUMS,
    Net,
    Server,
    kind,
    made,
    silent,
)

CANARY = "c4n4ry"

HELLO = {"name", "n_classes", "score", "temperature", "label_names", "records", "of"}
BODIES = {
    "sketch": ({"table", "labels"}, set()),
    "keys": ({"card"}, {"version"}),
    "shares": ({"sealed:*", "digests:*"}, {"version"}),
    "masked": ({"masked"}, {"version"}),
    "agree": ({"signature"}, {"version"}),
    "unmask": ({"seed:*", "key:*"}, {"version"}),
}
"""What a reply may hold: arrays and numbers, by what it replies to."""


class Covered:
    """Noise under which nothing of the data is left: what it is added to becomes 0, 1, 2, …"""

    __array_ufunc__ = None

    def __init__(self, sigma, shape, source):
        self.shape = (shape,) if isinstance(shape, int) else shape

    def __radd__(self, exact):
        assert exact.shape == self.shape
        return np.arange(np.prod(self.shape), dtype=np.int64).reshape(self.shape)


CONFUSED = fc.methods.Sketch(bins=EDGES, confusion=True)
RUNS = {
    "sketch": ({}, SERVER_VIEW),
    "secure sketch": ({}, SUMS),
    "confusion": ({"method": CONFUSED}, SERVER_VIEW),
    "secure confusion": ({"method": CONFUSED}, SUMS),
}


@pytest.mark.parametrize("run", RUNS)
def test_every_byte_that_leaves_is_a_declared_field(tmp_path, run):
    more, privacy = RUNS[run]
    net = Net(tmp_path, budget=BUDGET)
    Server(net, privacy=privacy, **more).go()
    for name, envelope, reply in net.heard:
        outer = wire.decode(reply)
        assert (outer.kind, set(outer.numbers)) == ("letter", {"version"})
        head = json.loads(outer.arrays["head"].tobytes())
        assert set(head) == {"stage", "run", "number", "facts"}
        assert (head["stage"], head["run"], head["number"]) == (
            envelope.phase,
            "november",
            envelope.number,
        )
        if envelope.phase == "hello":
            assert set(outer.arrays) == {"head"}
            assert set(head["facts"]) == HELLO
            assert head["facts"]["name"] == name
            continue
        assert set(head["facts"]) == {"of"}
        assert set(outer.arrays) == {"head", "body"}
        body = wire.decode(outer.arrays["body"].tobytes())
        assert body.kind == envelope.payload.kind
        arrays, numbers = BODIES[kind(envelope)]
        if kind(envelope) == "sketch" and run.endswith("confusion"):
            arrays = arrays | {"confusion"}
        assert {key.partition(":")[0] + ":*" * (":" in key) for key in body.arrays} <= arrays
        assert set(body.numbers) == numbers
        assert all(array.dtype.kind in "iu" for array in body.arrays.values())
        assert Envelope.of_bytes(reply).to_bytes() == reply  # and no byte besides


def replies(folder, monkeypatch, seed, run, privacy, **sites):
    """What sites with other data send under noise that covers everything."""
    monkeypatch.setattr("fedcover.privacy.noise.discrete_gaussian", Covered)
    more, _ = RUNS[run]
    net = Net(folder, made(seed=seed, **sites))
    Server(net, privacy=privacy, **more).go()
    return net.heard


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_sites_whose_noisy_numbers_are_equal_send_equal_bytes(tmp_path, monkeypatch, run, relation):
    """Other records, and where the number of records is protected, another number of them too."""
    privacy = fc.Privacy(2.0, 1e-5, relation=relation, view=RUNS[run][1].view)
    sizes = ([40, 50, 60, 70], [40, 50, 60, 70] if relation == "replace" else [33, 51, 90, 7])
    found = [
        replies(tmp_path / str(k), monkeypatch, k, run, privacy, sizes=sizes[k]) for k in (0, 1)
    ]
    assert len(found[0]) == len(found[1])
    fresh = 0
    for (name, envelope, one), (other, _, two) in zip(*found, strict=True):
        assert name == other
        if envelope.phase == "sum":  # keys, seals and masks are new each time; their sizes are not
            fresh += 1
            a, b = Envelope.of_bytes(one).payload, Envelope.of_bytes(two).payload
            assert {k: v.shape for k, v in a.arrays.items()} == {
                k: v.shape for k, v in b.arrays.items()
            }
            assert len(one) == len(two)
        else:
            assert one == two
    assert bool(fresh) == run.startswith("secure")


def test_what_a_mask_covers_is_covered(tmp_path, monkeypatch):
    """Masked integers of equal data differ in every one of 2000 places: the chance is 2⁻⁵³."""
    found = []
    for k in (0, 1):
        monkeypatch.setattr("fedcover.privacy.noise.discrete_gaussian", Covered)
        net = Net(tmp_path / str(k), made(sizes=[50] * 4))
        Server(net, fc.methods.Sketch(bins=700)).go()
        found.append([r for _, one, r in net.heard if kind(one) == "masked"])
    for one, two in zip(*found, strict=True):
        a, b = (Envelope.of_bytes(r).payload.arrays["masked"] for r in (one, two))
        assert len(a) > 2000
        assert (a != b).all()


FAULTS = [
    RuntimeError(CANARY),
    FileNotFoundError(2, "no such file", f"/data/{CANARY}.npz"),
    KeyError(CANARY),
    fc.FedcoverError(CANARY, allowed=CANARY, fix=CANARY),
    fc.errors.FileError(CANARY, allowed=CANARY, fix=CANARY),
    fc.errors.BudgetError(CANARY, allowed=CANARY, fix=CANARY),
    sqlite3.OperationalError(CANARY),
    MemoryError(CANARY),
    RecursionError(CANARY),
    UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, CANARY),
]


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError(CANARY)


@pytest.mark.parametrize("error", [*FAULTS, Unprintable()], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("privacy", [SERVER_VIEW, SUMS], ids=["ask", "sum"])
def test_texts_of_exceptions_paths_and_data_never_travel(tmp_path, monkeypatch, error, privacy):
    folder = tmp_path / CANARY
    net = Net(folder, budget=BUDGET)

    def broken(self, query, site):
        raise error

    monkeypatch.setattr(fc.methods.Sketch, "answer", broken)
    with pytest.raises(
        fc.FedcoverError, match=r"\(code '(internal|query|data|budget|agreement)'\)"
    ):
        Server(net, privacy=privacy).go()
    assert net.heard
    assert not any(CANARY.encode() in reply for _, _, reply in net.heard)
    refused = [Envelope.of_bytes(r) for _, _, r in net.heard if b"refused" in r]
    assert refused
    assert all(set(one.header) == {"code", "of"} and one.header["code"] in CODES for one in refused)
    assert net.answers() == dict.fromkeys(net.ledgers, 0)
    if not isinstance(error, Unprintable):
        assert CANARY in net.log("s0")  # where the site's own people find it


def test_a_site_whose_folder_or_log_cannot_be_used_still_says_only_a_code(tmp_path, monkeypatch):
    net = Net(tmp_path)
    node = net.node(0)
    hello = Envelope("hello", "r", 0, {"method": "sketch", "privacy": None}).to_bytes()
    for path in (tmp_path / "s0").iterdir():
        path.unlink()
    (tmp_path / "s0").rmdir()
    reply = Envelope.of_bytes(node.handle(hello))
    assert reply.header["code"] == "internal"
    (tmp_path / "s0").mkdir()
    (tmp_path / "s0" / "log.txt").mkdir()
    assert Envelope.of_bytes(node.handle(hello)).header["code"] == "privacy"
    assert (
        Envelope.of_bytes(guarded(b"", None, lambda envelope: envelope)).header["code"] == "query"
    )


def test_a_reply_that_cannot_be_written_as_bytes_is_a_failure(tmp_path):
    def answer(envelope):
        return Envelope("ask", envelope.run, 0, {"x": float("nan")}, Message("m"))

    request = Envelope("ask", "r").to_bytes()
    reply = Envelope.of_bytes(guarded(request, ClientState(tmp_path / "m"), answer))
    assert reply.header["code"] == "internal"


def test_sums_that_are_aborted_leave_the_same_fields(tmp_path):
    net = Net(tmp_path, budget=BUDGET)
    net.fault = silent("s1", "s2", stage="masked")
    with pytest.raises(fc.FedcoverError):
        Server(net, resends=0).go()
    assert {kind(one) for _, one, _ in net.heard} == {"", "keys", "shares", "masked"}
