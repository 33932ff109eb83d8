"""A federation for tests: every message and every state goes through bytes, as on a network."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedcover import securesum, wire
from fedcover.errors import FedcoverError
from fedcover.securesum import crypto
from fedcover.securesum.commitments import advertise, sign_advertisement
from fedcover.securesum.spec import to_array
from fedcover.wire import Message

STAGES = ("keys", "shares", "masked", "agree", "unmask")


@cache
def identity_of(name):
    """A key of one kind or the other: both may meet in a federation."""
    if name[-1] in "13579":
        return Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP384R1())


def over_the_wire(message):
    return wire.decode(wire.encode(message))


def changed(message, arrays=None, **numbers):
    """The message with other arrays or numbers; None takes an array out."""
    new = {**message.arrays, **(arrays or {})}
    new = {key: array for key, array in new.items() if array is not None}
    return Message(message.kind, new, {**message.numbers, **numbers})


def flipped(array):
    """The bytes with one bit changed."""
    new = array.copy()
    new[len(new) // 2] ^= 1
    return new


class Federation:
    """Sites with their states, and a server whose queries a test may look at or change.

    queries : of the present round, by site; stage : its stage; result : the sum, at the end;
    keys : name of a site to its private key.
    """

    def __init__(
        self, count=4, threshold=None, shapes=None, run="november", query=None, conspirators=1,
        keys=identity_of,
    ):  # fmt: skip
        self.names, self.keys = tuple(f"s{k}" for k in range(count)), keys
        self.roster = {name: keys(name).public_key() for name in self.names}
        shapes = shapes or {"x": (5,)}
        self.spec = securesum.SumSpec(run, self.names, shapes, query, threshold, conspirators)
        self.states = dict.fromkeys(self.names)
        self.values = self.random_values()
        self.gone, self.result = set(), None
        self.heard = {}  # reply by stage and site
        self.server = securesum.server(self.spec, self.roster)
        self.queries = next(self.server)

    def random_values(self, low=-(2**40), high=2**40):
        rng = np.random.default_rng(0)
        shapes = self.spec.shapes.items()
        return {n: {k: rng.integers(low, high, s) for k, s in shapes} for n in self.names}

    @property
    def stage(self):
        return next(iter(self.queries.values())).kind.removeprefix("secure-sum/")

    def answer(self, name, query):
        """One site's reply; its state is kept."""
        site = securesum.Participant(name, self.keys(name), self.roster)
        reply, self.states[name] = site.answer(
            over_the_wire(query),
            self.states[name],
            lambda spec: Message("sum", self.values[name]),
        )
        return over_the_wire(reply)

    def step(self, absent=None, lie=None):
        """Answers a round, but for those that are gone, and goes on to the next one.

        absent : names by stage, which do not answer from that stage on.
        lie : (stage, name, reply) -> reply, what a site says instead.
        """
        self.gone |= set((absent or {}).get(self.stage, ()))
        replies = {}
        for name, query in self.queries.items():
            if name not in self.gone:
                reply = self.answer(name, query)
                self.heard[self.stage, name] = reply
                replies[name] = lie(self.stage, name, reply) if lie else reply
        try:
            self.queries = self.server.send(replies)
        except StopIteration as done:
            self.result = done.value

    def to(self, stage, absent=None):
        """Goes on to a stage and returns its queries, not yet answered."""
        while self.stage != stage:
            self.step(absent)
        return self.queries

    def run(self, absent=None, lie=None):
        """The server's result."""
        while self.result is None:
            self.step(absent, lie)
        return self.result

    def check(self, sites):
        """The result is the exact sum of these sites' values."""
        assert self.result.sites == tuple(sites)
        assert self.result.arrays.keys() == self.spec.shapes.keys()
        for key, found in self.result.arrays.items():
            want = np.sum([self.values[name][key] for name in sites], axis=0)
            assert (found.dtype, found.shape) == (np.int64, want.shape)
            assert (found == want).all()


def refuses(sites, name, query, match):
    """The site refuses, its state is as it was, and the honest query is still answered."""
    before, honest = sites.states[name], sites.queries[name]
    with pytest.raises(FedcoverError, match=match):
        sites.answer(name, query)
    assert sites.states[name] == before
    sites.answer(name, honest)


def fresh_keys(spec, name):
    """What a site of this name could advertise."""
    return advertise(spec, name, *(crypto.new_secret() for _ in range(3)))


def signed_advertisement(spec, name, key, advertised=None):
    """A key advertisement that says it is of `name`, signed with some key."""
    advertised = advertised or fresh_keys(spec, name)
    return to_array(sign_advertisement(spec, key, name, advertised))
