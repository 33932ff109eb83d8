"""What is measured of a row of counts: the bins themselves, or sums of them.

A design is a matrix D of whole numbers ≥ 0, (measurements, bins): a site sends D·h for the counts h
of a row. One record moves a row by a column of D, so noise grows with the longest column, and long
prefix sums of bins may need less noise through a tree or a square root of the prefix operator.
Which one is best is computed, not believed: see `prefix_deviation`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

DESIGNS = ("flat", "tree", "root")

BRANCHES = 4
"""Children of a node of the tree; 4 has the least error for prefix sums of 64 to 4096 bins."""

MOST_DESIGNED = 1024
"""Most bins for which sums are measured: the matrices grow with the square."""

ROOT_SCALE = 64
"""The square root's coefficients 1, 1/2, 3/8, … in whole numbers of this fraction."""


@lru_cache(maxsize=32)
def design_matrix(name: str, bins: int) -> Int64:
    """D of a named design.

    flat : the bins.
    tree : the bins and, level by level, sums of up to 4, 16, … neighbours.
    root : R with R·R the prefix sums, R[i, j] = Π_{k≤i-j} (2k-1)/(2k) (Fichtenberger, Henzinger,
        Upadhyay 2022), rounded to 1/64.
    """
    if name == "flat":
        out = np.eye(bins, dtype=np.int64)
    elif name == "tree":
        levels, width = [np.eye(bins, dtype=np.int64)], BRANCHES
        while width < bins:
            node = np.arange(bins) // width
            levels.append((np.arange(node[-1] + 1)[:, None] == node).astype(np.int64))
            width *= BRANCHES
        out = np.vstack(levels)
    else:
        k = np.arange(1, bins)
        coefficient = np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k)))
        lag = np.subtract.outer(np.arange(bins), np.arange(bins))
        out = np.where(lag >= 0, np.round(ROOT_SCALE * coefficient)[np.abs(lag)], 0)
        out = out.astype(np.int64)
    out.flags.writeable = False
    return out


@lru_cache(maxsize=64)
def longest_column(name: str, bins: int) -> float:
    """By how much one record can move a row, in Euclidean norm."""
    design = design_matrix(name, bins).astype(np.float64)
    return float(np.sqrt((design**2).sum(axis=0).max()))


@lru_cache(maxsize=64)
def recovery(name: str, bins: int) -> Float64:
    """The least-squares inverse of D, (bins, measurements)."""
    if name == "flat":
        return np.eye(bins)
    design = design_matrix(name, bins).astype(np.float64)
    return np.linalg.solve(design.T @ design, design.T).astype(np.float64)


@lru_cache(maxsize=256)
def prefix_deviation(name: str, bins: int) -> float:
    """Noise where it matters, in units of the noise multiplier; known before any data.

    The root mean square deviation of the mass above t, found by lines between the edges, for t
    between .6 and 1: there the levels 1-α of interest lie if scores fill the bins evenly.
    """
    tails = np.vstack([np.zeros(recovery(name, bins).shape[1]), recovery(name, bins)[::-1]])
    tails = np.cumsum(tails, axis=0)
    place = np.linspace(0.02, 0.4, 20) * bins
    low = np.floor(place).astype(np.int64)
    part = (place - low)[:, None]
    upper = tails[np.minimum(low + 1, bins)]
    between = (1 - part) * tails[low] + part * upper
    return longest_column(name, bins) * float(np.sqrt((between**2).sum(axis=1).mean()))


@lru_cache(maxsize=256)
def best_design(bins: int) -> str:
    """The design with the least noise where it matters."""
    if bins > MOST_DESIGNED:
        return "flat"
    return min(DESIGNS, key=lambda name: round(prefix_deviation(name, bins), 6))
