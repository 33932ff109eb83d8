"""Envelopes as bytes: what is one, what is none, and what two versions say to each other."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover import wire
from fedcover.engines.remote.codes import CODES, Refusal
from fedcover.engines.remote.envelope import VERSION, Envelope, digest
from fedcover.securesum import spec
from fedcover.wire import Message
from tests.remote.federation import BUDGET, OPEN, Net, Server, with_facts

GOOD = {"stage": "ask", "run": "r", "number": 3, "facts": {}}


def as_bytes(head, body=None, version=VERSION, **more):
    """An envelope with any head."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    arrays = {"head": np.frombuffer(text, np.uint8), **more}
    if body is not None:
        arrays["body"] = body
    return wire.encode(Message("letter", arrays, {"version": version}))


def test_a_letter_is_read_as_it_was_written():
    body = Message("sketch", {"x": np.arange(3)}, {"n": 2})
    one = Envelope("ask", "november", 7, {"of": "x", "list": [1, 2.5, None, "é"]}, body)
    two = Envelope.of_bytes(one.to_bytes())
    assert (two.phase, two.run, two.number, two.header) == (one.phase, one.run, 7, one.header)
    assert two.to_bytes() == one.to_bytes()
    assert Envelope.of_bytes(as_bytes(GOOD)) == Envelope("ask", "r", 3)


HEADS = {
    "a key twice": b'{"stage": "ask", "run": "r", "number": 3, "facts": {}, "run": "other"}',
    "a fact twice": b'{"stage": "ask", "run": "r", "number": 3, "facts": {"a": 1, "a": 2}}',
    "NaN": b'{"stage": "ask", "run": "r", "number": 3, "facts": {"a": NaN}}',
    "Infinity": b'{"stage": "ask", "run": "r", "number": 3, "facts": {"a": -Infinity}}',
    "too large": b'{"stage": "ask", "run": "r", "number": 3, "facts": {"a": 1e999}}',
    "digits": b'{"stage": "ask", "run": "r", "number": 3, "facts": {"a": ' + b"9" * 5000 + b"}}",
    "deep": b'{"stage": "ask", "run": "r", "number": 3, "facts": ' + b'{"a":' * 10**5 + b"}",
    "UTF-16": json.dumps(GOOD).encode("utf-16"),
    "not UTF-8": b'{"stage": "ask", "run": "\xff", "number": 3, "facts": {}}',
    "empty": b"",
    "too long": b'{"stage": "ask", "run": "r", "number": 3, "facts": {}}' + b" " * (1 << 20),
    "a list": b"[]",
    "no run": {k: v for k, v in GOOD.items() if k != "run"},
    "more": {**GOOD, "more": 1},
    "stage": {**GOOD, "stage": "unmask"},
    "stage list": {**GOOD, "stage": []},
    "negative": {**GOOD, "number": -1},
    "true": {**GOOD, "number": True},
    "float": {**GOOD, "number": 3.0},
    "huge": {**GOOD, "number": 1 << 31},
    "facts": {**GOOD, "facts": []},
    "lone surrogate": {**GOOD, "run": "\ud800"},
    "run": {**GOOD, "run": 3},
    "long run": {**GOOD, "run": "x" * 101},
}


@pytest.mark.parametrize("head", HEADS)
def test_heads_that_are_none(head):
    with pytest.raises(fc.FedcoverError, match=r"no envelope of fedcover|the run is called"):
        Envelope.of_bytes(as_bytes(HEADS[head]))


def test_bodies_and_parts_that_are_none():
    for data in (
        as_bytes(GOOD, body=np.arange(3)),
        as_bytes(GOOD, body=np.frombuffer(b"abc", np.uint8)),
        as_bytes(GOOD, body=np.zeros((2, 2), np.uint8)),
        as_bytes(GOOD, more=np.zeros(3, np.uint8)),
        wire.encode(Message("note", {}, {"version": 1})),
        wire.encode(Message("letter", {}, {"version": VERSION})),
        wire.encode(Message("letter", {}, {"version": VERSION, "more": 2})),
        as_bytes(GOOD) + b"x",
        b"",
        b"F",
        None,
        "text",
    ):
        with pytest.raises(fc.FedcoverError):
            Envelope.of_bytes(data)


VERSIONS = {
    "of 0.1": lambda data: data.replace(b"versioni\x02", b"versioni\x01"),
    "newer": lambda data: data.replace(b"versioni\x02", b"versioni\x03"),
    "bytes": lambda data: b"FCM\x02" + data[4:],
}


@pytest.mark.parametrize("change", VERSIONS)
def test_letters_of_another_version_say_what_to_do(change):
    other = VERSIONS[change](as_bytes(GOOD))
    with pytest.raises(Refusal) as found:
        Envelope.of_bytes(other)
    assert found.value.code == "version"
    assert "Install the same version of fedcover at the server and at every site" in str(
        found.value
    )


@pytest.mark.parametrize("change", VERSIONS)
def test_an_envelope_of_another_server_is_refused_and_the_log_of_the_site_says_why(
    tmp_path, change
):
    net = Net(tmp_path, policy=OPEN)
    reply = net.node(0).handle(VERSIONS[change](Envelope("hello", "r").to_bytes()))
    assert Envelope.of_bytes(reply).header["code"] == "version"
    assert "Install the same version of fedcover at the server and at every site" in net.log("s0")


@pytest.mark.parametrize("change", VERSIONS)
def test_a_site_of_another_version_is_named_to_the_people_at_the_server(tmp_path, change):
    """Its replies cannot be read."""
    net = Net(tmp_path, policy=OPEN)
    net.fault = lambda name, envelope, answer: VERSIONS[change](answer())
    with pytest.raises(fc.FedcoverError) as found:
        Server(net, privacy=None).go()
    assert str(found.value) == (
        "site 'node 0' runs another version of fedcover (code 'version'). Allowed: an answer of "
        "every site. Install the same version at the server and at every site."
    )


def test_two_versions_of_the_secure_sum_tell_both_ends_and_charge_nobody(tmp_path):
    net = Net(tmp_path, budget=BUDGET)

    def newer(name, envelope, answer):
        if envelope.phase != "sum":
            return answer()
        asked = envelope.payload
        other = Message(asked.kind, asked.arrays, {**asked.numbers, "version": spec.VERSION + 1})
        reply = answer(replace(envelope, payload=other).to_bytes())
        return with_facts(reply, of=digest(envelope.to_bytes()))

    net.fault, before = newer, net.heads()
    with pytest.raises(fc.FedcoverError, match=r"another version of fedcover \(code 'version'\)"):
        Server(net).go()
    assert "a secure sum of another version" in net.log("s0")
    assert net.heads() == before


def test_a_code_that_is_none_counts_as_a_failure_and_is_not_shown(tmp_path):
    net = Net(tmp_path, policy=OPEN)
    for code in ("x" * 10**5, "\x1b[2J", None, ["budget"], 7):
        net.fault = lambda name, envelope, answer, code=code: Envelope(
            "refused", envelope.run, 0, {"code": code, "of": digest(envelope.to_bytes())}
        ).to_bytes()
        with pytest.raises(fc.FedcoverError) as found:
            Server(net, privacy=None).go()
        assert str(found.value).startswith("site 'node 0' failed (code 'internal').")


def test_every_code_has_words_for_both_ends():
    for code, (what, fix) in CODES.items():
        assert what
        assert fix[0].isupper()
        assert code == code.lower()
