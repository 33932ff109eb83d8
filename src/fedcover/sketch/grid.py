"""The score bins: many, fixed, public, and the same for every score.

Nobody knows before the data where scores crowd: near 1 for a model that is too sure of itself,
near 0 for LAC of a good one, in the middle for another. So the bins resolve all of it: half of them
are even in the raw score, the others ever finer towards both ends, down to the smallest number a
float can hold. With factorised noise (`fedcover.sketch.factor`) many bins cost little.

Cuts are positions (`fedcover.position`), which near 1 say the distance to 1. Bin 0 is at the top.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.position import TOP, positions

Positions = NDArray[np.int64]

NOISY_BINS = 1520
"""Bins with noise: in the middle 1/800 of the range each."""

EXACT_BINS = 4096
"""Bins without noise, where more of them cost bytes only."""

FEWEST_BINS, MOST_BINS = 64, 4096

MOST_CELLS = 1 << 26
"""Largest table, rows × bins: half a gigabyte."""

NEAR = 0.0025
"""Distance to an end from which bins get finer towards it: logit 6."""


@lru_cache(maxsize=16)
def standard_cuts(bins: int) -> tuple[int, ...]:
    """Inner cuts of so many bins, from low to high.

    Of 1520 bins 802 are even in the score between .0025 and .9975. Towards each end 220 are even in
    its logit up to 36, where double precision of 1 - V ends, 74 up to 110 and 64 up to 745, the
    smallest float: distances known better than by subtraction reach so far.
    """
    part = bins / NOISY_BINS
    far, farther = round(74 * part), round(64 * part)
    near = round(220 * part)
    middle = bins - 2 * (far + farther + near) - 2
    logit = np.concatenate(
        [
            np.linspace(745, 110, farther, endpoint=False),
            np.linspace(110, 36, far, endpoint=False),
            np.linspace(36, -np.log(NEAR / (1 - NEAR)), near, endpoint=False),
        ]
    )
    end = np.exp(-logit) / (1 + np.exp(-logit))
    lower, upper = positions(end), positions(1 - end, end)
    raw = positions(np.linspace(NEAR, 1 - NEAR, middle + 1))
    return tuple(np.unique(np.concatenate([lower, raw, upper])).tolist())


def checked_cuts(given: ArrayLike) -> tuple[int, ...]:
    """The inner cuts of edges given by the user as scores: from 0 to 1, strictly increasing."""
    edges = checks.as_float(checks.array(given, "bins"), "bins").astype(np.float64)
    ordered = edges.ndim == 1 and len(edges) >= 3 and bool((np.diff(edges) > 0).all())
    if not ordered or edges[0] != 0 or edges[-1] != 1 or len(edges) > MOST_BINS + 1:
        raise FedcoverError(
            f"bins has shape {edges.shape}, or is not an increasing list from 0 to 1",
            allowed=f"a number of bins from {FEWEST_BINS} to {MOST_BINS}, or their edges in order",
            fix="Leave bins out: the standard ones suit every score",
        )
    return tuple(positions(edges[1:-1]).tolist())


def bins_of(at: Positions, cuts: Positions) -> NDArray[np.intp]:
    """The bin of each position, 0 for the top one; a bin holds its upper edge."""
    return len(cuts) - np.searchsorted(cuts, at, side="left")


def upper_edges(cuts: Positions) -> Positions:
    """(B,) position of the upper edge of every bin, from 1 downward."""
    return np.append(TOP, cuts[::-1])


def middles(cuts: Positions) -> Positions:
    """(B,) position of the middle of every bin."""
    upper = upper_edges(cuts)
    lower = np.append(upper[1:], 0)
    return lower + (upper - lower) // 2
