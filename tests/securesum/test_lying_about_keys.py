"""A lying server, first half: invitations and public keys that are not what they seem."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedcover import securesum
from fedcover.errors import FedcoverError
from fedcover.securesum import spec
from fedcover.securesum.commitments import ADVERTISEMENT, KeyAdvertisement, advertisement_text
from fedcover.securesum.spec import names_to_array
from fedcover.wire import Message
from tests.securesum.driving import (
    Federation,
    changed,
    fresh_keys,
    identity_of,
    refuses,
    signed_advertisement,
)

NOT_SIGNED = "'s2'.* did not sign"


def test_an_inserted_public_key_is_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    own = signed_advertisement(sites.spec, "s2", Ed25519PrivateKey.generate())
    refuses(sites, "s0", changed(query, {"card:s2": own}), NOT_SIGNED)


def test_a_key_of_another_site_of_the_roster_signs_for_nobody_else():
    sites = Federation()
    query = sites.to("shares")["s0"]
    own = signed_advertisement(sites.spec, "s2", identity_of("s3"))
    refuses(sites, "s0", changed(query, {"card:s2": own}), NOT_SIGNED)


@pytest.mark.parametrize("position", [0, 31, 32, 63, 64, 95, -1])
def test_every_part_of_a_key_advertisement_is_signed(position):
    sites = Federation()
    query = sites.to("shares")["s0"]
    other = query.arrays["card:s2"].copy()
    other[position] ^= 1
    refuses(sites, "s0", changed(query, {"card:s2": other}), NOT_SIGNED)


def test_a_key_advertisement_without_signature_is_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    for length in (0, 95, 96):
        short = query.arrays["card:s2"][:length]
        with pytest.raises(FedcoverError, match=NOT_SIGNED):
            sites.answer("s0", changed(query, {"card:s2": short}))


@pytest.mark.parametrize(
    "other",
    [
        {"run": "october"},
        {"threshold": 4},
        {"conspirators": 0},
        {"count": 5},
        {"query": Message("sum", {"weights": np.ones(2)})},
        {"shapes": {"x": (6,)}},
    ],
)
def test_a_replayed_key_advertisement_of_another_run_is_refused(other):
    """Run, threshold, list of sites, query and shapes are all under the signature."""
    earlier = Federation(**other)
    replayed = earlier.to("shares")["s0"].arrays["card:s2"]
    sites = Federation()
    query = sites.to("shares")["s0"]
    refuses(sites, "s0", changed(query, {"card:s2": replayed}), NOT_SIGNED)


def test_a_key_advertisement_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(spec, "VERSION", spec.VERSION + 1)
    newer = Federation().to("shares")["s0"].arrays["card:s2"]
    monkeypatch.undo()
    sites = Federation()
    query = sites.to("shares")["s0"]
    refuses(sites, "s0", changed(query, {"card:s2": newer}), NOT_SIGNED)


def test_swapped_names_are_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    swap = {"card:s1": query.arrays["card:s2"], "card:s2": query.arrays["card:s1"]}
    refuses(sites, "s0", changed(query, swap), "did not sign")


def test_a_name_is_signed_even_where_two_sites_have_one_key():
    """`load_roster` refuses such a roster; keys would not be good for the other name anyway."""
    sites = Federation()
    keys = fresh_keys(sites.spec, "s1")
    one, two = (advertisement_text(sites.spec, name, keys) for name in ("s1", "s2"))
    assert one != two


def test_a_site_struck_off_the_roster_is_out_at_once():
    sites = Federation()
    query = sites.to("shares")["s0"]
    del sites.roster["s2"]
    with pytest.raises(FedcoverError, match=NOT_SIGNED):
        sites.answer("s0", query)


def test_keys_of_strangers_and_of_too_few_sites_are_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    stranger = {"card:eve": query.arrays["card:s1"]}
    with pytest.raises(FedcoverError, match="advertisement of 'eve'"):
        sites.answer("s0", changed(query, stranger))
    with pytest.raises(FedcoverError, match="2 key advertisements"):
        sites.answer("s0", changed(query, {"card:s1": None, "card:s2": None}))
    with pytest.raises(FedcoverError, match="own key advertisement"):
        sites.answer("s0", changed(query, {"card:s0": None}))
    other = signed_advertisement(sites.spec, "s0", identity_of("s0"))
    refuses(sites, "s0", changed(query, {"card:s0": other}), "own key advertisement")


def test_a_site_of_the_roster_that_is_not_invited_advertises_nothing():
    sites = Federation()
    sites.roster["s9"] = identity_of("s9").public_key()
    query = sites.to("shares")["s0"]
    uninvited = {"card:s9": signed_advertisement(sites.spec, "s9", identity_of("s9"))}
    refuses(sites, "s0", changed(query, uninvited), "advertisement of 's9'")


def test_repeated_public_keys_are_refused():
    """A site in league with the server copies another's key, and signs it."""
    sites = Federation()
    query = sites.to("shares")["s0"]
    good = KeyAdvertisement.of_bytes(query.arrays["card:s1"].tobytes()[:ADVERTISEMENT])
    mine = fresh_keys(sites.spec, "s2")
    for keys in (
        KeyAdvertisement(good.mask_key, mine.share_key, mine.seed_digest),
        KeyAdvertisement(mine.mask_key, good.mask_key, mine.seed_digest),
        KeyAdvertisement(mine.mask_key, mine.mask_key, mine.seed_digest),
    ):
        copied = signed_advertisement(sites.spec, "s2", identity_of("s2"), keys)
        with pytest.raises(FedcoverError, match="a public key that"):
            sites.answer("s0", changed(query, {"card:s2": copied}))


