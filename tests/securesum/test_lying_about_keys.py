"""A lying server, first half: invitations and public keys that are not what they seem."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedcover import securesum
from fedcover.errors import FedcoverError
from fedcover.securesum import crypto, identity, spec
from fedcover.securesum.identity import sign
from fedcover.wire import Message
from tests.securesum.driving import Federation, changed, identity_of, refuses, signed_card


def test_an_inserted_public_key_is_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    own = signed_card(sites.terms, "s2", Ed25519PrivateKey.generate())
    refuses(sites, "s0", changed(query, {"card:s2": own}), "'s2' that this site did not sign")


def test_a_key_of_another_site_of_the_roster_signs_for_nobody_else():
    sites = Federation()
    query = sites.to("shares")["s0"]
    own = signed_card(sites.terms, "s2", identity_of("s3"))
    refuses(sites, "s0", changed(query, {"card:s2": own}), "'s2' that this site did not sign")


@pytest.mark.parametrize("position", [0, 31, 32, 63, 64, 95, -1])
def test_every_part_of_a_card_is_signed(position):
    sites = Federation()
    query = sites.to("shares")["s0"]
    card = query.arrays["card:s2"].copy()
    card[position] ^= 1
    refuses(sites, "s0", changed(query, {"card:s2": card}), "'s2' that this site did not sign")


def test_a_card_without_signature_is_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    for length in (0, 95, 96):
        card = query.arrays["card:s2"][:length]
        with pytest.raises(FedcoverError, match="'s2' that this site did not sign"):
            sites.answer("s0", changed(query, {"card:s2": card}))


@pytest.mark.parametrize(
    "other",
    [
        {"run": "october"},
        {"threshold": 4},
        {"count": 5},
        {"question": Message("sum", {"weights": np.ones(2)})},
        {"shapes": {"x": (6,)}},
    ],
)
def test_a_replayed_card_of_another_run_is_refused(other):
    """Run, threshold, list of sites, question and shapes are all under the signature."""
    earlier = Federation(**other)
    replayed = earlier.to("shares")["s0"].arrays["card:s2"]
    sites = Federation()
    query = sites.to("shares")["s0"]
    refuses(sites, "s0", changed(query, {"card:s2": replayed}), "'s2' that this site did not sign")


def test_a_card_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(spec, "VERSION", 2)
    newer = Federation().to("shares")["s0"].arrays["card:s2"]
    monkeypatch.undo()
    sites = Federation()
    query = sites.to("shares")["s0"]
    refuses(sites, "s0", changed(query, {"card:s2": newer}), "'s2' that this site did not sign")


def test_swapped_names_are_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    swap = {"card:s1": query.arrays["card:s2"], "card:s2": query.arrays["card:s1"]}
    refuses(sites, "s0", changed(query, swap), "that this site did not sign")


def test_a_name_is_signed_even_where_two_sites_have_one_key():
    """`load_roster` refuses such a roster; a card would not be good for the other name anyway."""
    sites = Federation()
    card = identity.new_card(sites.terms, "s1", *(crypto.new_secret() for _ in range(3)))
    one, two = (identity.card_text(sites.terms, name, card) for name in ("s1", "s2"))
    assert one != two


def test_a_site_struck_off_the_roster_is_out_at_once():
    sites = Federation()
    query = sites.to("shares")["s0"]
    del sites.roster["s2"]
    with pytest.raises(FedcoverError, match="'s2' that this site did not sign"):
        sites.answer("s0", query)


def test_cards_of_strangers_and_too_few_cards_are_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    stranger = {"card:eve": query.arrays["card:s1"]}
    with pytest.raises(FedcoverError, match="a card of 'eve'"):
        sites.answer("s0", changed(query, stranger))
    with pytest.raises(FedcoverError, match="2 cards"):
        sites.answer("s0", changed(query, {"card:s1": None, "card:s2": None}))
    with pytest.raises(FedcoverError, match="own card is missing"):
        sites.answer("s0", changed(query, {"card:s0": None}))
    other = signed_card(sites.terms, "s0", identity_of("s0"))
    refuses(sites, "s0", changed(query, {"card:s0": other}), "own card is missing or another")


def test_a_site_of_the_roster_that_is_not_invited_has_no_card():
    sites = Federation()
    sites.roster["s9"] = identity_of("s9").public_key()
    query = sites.to("shares")["s0"]
    uninvited = {"card:s9": signed_card(sites.terms, "s9", identity_of("s9"))}
    refuses(sites, "s0", changed(query, uninvited), "a card of 's9'")


def test_repeated_public_keys_are_refused():
    """A site in league with the server copies another's key, and signs it."""
    sites = Federation()
    query = sites.to("shares")["s0"]
    good = identity.Card.of_bytes(query.arrays["card:s1"].tobytes()[: identity.CARD])
    mine = identity.new_card(sites.terms, "s2", *(crypto.new_secret() for _ in range(3)))
    for card in (
        identity.Card(good.mask_key, mine.share_key, mine.seed_digest),
        identity.Card(mine.mask_key, good.mask_key, mine.seed_digest),
        identity.Card(mine.mask_key, mine.mask_key, mine.seed_digest),
    ):
        signature = sign(identity_of("s2"), identity.card_text(sites.terms, "s2", card))
        copied = spec.to_array(card.to_bytes() + signature)
        with pytest.raises(FedcoverError, match="a public key that"):
            sites.answer("s0", changed(query, {"card:s2": copied}))


