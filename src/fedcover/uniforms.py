"""One uniform random number per record, the same in whatever batch the record comes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.checks import Floats

UInt64 = NDArray[np.uint64]


def row_uniforms(
    p: Floats, rng: np.random.Generator, labels: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Numbers in [0, 1), one per row, from a hash of the row's bits with a key drawn from `rng`.

    A row's bits are summed with random odd multipliers modulo 2^64 (multilinear hashing: two
    different rows agree with probability 2^-31) and then mixed. Equal rows of one batch are
    counted and get different numbers, as a model with few distinct outputs needs. With `labels`
    they are counted within a label, so that one record more or less changes one number only: the
    sensitivity of private releases rests on that.
    """
    words = p.shape[1] * (p.dtype.itemsize // 4)
    odd = rng.integers(0, 2**63, size=words, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    start = rng.integers(0, 2**63, dtype=np.uint64)
    hashed = np.empty(len(p), dtype=np.uint64)
    for rows in checks.row_chunks(*p.shape):
        bits = np.ascontiguousarray(p[rows]).view(np.uint32)
        hashed[rows] = bits.astype(np.uint64) @ odd
    same = hashed if labels is None else _mix(hashed) + labels.astype(np.uint64)
    mixed = _mix(_mix(hashed) + start + _occurrence(same))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _occurrence(hashed: UInt64) -> UInt64:
    """How many equal rows came before, for every row."""
    order = np.argsort(hashed, kind="stable")
    new = np.append(True, hashed[order][1:] != hashed[order][:-1])
    position = np.arange(len(hashed))
    out = np.empty(len(hashed), dtype=np.uint64)
    out[order] = position - np.maximum.accumulate(np.where(new, position, 0))
    return out


def _mix(x: UInt64) -> UInt64:
    """SplitMix64's finaliser: every input bit changes about half of the output bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
