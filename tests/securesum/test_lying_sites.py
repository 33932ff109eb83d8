"""A site that is broken or lies is left out and named; where that comes too late, the run ends."""

from __future__ import annotations

import numpy as np
import pytest

from fedcover import securesum
from fedcover.errors import FedcoverError
from fedcover.securesum import crypto
from fedcover.securesum.commitments import ADVERTISEMENT, KeyAdvertisement
from fedcover.securesum.spec import VERSION
from fedcover.wire import Message
from tests.securesum.driving import (
    STAGES,
    Federation,
    changed,
    flipped,
    identity_of,
    signed_advertisement,
)

ARRAYS = {
    "missing": lambda a: None,
    "too short": lambda a: a[:-1],
    "too long": lambda a: np.append(a, a[:1]),
    "wrong rank": lambda a: a[None],
    "wrong type": lambda a: a.astype(np.int32),
    "floats": lambda a: np.full(a.shape, np.nan),
    "empty": lambda a: a[:0],
}
PARTS = [
    ("keys", "card"),
    ("shares", "sealed:s0"),
    ("shares", "digests:s0"),
    ("masked", "masked"),
    ("agree", "signature"),
    ("unmask", "seed:s0"),
]


def lying(stage, key, change, who="s1"):
    def lie(at, name, reply):
        if (at, name) != (stage, who):
            return reply
        return changed(reply, {key: change(reply.arrays[key])})

    return lie


@pytest.mark.parametrize(("stage", "key"), PARTS, ids=[f"{s}-{k}" for s, k in PARTS])
@pytest.mark.parametrize("lie", ARRAYS)
def test_impossible_arrays_drop_the_site_and_name_it(stage, key, lie):
    sites = Federation(4)
    sites.run(lie=lying(stage, key, ARRAYS[lie]))
    late = STAGES.index(stage) > STAGES.index("masked")
    sites.check(sites.names if late else ["s0", "s2", "s3"])
    assert list(sites.result.missing) == ["s1"]
    assert repr(stage) in sites.result.missing["s1"]


@pytest.mark.parametrize(("stage", "key"), [("agree", "signature"), ("unmask", "seed:s0")])
def test_false_signatures_and_shares_drop_the_site_and_name_it(stage, key):
    sites = Federation(4)
    sites.run(lie=lying(stage, key, flipped))
    sites.check(sites.names)
    assert list(sites.result.missing) == ["s1"]


def test_a_false_share_of_a_lost_site_is_noticed():
    sites = Federation(5, threshold=3, conspirators=0)
    sites.run(absent={"masked": ["s4"]}, lie=lying("unmask", "key:s4", flipped))
    sites.check(["s0", "s1", "s2", "s3"])
    assert list(sites.result.missing) == ["s4", "s1"]
    assert "'s4'" in sites.result.missing["s1"]


def test_too_many_false_shares_end_the_run():
    def lie(stage, name, reply):
        one = stage == "unmask" and name in ("s1", "s2")
        return changed(reply, {"seed:s0": flipped(reply.arrays["seed:s0"])}) if one else reply

    with pytest.raises(FedcoverError, match=r"2 of 4 sites .*'s1' .*'s0'.*'s2' .*'s0'"):
        Federation(4).run(lie=lie)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("version", [0, 1, VERSION + 1, float(VERSION), None])
def test_replies_of_another_version_drop_the_site(stage, version):
    def lie(at, name, reply):
        if (at, name) != (stage, "s1"):
            return reply
        numbers = {} if version is None else {"version": version}
        return Message(reply.kind, reply.arrays, numbers)

    sites = Federation(4)
    sites.run(lie=lie)
    assert "version" in sites.result.missing["s1"]


@pytest.mark.parametrize("kind", ["secure-sum/agree", "secure-sum/", "keys", "unmask", ""])
def test_replies_of_another_kind_drop_the_site(kind):
    def lie(stage, name, reply):
        wrong = stage == "keys" and name == "s1"
        return Message(kind, reply.arrays, reply.numbers) if wrong else reply

    sites = Federation(4)
    sites.run(lie=lie)
    assert list(sites.result.missing) == ["s1"]


def copied_key(sites):
    """A lie: s2 advertises the keys of s1, signed with its own."""
    seen = {}

    def lie(stage, name, reply):
        seen[name] = reply.arrays.get("card")
        if (stage, name) != ("keys", "s2"):
            return reply
        stolen = KeyAdvertisement.of_bytes(seen["s1"].tobytes()[:ADVERTISEMENT])
        copied = signed_advertisement(sites.spec, "s2", identity_of("s2"), stolen)
        return changed(reply, {"card": copied})

    return lie


def test_a_copied_public_key_drops_those_who_have_it():
    sites = Federation(6)
    sites.run(lie=copied_key(sites))
    sites.check(["s0", "s3", "s4", "s5"])
    assert set(sites.result.missing) == {"s1", "s2"}


def test_a_copied_public_key_ends_a_sum_that_needs_those_who_have_it():
    sites = Federation(4)
    with pytest.raises(FedcoverError, match=r"2 of 4 sites .*'keys'"):
        sites.run(lie=copied_key(sites))


def test_a_useless_public_key_drops_the_site():
    sites = Federation(4)

    def lie(stage, name, reply):
        if (stage, name) != ("keys", "s2"):
            return reply
        good = KeyAdvertisement.of_bytes(reply.arrays["card"].tobytes()[:ADVERTISEMENT])
        weak = KeyAdvertisement(bytes(32), good.share_key, good.seed_digest)
        useless = signed_advertisement(sites.spec, "s2", identity_of("s2"), weak)
        return changed(reply, {"card": useless})

    sites.run(lie=lie)
    sites.check(["s0", "s1", "s3"])


@pytest.mark.parametrize("absent", [{}, {"masked": ["s2"]}])
def test_a_dealer_whose_shares_fit_no_secret_is_named(absent, monkeypatch):
    """Shares that fit their digests and no polynomial: no sum, and never a wrong one."""
    split = crypto.split
    sites = Federation(4)
    sites.to("shares")
    monkeypatch.setattr(crypto, "split", lambda secret, t, n: split(crypto.new_secret(), t, n))
    sites.heard["shares", "s2"] = dealt = sites.answer("s2", sites.queries["s2"])
    monkeypatch.undo()

    def lie(stage, name, reply):
        return dealt if (stage, name) == ("shares", "s2") else reply

    with pytest.raises(FedcoverError, match="'s2' dealt shares"):
        sites.run(absent, lie)


def test_the_server_needs_the_keys_of_all_it_invites():
    sites = Federation(3)
    roster = {name: sites.roster[name] for name in ("s0", "s2")}
    with pytest.raises(FedcoverError, match=r"roster .*'s1'"):
        next(securesum.server(sites.spec, roster))


def test_replies_of_sites_that_were_not_asked_are_ignored():
    sites = Federation(4)
    sites.step(absent={"keys": ["s3"]})
    assert set(sites.queries) == {"s0", "s1", "s2"}
    late = sites.answer("s3", sites.spec.to_message())
    replies = {n: sites.answer(n, q) for n, q in sites.queries.items()}
    sites.queries = sites.server.send({**replies, "s3": late, "eve": late})
    sites.run()
    sites.check(["s0", "s1", "s2"])
