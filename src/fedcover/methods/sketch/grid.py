"""The score bins: many, fixed, public, and the same for every score.

Nobody knows before the data where scores crowd: near 1 for a model that is too sure of itself,
near 0 for LAC of a good one, in the middle for another. So the bins resolve all of it: 700 are even
in the raw score, the others ever finer towards both ends, down to the smallest number a float can
hold. With factorised noise (`fedcover.methods.sketch.factor`) many bins cost little.

Cuts are positions (`fedcover.position`), which near 1 say the distance to 1. Bin 0 is at the top.
"""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.position import TOP, positions

Positions = NDArray[np.int64]

NOISY_BINS = 1840
"""Bins with noise."""

EXACT_BINS = 4096
"""Bins without noise, where more of them cost bytes only."""

FEWEST_BINS, MOST_BINS = 64, 4096

MOST_CELLS = 1 << 26
"""Largest table, rows × bins: half a gigabyte."""

PARTS = (
    (64, 745.0, 110.0),  # e^-745 is about the smallest float
    (74, 110.0, 36.0),  # at 36 the double precision of 1 - V ends
    (220, 36.0, 6.0),
    (200, 6.0, 2.95),  # distances from .0025 to .05, where models of many labels have their scores
)
"""Bins at either end, of 1840 in all: how many are even in the logit between which ends."""


EXACTLY = Context(prec=40)
"""Digits enough to round e^x to the nearest float."""

LAST_BITS = 8
"""How far, in positions, version 0.1 may have put a cut from ours: its e^x was the processor's."""


@lru_cache(maxsize=16)
def standard_cuts(bins: int) -> tuple[int, ...]:
    """Inner cuts of so many bins, from low to high.

    Even in the score between .05 and .95, every 1/800 of 1840 bins; towards both ends finer.
    """
    parts = [(round(n * bins / NOISY_BINS), high, low) for n, high, low in PARTS]
    logit = np.concatenate([np.linspace(h, low, n, endpoint=False) for n, h, low in parts])
    power = np.array([_exp(-x) for x in logit.tolist()])
    end = power / (1 + power)
    near = 1 / (1 + _exp(parts[-1][2]))
    raw = np.linspace(near, 1 - near, bins - 2 * len(end) - 1)
    cuts = np.concatenate([positions(end), positions(raw), positions(1 - end, end)])
    return tuple(np.unique(cuts).tolist())


def _exp(x: float) -> float:
    """e^x to the last bit: numpy's differs there from one processor to the next, and cuts that
    differ make tables that cannot be added.
    """
    return float(EXACTLY.exp(Decimal(x)))


def are_standard(cuts: tuple[int, ...]) -> bool:
    """Whether these are the standard cuts, up to the last bits of a file from version 0.1."""
    bins = len(cuts) + 1
    if not FEWEST_BINS <= bins <= MOST_BINS:
        return False
    apart = np.subtract(cuts, standard_cuts(bins))
    return bool((np.abs(apart) <= LAST_BITS).all())


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
