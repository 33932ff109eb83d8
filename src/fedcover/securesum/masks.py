"""Integers, masks and shapes: x_u + PRG(b_u) + Σ_{v>u} PRG(s_uv) - Σ_{v<u} PRG(s_uv) mod 2^64.

b_u is the seed of a site's self-mask and s_uv a seed that the sites u and v share (Bonawitz et al.
2017, section 4). In the sum over all sites the pair masks cancel; what stays of them where sites
dropped out, and the self-masks, the server takes off once enough sites have opened shares.

All arithmetic is modulo 2^64, where numpy's wrap-around of uint64 is exact and not an overflow:
adding a uniform word to any word gives a uniform word, so a masked vector says nothing, and what
was added can be taken off again to the bit. Two's complement makes the same words of signed
integers; the caller sees to it that the true sum fits in 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.securesum import crypto
from fedcover.securesum.commitments import KeyAdvertisement, seed_digest
from fedcover.securesum.crypto import Words, joined, mask_words, public_of, shared_key
from fedcover.securesum.spec import SumSpec
from fedcover.wire import Message


def flatten(spec: SumSpec, contribution: Message) -> Words:
    """A site's arrays as one vector modulo 2^64, if they are what the sum is about."""
    arrays, parts = contribution.arrays, []
    for name, shape in sorted(spec.shapes.items()):
        array = arrays.get(name)
        if array is None or array.dtype.kind not in "iu" or array.shape != shape:
            found = "missing" if array is None else f"of type {array.dtype}, shape {array.shape}"
            raise FedcoverError(
                f"array {name!r} of the contribution is {found}",
                allowed=f"integers of shape {shape}",
                fix="Make the server's expectation and the site's answer agree",
            )
        parts.append(array.ravel().astype(np.uint64))  # negative ones wrap around, as they should
    if extra := sorted(set(arrays) - set(spec.shapes)):
        raise FedcoverError(
            f"array {extra[0]!r} is in the contribution and not in the sum",
            allowed=f"the arrays {sorted(spec.shapes)}",
            fix="Make the server's expectation and the site's answer agree",
        )
    return np.concatenate(parts)


def self_mask(spec: SumSpec, seed: bytes) -> Words:
    """PRG(b_u), which a site adds for itself.

    The pair masks alone would not do. A vector may arrive after the server has counted its site as
    lost and had its pair masks opened; a lying server may just say so. Then this mask hides the
    vector, and its seed is never opened for a lost site (section 4, double-masking).
    """
    return mask_words(seed, spec.count)


def pair_mask(spec: SumSpec, name: str, other: str, private: bytes, public: bytes) -> Words:
    """±PRG(s_uv): what site `name` adds for its pair with `other`.

    Parameters
    ----------
    private, public
        The private mask key of one of the two and the public one of the other.
    """
    # The names in one order for both, so that both find the same s_uv; the run, so that no mask is
    # used for two vectors, whose difference it would leave bare.
    first = spec.in_order({name, other})
    purpose = joined("fedcover secure sum: pair", spec.digest, *first)
    words = mask_words(shared_key(private, public, purpose), spec.count)
    # One of the two adds and the other takes away: the pair is 0 in the sum of both.
    return words if first[0] == name else -words


Opened = Mapping[str, Mapping[str, bytes]]
"""Shares by holder and dealer."""


def unmask(
    spec: SumSpec,
    advertised: Mapping[str, KeyAdvertisement],
    total: Words,
    survivors: tuple[str, ...],
    opened: Opened,
) -> Words:
    """The sum of the survivors' integers, from the sum of their masked ones.

    Parameters
    ----------
    spec, advertised
        The run, and what each site advertised.
    total
        The sum of the masked integers of the survivors.
    survivors
        Whose self-masks are taken off; every other dealer left pair masks behind.
    opened
        From at least as many holders as the threshold says: one share for each dealer, which fits
        the digest that the dealer gave.
    """
    holders = list(opened)[: spec.threshold]  # t points fix a polynomial of degree t - 1
    for dealer in opened[holders[0]]:
        shares = {spec.sites.index(holder): opened[holder][dealer] for holder in holders}
        secret = crypto.combine(shares)
        # A dealer may have dealt points of no polynomial, each true to its digest. So the secret is
        # compared with what was advertised: else the sum would be wrong and nobody would know.
        if dealer in survivors:
            _check(seed_digest(spec, dealer, secret) == advertised[dealer].seed_digest, dealer)
            total = total - self_mask(spec, secret)
        else:
            _check(public_of(secret) == advertised[dealer].mask_key, dealer)
            for name in survivors:
                total = total - pair_mask(spec, name, dealer, secret, advertised[name].mask_key)
    return total


def _check(good: bool, dealer: str) -> None:
    if not good:
        raise FedcoverError(
            f"site {dealer!r} dealt shares that do not give back its secret",
            allowed="shares of the secret that belongs to its key advertisement",
            fix="Run again under another name without that site; no sum was found",
        )


def unflatten(spec: SumSpec, total: Words) -> dict[str, NDArray[np.int64]]:
    """The arrays of the sum, from -2^63 to 2^63 - 1."""
    arrays, start = {}, 0
    for name, shape in sorted(spec.shapes.items()):
        end = start + math.prod(shape)
        arrays[name] = total[start:end].astype(np.int64).reshape(shape)
        start = end
    return arrays
