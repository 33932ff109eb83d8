"""Integers, masks and shapes: x_u + PRG(b_u) + Σ_{v>u} PRG(s_uv) - Σ_{v<u} PRG(s_uv) mod 2^64.

b_u is the seed of a site's self-mask and s_uv a seed that the sites u and v share. In the sum over
all sites the pair masks cancel; what stays of them where sites dropped out, and the self-masks,
the server takes off once enough sites have opened shares of the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.securesum import crypto
from fedcover.securesum.crypto import Words, joined, mask_words, public_of, shared_key
from fedcover.securesum.identity import Card, seed_digest
from fedcover.securesum.spec import SumSpec
from fedcover.wire import Message


def flat(terms: SumSpec, contribution: Message) -> Words:
    """A site's arrays as one vector modulo 2^64, if they are what the terms say."""
    arrays, parts = contribution.arrays, []
    for name, shape in sorted(terms.shapes.items()):
        array = arrays.get(name)
        if array is None or array.dtype.kind not in "iu" or array.shape != shape:
            found = "missing" if array is None else f"of type {array.dtype}, shape {array.shape}"
            raise FedcoverError(
                f"array {name!r} of the contribution is {found}",
                allowed=f"integers of shape {shape}",
                fix="Make the server's expectation and the site's answer agree",
            )
        parts.append(array.ravel().astype(np.uint64))  # negative ones wrap around, as they should
    if extra := sorted(set(arrays) - set(terms.shapes)):
        raise FedcoverError(
            f"array {extra[0]!r} is in the contribution and not in the sum",
            allowed=f"the arrays {sorted(terms.shapes)}",
            fix="Make the server's expectation and the site's answer agree",
        )
    return np.concatenate(parts)


def shaped(terms: SumSpec, total: Words) -> dict[str, NDArray[np.int64]]:
    """The arrays of the sum, from -2^63 to 2^63 - 1."""
    arrays, start = {}, 0
    for name, shape in sorted(terms.shapes.items()):
        end = start + math.prod(shape)
        arrays[name] = total[start:end].astype(np.int64).reshape(shape)
        start = end
    return arrays


def pair_mask(terms: SumSpec, name: str, other: str, private: bytes, public: bytes) -> Words:
    """What site `name` adds for its pair with `other`, and `other` takes away.

    Parameters
    ----------
    private, public
        The private mask key of one of the two and the public one of the other.
    """
    first = terms.in_order({name, other})
    purpose = joined("fedcover secure sum: pair", terms.digest, *first)
    words = mask_words(shared_key(private, public, purpose), terms.count)
    return words if first[0] == name else -words


Opened = Mapping[str, Mapping[str, bytes]]
"""Shares by holder and dealer."""


def unmasked(
    terms: SumSpec,
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
