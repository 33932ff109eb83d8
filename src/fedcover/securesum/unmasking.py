"""The server's last step: secrets from shares, and the masks off the sum."""

from __future__ import annotations

from collections.abc import Mapping

from fedcover.errors import FedcoverError
from fedcover.securesum import crypto
from fedcover.securesum.cards import Card, seed_digest
from fedcover.securesum.crypto import Words, mask_words, public_of
from fedcover.securesum.masking import pair_mask
from fedcover.securesum.terms import Terms

Opened = Mapping[str, Mapping[str, bytes]]
"""Shares by holder and dealer."""


def unmasked(
    terms: Terms,
    cards: Mapping[str, Card],
    total: Words,
    survivors: tuple[str, ...],
    opened: Opened,
) -> Words:
    """The sum of the survivors' integers, from the sum of their masked ones.

    Parameters
    ----------
    terms, cards
        The run, and what each site advertised.
    total
        The sum of the masked integers of the survivors.
    survivors
        Whose self-masks are taken off; every other dealer left pair masks behind.
    opened
        From at least as many holders as the threshold says: one share for each dealer, which fits
        the digest that the dealer gave.
    """
    holders = list(opened)[: terms.needed]
    for dealer in opened[holders[0]]:
        shares = {terms.sites.index(holder): opened[holder][dealer] for holder in holders}
        secret = crypto.combine(shares)
        if dealer in survivors:
            _check(seed_digest(terms, dealer, secret) == cards[dealer].seed_digest, dealer)
            total = total - mask_words(secret, terms.count)
        else:
            _check(public_of(secret) == cards[dealer].mask_key, dealer)
            for name in survivors:
                total = total - pair_mask(terms, name, dealer, secret, cards[name].mask_key)
    return total


def _check(good: bool, dealer: str) -> None:
    if not good:
        raise FedcoverError(
            f"site {dealer!r} dealt shares that do not give back its secret",
            allowed="shares of the secret that belongs to its card",
            fix="Run again under another name without that site; no sum was found",
        )
