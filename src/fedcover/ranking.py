"""Labels of a record beside the others: the mass above and below each, its rank, the sure label.

Everything is a sum of numbers that are not negative, never a difference of sums: what is small is
then known as exactly as what is large.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedcover.checks import Floats

Float64 = NDArray[np.float64]
Ranks = NDArray[np.int64]


class Rows:
    """Some rows of probabilities, for one label of each, (n, 1), or for all of them, (n, C).

    Parameters
    ----------
    p
        (n, C) probabilities.
    labels
        (n,) the label of each row that is asked about; None for all.
    compiled
        Whether a compiled sort does it.
    upper, lower
        Whether the mass above, and below, will be asked for.
    """

    def __init__(
        self,
        p: Floats,
        labels: NDArray[np.int64] | None = None,
        compiled: bool = False,
        upper: bool = True,
        lower: bool = True,
    ) -> None:
        self._p, self._labels, self._how = p, labels, (compiled, upper, lower)
        # In double precision before any sum, which then does not depend on neighbouring rows.
        self._wide = np.ascontiguousarray(p, dtype=np.float64)
        self.n_classes = p.shape[1]

    @cached_property
    def own(self) -> Float64:
        """The probabilities asked about."""
        if self._labels is None:
            return self._wide
        return self._wide[np.arange(len(self._wide)), self._labels][:, None]

    @cached_property
    def total(self) -> Float64:
        """(n, 1) sum of each row."""
        return self._wide.sum(axis=1, keepdims=True)

    @cached_property
    def top(self) -> Float64:
        """(n, 1) largest probability of each row."""
        return self._wide.max(axis=1, keepdims=True)

    @cached_property
    def rest(self) -> Float64:
        """(n, 1) sum of each row without its largest entry."""
        others = self._wide.copy()
        # Set to 0 before summing, not subtracted after: near 1 the difference would have no digits.
        others[np.arange(len(others)), others.argmax(axis=1)] = 0
        return others.sum(axis=1, keepdims=True)

    @cached_property
    def rival(self) -> Float64:
        """The largest probability among the other labels."""
        # The largest two are enough: one's own label is among them or not.
        two = np.partition(self._wide, self.n_classes - 2, axis=1)[:, -2:]
        return np.where(self.own == two[:, 1:], two[:, :1], two[:, 1:])

    @property
    def above(self) -> Float64:
        """ρ: the sum of the probabilities strictly above."""
        return self._masses[0]

    @property
    def below(self) -> Float64:
        """The sum of all other probabilities that are not above: those below, and equal ones."""
        return self._masses[1]

    @property
    def rank(self) -> Ranks:
        """1 + the number of more likely labels."""
        return self._masses[2]

    @cached_property
    def _masses(self) -> tuple[Float64, Float64, Ranks]:
        if self._labels is None:
            return masses(self._p, *self._how)
        p, own = self._wide, self.own
        higher, lower = p > own, p < own
        rank = 1 + np.count_nonzero(higher, axis=1, keepdims=True).astype(np.int64)
        ties = self.n_classes - rank - np.count_nonzero(lower, axis=1, keepdims=True)
        above = np.multiply(p, higher).sum(axis=1, keepdims=True)
        return above, np.multiply(p, lower).sum(axis=1, keepdims=True) + ties * own, rank


def masses(
    p: Floats, compiled: bool, upper: bool = True, lower: bool = True
) -> tuple[Float64, Float64, Ranks]:
    """For every label of every row: the mass strictly above, all other mass, and the rank.

    Equal probabilities share all three. What is not needed, `upper` or `lower`, is left empty. The
    compiled form (a radix sort per row, three times as fast) gives the same numbers to the last
    bit; it is for large inputs, because loading the compiler takes half a second.
    """
    if compiled:
        from fedcover.ranking_compiled import masses as fast

        bits = np.uint32 if p.dtype == np.float32 else np.uint64
        rows = np.ascontiguousarray(p)
        return fast(rows, rows.view(bits), upper, lower)
    n, c = p.shape
    order = np.argsort(p, axis=1)[:, ::-1]
    ordered = np.take_along_axis(p, order, axis=1)
    first = np.ones((n, c), dtype=bool)
    np.less(ordered[:, 1:], ordered[:, :-1], out=first[:, 1:])
    # Labels that tie have what the first of them has.
    at, ties = np.broadcast_to(np.arange(c), (n, c)), not first.all()
    if ties:
        at = np.maximum.accumulate(np.where(first, at, 0), axis=1)
    above, below = np.empty((n * upper, c)), np.empty((n * lower, c))
    rank = np.empty((n, c), dtype=np.int64)
    np.put_along_axis(rank, order, at + 1, axis=1)
    for needed, out, along in ((upper, above, ordered), (lower, below, ordered[:, ::-1])):
        if needed:
            # Exclusive sums, each from its own end: below is never 1 minus above.
            mass = np.zeros((n, c))
            np.cumsum(along[:, :-1], axis=1, dtype=np.float64, out=mass[:, 1:])
            mass = mass if out is above else mass[:, ::-1]
            mass = np.take_along_axis(mass, at, axis=1) if ties else mass
            np.put_along_axis(out, order, mass, axis=1)
    return above, below, rank
