"""The table and its bins: H[label or group, score bin], summed over sites, and what is known of it.

The bins are many, fixed, public, and the same for every score. Nobody knows before the data where
scores crowd: near 1 for a model that is too sure of itself, near 0 for LAC of a good one, in the
middle for another. So the bins resolve all of it: 700 are even in the raw score, the others ever
finer towards both ends, down to the smallest number a float can hold. With factorised noise
(`fedcover.methods.sketch.factor`) many bins cost little.

Cuts are positions (`fedcover.position`), which near 1 say the distance to 1. Bin 0 is at the top.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.methods.sketch import factor
from fedcover.position import TOP, positions

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
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
    # Each end is made of its own small number, 1 - V as well as V: near 1 a subtraction would leave
    # a handful of cuts on the same float.
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


def checked_cuts(bins: ArrayLike) -> tuple[int, ...]:
    """The inner cuts of edges given by the user as scores: from 0 to 1, strictly increasing."""
    edges = checks.as_float(checks.array(bins, "bins"), "bins").astype(np.float64)
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
    # Not (upper + lower) / 2: the sum of two positions near 1 does not fit into 64 bits.
    return lower + (upper - lower) // 2


def numbered(groups: Sequence[Hashable]) -> tuple[int, ...]:
    """Groups as numbers from 0, in order of appearance; given as numbers or names."""
    listed = list(groups) if isinstance(groups, Sequence) or np.ndim(groups) == 1 else []
    try:
        valid = len({*listed}) > 0 and not isinstance(groups, (str, bytes))
    except TypeError:  # a group that is a list
        valid = False
    if not valid:
        raise FedcoverError(
            f"groups is {groups!r}",
            allowed="None, or the group of every class in order",
            fix="groups=['animal', 'animal', 'vehicle'], for example",
        )
    number: dict[Hashable, int] = {}
    return tuple(number.setdefault(g, len(number)) for g in groups)


@dataclass(frozen=True)
class Layout:
    """What the rows and columns of a table mean; tables of one layout add up.

    Attributes
    ----------
    n_classes
        Number of labels C.
    cuts
        (B - 1,) inner cuts of the score bins, as positions; a bin holds its upper edge.
    factored
        Whether D·h was sent instead of the counts h of a row (`fedcover.methods.sketch.factor`).
    groups
        (C,) row of each label; None if every label has its own row.
    """

    n_classes: int
    cuts: tuple[int, ...]
    factored: bool = False
    groups: tuple[int, ...] | None = None

    @property
    def bins(self) -> int:
        return len(self.cuts) + 1

    @property
    def rows(self) -> int:
        return self.n_classes if self.groups is None else max(self.groups) + 1

    @cached_property
    def row_of(self) -> Int64:
        """(C,) row of each label."""
        rows = np.arange(self.n_classes) if self.groups is None else np.array(self.groups)
        return rows.astype(np.int64)

    @cached_property
    def cut_array(self) -> Int64:
        """The cuts as an array."""
        return np.array(self.cuts, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SketchTable:
    """Noisy sums over sites, in whole numbers.

    Attributes
    ----------
    layout
        What they mean.
    table
        (rows, B) counts h of every row from the top bin, or D·h, times `scale`.
    labels
        (C,) label totals, times `scale`; measured separately.
    scale
        What counts were multiplied by before whole-number noise was added.
    confusion
        (C, C) how often each label was predicted for each true one, times `scale`; None if it was
        not collected.
    table_noise, label_noise, confusion_noise
        Variances of the noise of one number over `scale`, one entry for each collection that
        went in (kept apart so that adding is exact in any order).
    records
        Number of calibration records, where it is public.
    sites
        Names of the sites in the sum, in order.
    """

    layout: Layout
    table: Int64
    labels: Int64
    scale: int
    table_noise: tuple[float, ...]
    label_noise: tuple[float, ...]
    records: int | None
    sites: tuple[str, ...]
    confusion: Int64 | None = None
    confusion_noise: tuple[float, ...] = ()

    @property
    def table_sd(self) -> float:
        """Deviation of the noise of one number of the table, over `scale`."""
        return math.sqrt(math.fsum(self.table_noise))

    @property
    def label_sd(self) -> float:
        """Deviation of the noise of one label total, in records."""
        return math.sqrt(math.fsum(self.label_noise))

    @property
    def confusion_sd(self) -> float:
        """Deviation of the noise of one cell of the confusion matrix, in records."""
        return math.sqrt(math.fsum(self.confusion_noise))

    @property
    def exact(self) -> bool:
        """Whether there is no noise at all."""
        return self.table_sd == 0 and self.label_sd == 0

    @cached_property
    def separate_totals(self) -> Float64:
        """(C,) label totals as they were measured."""
        return self.labels / self.scale

    @cached_property
    def misses(self) -> Float64:
        """(rows, B) records in a bin or above it, unbiased: raw sums, never made monotone."""
        if self.layout.factored:
            return factor.sums(self.table) / self.scale
        return np.cumsum(self.table, axis=1) / self.scale

    @cached_property
    def cells(self) -> Float64:
        """(rows, B) records of every bin from the top; negative where noise outweighs them."""
        if self.layout.factored:
            return factor.counts_of(self.table) / self.scale
        return self.table / self.scale

    def miss_deviation(self, window: int = 0) -> Float64:
        """(B,) deviation of the noise of a row's misses; see `factor.sum_deviation`."""
        bins = self.layout.bins
        if self.table_sd == 0:
            return np.zeros(bins)
        return self.table_sd * factor.sum_deviation(bins, window)

    @property
    def cell_deviation(self) -> float:
        """Deviation of the noise of a cell."""
        return self.table_sd * factor.count_deviation(self.layout.bins) if self.table_sd else 0.0

    def __add__(self, other: SketchTable) -> SketchTable:
        """The table of both groups of sites; exact, and the same in any order."""
        if self.layout != other.layout:
            raise FedcoverError(
                "the two sketches have different bins, groups or numbers of classes",
                allowed="sketches of one layout",
                fix="Collect the second with method=first.method, which repeats the layout",
            )
        if common := sorted(set(self.sites) & set(other.sites)):
            raise FedcoverError(
                f"site {common[0]!r} is in both sketches",
                allowed="sketches of different sites",
                fix="To renew a sketch, collect again with previous=old: that spends new budget",
            )
        # Both in one unit, as whole numbers: sums of floats would depend on the order of merging.
        scale = math.lcm(self.scale, other.scale)
        one, two = scale // self.scale, scale // other.scale
        public = self.records is not None and other.records is not None
        pairs = None
        if self.confusion is not None and other.confusion is not None:
            pairs = self.confusion * one + other.confusion * two
        pair_noise = tuple(sorted(self.confusion_noise + other.confusion_noise))
        return replace(
            self,
            table=self.table * one + other.table * two,
            labels=self.labels * one + other.labels * two,
            scale=scale,
            # Independent noise: variances add, when they are summed up, in one order whoever
            # merged.
            table_noise=tuple(sorted(self.table_noise + other.table_noise)),
            label_noise=tuple(sorted(self.label_noise + other.label_noise)),
            records=(self.records or 0) + (other.records or 0) if public else None,
            sites=tuple(sorted(self.sites + other.sites)),
            confusion=pairs,
            confusion_noise=() if pairs is None else pair_noise,
        )