def test_a_public_key_that_makes_every_secret_known_is_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    mine = fresh_keys(sites.spec, "s2")
    for keys in (
        KeyAdvertisement(bytes(32), mine.share_key, mine.seed_digest),
        KeyAdvertisement(mine.mask_key, bytes([1]) + bytes(31), mine.seed_digest),
    ):
        weak = signed_advertisement(sites.spec, "s2", identity_of("s2"), keys)
        with pytest.raises(FedcoverError, match="key of 's2'"):
            sites.answer("s0", changed(query, {"card:s2": weak}))


def test_invitations_of_strangers_are_refused():
    sites = Federation(4)
    for invited, match in (
        (("s0", "s1", "s2", "eve"), "'eve'"),
        (("s1", "s2", "s3"), "without 's0'"),
    ):
        query = securesum.SumSpec("other", invited, {"x": (5,)}).to_message()
        with pytest.raises(FedcoverError, match=match):
            sites.answer("s0", query)


def test_invitations_that_protect_nobody_are_refused_by_the_site_too():
    sites = Federation(4)
    query = sites.queries["s0"]
    with pytest.raises(FedcoverError, match="threshold is 2"):
        sites.answer("s0", changed(query, threshold=2))
    with pytest.raises(FedcoverError, match="2 different sites"):
        sites.answer("s0", changed(query, {"sites": names_to_array(("s0", "s1"))}))
    with pytest.raises(FedcoverError, match="different sites"):
        sites.answer("s0", changed(query, {"sites": names_to_array(("s0", "s1", "s1"))}))
    for more in ({"more": np.zeros(1)}, {"shape:x": np.array([5.0])}, {"shape:x": np.eye(1, 1)}):
        with pytest.raises(FedcoverError):
            sites.answer("s0", changed(query, more))
    refuses(sites, "s0", changed(query, extra=1), "invitation")


def test_a_site_that_was_asked_something_else_is_noticed_before_any_vector_leaves():
    """Others with less noise, or with none, would leave this site's vector bare in the sum."""
    sites = Federation(4, query=Message("histogram", numbers={"sigma": 8.0}))
    quiet = Federation(4, query=Message("histogram", numbers={"sigma": 0.0}))
    bare = {f"card:{n}": quiet.answer(n, quiet.queries[n]).arrays["card"] for n in ("s1", "s2")}
    query = sites.to("shares")["s0"]
    refuses(sites, "s0", changed(query, bare), "did not sign")
