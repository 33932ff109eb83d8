"""Where a score lies between 0 and 1, as a whole number that is exact near both ends.

A model that is sure of itself puts most scores within 10⁻⁶ of 0 or of 1. Floating-point numbers
resolve the end at 0, but 1 - 10⁻²⁰ is 1. So a score V is known by itself up to one half, and by its
distance 1 - V beyond: the bits of a positive float grow with it, which makes one increasing whole
number of both, without a logarithm and without rounding.

    0 ─── bits of V ─── HALF ─── TOP - bits of (1 - V) ─── TOP
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Positions = NDArray[np.int64]

HALF = int(np.float64(0.5).view(np.int64))
"""The position of the score 1/2."""

TOP = 2 * HALF
"""The position of the score 1."""


def positions(scores: Any, distances: Any = None) -> Positions:
    """The positions of scores in [0, 1].

    Parameters
    ----------
    scores
        Scores V; what they say counts up to one half.
    distances
        1 - V, where it is known better than by subtraction; counts beyond one half.
    """
    v = np.asarray(scores, dtype=np.float64) + 0.0  # -0.0 has a bit more
    d = 1 - v if distances is None else np.asarray(distances, dtype=np.float64) + 0.0
    # A positive float's bits grow with it, so those of the distance, taken off TOP, grow with V.
    upper = TOP - np.clip(d, 0, 0.5).view(np.int64)
    return np.where(v <= 0.5, v.view(np.int64), upper)


def distances_at(at: Any) -> Float64:
    """1 - V at a position: exact beyond one half."""
    p = np.asarray(at, dtype=np.int64)
    # Below one half 1 - V loses nothing that matters: V itself is what is known there.
    low = 1 - np.clip(p, 0, HALF).view(np.float64)
    return np.where(p <= HALF, low, (TOP - np.clip(p, HALF, TOP)).view(np.float64))


def scores_at(at: Any) -> Float64:
    """V at a position, rounded up where a float cannot say it."""
    p = np.asarray(at, dtype=np.int64)
    d = distances_at(p)
    # Rounded to the even neighbour this may fall below V, and a set would lose its last label: a
    # threshold may only be rounded up.
    high = 1 - d
    high = np.where(1 - high > d, np.nextafter(high, 2), high)  # 1 - high is exact here
    return np.where(p <= HALF, np.clip(p, 0, HALF).view(np.float64), high)
