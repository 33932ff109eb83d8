"""Labels of a record by their probability: the mass above each, and its rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.checks import Floats

Float64 = NDArray[np.float64]
Ranks = NDArray[np.int64]


def mass_above_label(p: Floats, y: NDArray[np.int64]) -> Float64:
    """ρ for one label per row: the sum of the probabilities strictly above it, without a sort."""
    above = p > p[np.arange(len(p)), y][:, None]
    return np.multiply(p, above).sum(axis=1, dtype=np.float64)


def rank_of_label(p: Floats, y: NDArray[np.int64]) -> Ranks:
    """1 + the number of more likely labels, for one label per row."""
    above = p > p[np.arange(len(p)), y][:, None]
    return 1 + np.count_nonzero(above, axis=1).astype(np.int64)


def above_all(p: Floats, compiled: bool) -> tuple[Float64, Ranks]:
    """For every label of every row: the mass strictly above it, and its rank.

    Equal probabilities share both. The compiled form (a radix sort per row, three times as fast)
    gives the same numbers to the last bit; it is for large inputs, because loading the compiler
    takes half a second.
    """
    if compiled:
        from fedcover.ranking_compiled import above_all as fast

        bits = np.uint32 if p.dtype == np.float32 else np.uint64
        rows = np.ascontiguousarray(p)
        return fast(rows, rows.view(bits))
    n, c = p.shape
    order = np.argsort(p, axis=1)[:, ::-1]
    ordered = np.take_along_axis(p, order, axis=1)
    mass, rank = np.zeros((n, c)), np.broadcast_to(np.arange(1, c + 1), (n, c))
    np.cumsum(ordered[:, :-1], axis=1, dtype=np.float64, out=mass[:, 1:])
    first = np.ones((n, c), dtype=bool)
    np.less(ordered[:, 1:], ordered[:, :-1], out=first[:, 1:])
    if not first.all():
        mass, rank = _spread(mass, first), _spread(rank, first)
    out_mass, out_rank = np.empty((n, c)), np.empty((n, c), dtype=np.int64)
    np.put_along_axis(out_mass, order, mass, axis=1)
    np.put_along_axis(out_rank, order, rank, axis=1)
    return out_mass, out_rank


def _spread(values: NDArray[Any], first: NDArray[np.bool_]) -> NDArray[Any]:
    """Give every position the value at the last `first` mark before it; values grow along rows."""
    return np.maximum.accumulate(np.where(first, values, 0), axis=1)


def top_two(p: Floats) -> Floats:
    """The second largest and the largest probability of each row, (n, 2)."""
    return np.partition(p, p.shape[1] - 2, axis=1)[:, -2:]
