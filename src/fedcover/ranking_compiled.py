"""`ranking.masses`, compiled: numpy has no radix sort of floats, and none per row with indices.

Probabilities are not negative, so their bit patterns sort like the numbers. Eleven bits a pass.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def masses(
    p: NDArray[np.floating], bits: NDArray[np.unsignedinteger], upper: bool, lower: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Mass above, other mass and rank of every label, where wanted.

    bits : the same numbers seen as unsigned integers.
    """
    n, c = p.shape
    passes = 3 if bits.itemsize == 4 else 6
    mass, rank = np.empty((n if upper else 0, c)), np.empty((n, c), dtype=np.int64)
    other = np.empty((n if lower else 0, c))
    key, other_key = np.empty(c, bits.dtype), np.empty(c, bits.dtype)
    label, other_label = np.empty(c, np.int64), np.empty(c, np.int64)
    place = np.empty(2048, np.int64)
    # Typed constants: a plain integer beside uint64 would turn both into floats.
    zero, low = bits.dtype.type(0), bits.dtype.type(2047)
    for r in range(n):
        for j in range(c):
            # -0.0 is a probability, too: its sign bit must not make it the largest.
            key[j] = bits[r, j] if p[r, j] > 0 else zero
            label[j] = j
        for s in range(passes):
            shift = bits.dtype.type(11 * s)
            place[:] = 0
            for j in range(c):
                place[(key[j] >> shift) & low] += 1
            if place[(key[0] >> shift) & low] == c:
                continue  # all equal in these bits
            total = 0
            for b in range(2048):
                size = place[b]
                place[b] = total
                total += size
            for j in range(c):
                b = (key[j] >> shift) & low
                other_key[place[b]] = key[j]
                other_label[place[b]] = label[j]
                place[b] += 1
            key, other_key = other_key, key
            label, other_label = other_label, label
        running, above, position = 0.0, 0.0, 1
        for j in range(c - 1, -1, -1):
            if j == c - 1 or key[j] != key[j + 1]:
                above, position = running, c - j
            rank[r, label[j]] = position
            if upper:
                mass[r, label[j]] = above
                running += p[r, label[j]]
        if lower:
            running, below = 0.0, 0.0
            last = 0  # where the labels that tie begin
            for j in range(c):
                below = running
                running += p[r, label[j]]
                if j == c - 1 or key[j] != key[j + 1]:
                    for k in range(last, j + 1):
                        other[r, label[k]] = below
                    last = j + 1
    return mass, other, rank
