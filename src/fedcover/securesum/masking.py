"""Integers, masks and shapes: x_u + PRG(b_u) + Σ_{v>u} PRG(s_uv) - Σ_{v<u} PRG(s_uv) mod 2^64.

b_u is the seed of a site's self-mask and s_uv a seed that the sites u and v share. In the sum over
all sites the pair masks cancel; what stays of them where sites dropped out, and the self-masks,
the server takes off once enough sites have opened shares of the seeds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.protocols.message import Message
from fedcover.securesum.crypto import Words, joined, mask_words, shared_key
from fedcover.securesum.terms import Terms


def flat(terms: Terms, contribution: Message) -> Words:
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


def shaped(terms: Terms, total: Words) -> dict[str, NDArray[np.int64]]:
    """The arrays of the sum, from -2^63 to 2^63 - 1."""
    arrays, start = {}, 0
    for name, shape in sorted(terms.shapes.items()):
        end = start + math.prod(shape)
        arrays[name] = total[start:end].astype(np.int64).reshape(shape)
        start = end
    return arrays


def pair_mask(terms: Terms, name: str, other: str, private: bytes, public: bytes) -> Words:
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