FEWEST = 1.0
"""No label is taken to have fewer records: a smaller divisor would only blow up noise."""


def shrunk(totals: Float64, sd: float, records: float | None) -> Float64:
    """Totals drawn towards their mean as far as noise explains their differences (James, Stein).

    With many labels the divisors n_y are noisy one by one, and 1/n_y of a noisy n_y is biased.
    """
    if sd == 0:
        return totals
    # The mean of many totals has little noise, and a public number has none.
    mean = max(FEWEST, float(totals.mean()) if records is None else records / len(totals))
    apart = totals - mean
    # What the totals differ by beyond their noise. Only from four on is the shrunk vector better
    # than the plain one whatever is true, as the mean is estimated, too.
    between = max(0.0, float(apart @ apart) / max(1, len(totals) - 1) - sd**2)
    keep = between / (between + sd**2) if len(totals) > 3 else 1.0
    # A divisor near 0 would make few records weigh like many: a total is not taken for less than
    # its noise, nor than a tenth of the mean where noise is larger than that.
    return np.maximum(mean + keep * apart, max(FEWEST, min(0.1 * mean, sd)))


def label_totals(table: SketchTable) -> Float64:
    """(C,) calibration records of every label."""
    return shrunk(table.separate_totals, table.label_sd, table.records)


def row_totals(table: SketchTable) -> tuple[Float64, Float64]:
    """(rows,) calibration records of every row, and the deviations of their noise."""
    row = table.layout.row_of
    # Deviations of the totals as measured, which is no less than that of the shrunk ones.
    members = np.bincount(row, minlength=table.layout.rows)
    totals = np.bincount(row, label_totals(table), table.layout.rows)
    return totals.astype(np.float64), table.label_sd * np.sqrt(members)