def test_a_public_key_that_makes_every_secret_known_is_refused():
    sites = Federation()
    query = sites.to("shares")["s0"]
    mine = identity.new_card(sites.terms, "s2", *(crypto.new_secret() for _ in range(3)))
    for card in (
        identity.Card(bytes(32), mine.share_key, mine.seed_digest),
        identity.Card(mine.mask_key, bytes([1]) + bytes(31), mine.seed_digest),
    ):
        signature = sign(identity_of("s2"), identity.card_text(sites.terms, "s2", card))
        weak = spec.to_array(card.to_bytes() + signature)
        with pytest.raises(FedcoverError, match="'s2' that makes no secret"):
            sites.answer("s0", changed(query, {"card:s2": weak}))


def test_invitations_of_strangers_are_refused():
    sites = Federation(4)
    for invited, match in (
        (("s0", "s1", "s2", "eve"), r"with \['eve'\] among"),
        (("s1", "s2", "s3"), "without 's0'"),
    ):
        query = securesum.SumSpec("other", invited, {"x": (5,)}).query()
        with pytest.raises(FedcoverError, match=match):
            sites.answer("s0", query)


def test_invitations_that_protect_nobody_are_refused_by_the_site_too():
    sites = Federation(4)
    query = sites.queries["s0"]
    with pytest.raises(FedcoverError, match="threshold is 2 for 4 sites"):
        sites.answer("s0", changed(query, threshold=2))
    with pytest.raises(FedcoverError, match="2 different sites"):
        sites.answer("s0", changed(query, {"sites": spec.names_to_array(("s0", "s1"))}))
    with pytest.raises(FedcoverError, match="different sites"):
        sites.answer("s0", changed(query, {"sites": spec.names_to_array(("s0", "s1", "s1"))}))
    for more in ({"more": np.zeros(1)}, {"shape:x": np.array([5.0])}, {"shape:x": np.eye(1, 1)}):
        with pytest.raises(FedcoverError):
            sites.answer("s0", changed(query, more))
    refuses(sites, "s0", changed(query, extra=1), "more or other things")


def test_a_site_that_was_asked_something_else_is_noticed_before_any_vector_leaves():
    """Others with less noise, or with none, would leave this site's vector bare in the sum."""
    sites = Federation(4, question=Message("histogram", numbers={"sigma": 8.0}))
    quiet = Federation(4, question=Message("histogram", numbers={"sigma": 0.0}))
    bare = {f"card:{n}": quiet.answer(n, quiet.queries[n]).arrays["card"] for n in ("s1", "s2")}
    query = sites.to("shares")["s0"]
    refuses(sites, "s0", changed(query, bare), "did not sign for this run")
