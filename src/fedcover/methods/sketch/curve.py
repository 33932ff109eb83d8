"""A target's misses from the table, G(q) = Σ_y P*(y) (1 - F_y(q)), and where they reach α.

Under label shift the scores of one label are distributed alike at all sites, so the misses of a
target at a threshold q are those of the rows, weighted by the target's own label distribution P*.
A row's misses are divided by its number of records: c_y = P*(y)/n_y weighs them. Misses are counted
from the top and not hits from the bottom: an error in n_y then multiplies α, and not 1-α.

With noise nothing is assumed about the shape of the scores. What is done with the sums is linear
(weights, and a moving average where the noise is larger than what it may blur), then they are made
monotone, and the threshold is the middle of the bin in which they reach α.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedcover.methods.sketch import factor
from fedcover.methods.sketch.table import (
    SketchTable,
    label_totals,
    middles,
    row_totals,
    upper_edges,
)
from fedcover.quantile import rounding_slack

Float64 = NDArray[np.float64]
Positions = NDArray[np.int64]

WHOLE_BIN = 0.01
"""Share of the target's scores in one bin from which its upper edge is taken: it may be one value
with that mass, and then its middle would miss all of it."""


@dataclass(frozen=True)
class Mixture:
    """A target's weights on the rows of a table.

    Attributes
    ----------
    table
        The table.
    mix
        (C,) the target's label distribution P*.
    """

    table: SketchTable
    mix: Float64

    @cached_property
    def weights(self) -> Float64:
        """(rows,) share of the target's labels in each row."""
        layout = self.table.layout
        return np.bincount(layout.row_of, self.mix, layout.rows).astype(np.float64)

    @cached_property
    def _totals(self) -> tuple[Float64, Float64]:
        return row_totals(self.table)

    @property
    def totals(self) -> Float64:
        """(rows,) records of each row."""
        return self._totals[0]

    @property
    def total_sds(self) -> Float64:
        """(rows,) and how uncertain noise leaves them."""
        return self._totals[1]

    @cached_property
    def records(self) -> Float64:
        """(C,) records of each label."""
        return self.totals if self.table.layout.groups is None else label_totals(self.table)

    @cached_property
    def shares(self) -> Float64:
        """(rows,) weight of one record of each row, as a share of all: c."""
        # Only without noise can a row be empty: it has no misses, and its share is in `unseen`.
        n = self.totals
        return np.divide(self.weights, n, out=np.zeros_like(n), where=n > 0)

    @cached_property
    def unseen(self) -> Float64:
        """(C,) share of the target's labels that no record has; only known without noise."""
        # Behind noise no row is known to be empty.
        if not self.table.exact:
            return np.zeros(len(self.mix))
        return np.where(self.totals[self.table.layout.row_of] == 0, self.mix, 0.0)

    def quantile(self, alpha: float) -> Quantile:
        """Where the misses reach α."""
        return _exact(self, alpha) if self.table.exact else _noisy(self, alpha)


@dataclass(frozen=True)
class Quantile:
    """Thresholds of one level, and what they rest on.

    Attributes
    ----------
    positions
        (C,) the threshold of every query label.
    bin
        The bin in which the misses reach α.
    misses
        (B,) the target's misses, monotone.
    shares
        (rows,) weight of one record of each row, after what noise made of it.
    row_misses
        (rows,) share of the records of each row above that bin's middle.
    noise
        Deviation of the misses there by privacy noise on the table.
    cells
        (B,) the target's share in each bin, as measured.
    smoothing
        Deviation by drawing rows that noise hides towards all records.
    kept
        How much of what sets the target apart from all records is left.
    """

    positions: Positions
    bin: int
    misses: Float64
    shares: Float64
    row_misses: Float64
    noise: float
    cells: Float64
    smoothing: float
    kept: float


def _exact(mixed: Mixture, alpha: float) -> Quantile:
    """The first edge at which the coverage reaches (1-α)(W + w_y)/W: no more than a bin too high.

    In misses: at most W - (1-α)(W + w_y), with W the mass of the labels that have records.
    """
    table, c = mixed.table, mixed.shares
    misses = c @ table.misses
    seen = float(misses[-1])
    label_share = c[table.layout.row_of]
    # The level (1-α)(W + w_y) of eq. (8), told in misses: the query brings w_y of its own, all of
    # it at the score 1.
    level = seen - (1 - alpha) * (seen + label_share)
    slack = rounding_slack(seen, int(mixed.totals.sum()))
    # The lowest edge with no more misses than that. A sum that only rounding puts above the level
    # counts as equal to it: without slack sets would grow by a bin, at random.
    at = np.searchsorted(misses, level + slack, side="right")
    edges = upper_edges(table.layout.cut_array)
    out = edges[np.minimum(at, len(edges) - 1)]
    # The score 1 where no record speaks for the label, and where even all records fall short of the
    # level: the quantile is then the point mass at 1.
    out = np.where((mixed.unseen > 0) | (seen <= 0) | (level + slack < 0), edges[0], out)
    # Errors are those of the target as a whole, hence the level without any query.
    i = int(np.clip(np.searchsorted(misses, alpha * seen, side="right"), 0, len(misses) - 1))
    n = np.maximum(mixed.totals, 1.0)
    return Quantile(out, i, misses, c, table.misses[:, i] / n, 0.0, c @ table.cells, 0.0, 1.0)


def _noisy(mixed: Mixture, alpha: float) -> Quantile:
    table = mixed.table
    c, kept, smoothing = _steadied(mixed, alpha)
    # Noise of the rows is independent, so a sum over rows has ‖c‖ times the noise of one.
    size = float(np.linalg.norm(c))
    cells = c @ table.cells
    cell_sd = table.cell_deviation * size
    misses, i, noise = _smoothed(c @ table.misses, cells, cell_sd, table, size, alpha)
    # Between two records the level that is unbiased lies half a record's weight below (1-α)(1+c).
    level = alpha - (0.5 - alpha) * c[table.layout.row_of]
    at = np.minimum(np.searchsorted(misses, level, side="right"), len(misses) - 1)
    cuts = table.layout.cut_array
    # The middle is off by half a bin at the most, whichever way scores lie in it. A bin that may be
    # one tied value needs its upper edge, or all of that value would be missed. So does the top
    # bin: where it alone holds more than the level, every label belongs into the set.
    whole = (cells[at] > WHOLE_BIN) | (at == 0)
    out = np.where(whole, upper_edges(cuts)[at], middles(cuts)[at])
    rows = _row_misses(mixed, i, alpha)
    return Quantile(out, i, misses, c, rows, noise, cells, smoothing, kept)


def _monotone(values: Float64) -> Float64:
    from scipy.optimize import isotonic_regression

    # True misses grow from the top and are shares. The nearest curve of that kind is never farther
    # from the true one than the noisy sums are, and assumes nothing else about it.
    return np.clip(isotonic_regression(values).x, 0, 1)


def _averaged(values: Float64, window: int) -> Float64:
    """The mean over so many neighbours on either side, fewer near the ends: lines stay lines."""
    if window == 0:
        return values
    ahead = np.concatenate([[0.0], np.cumsum(values)])
    i = np.arange(len(values))
    w = np.minimum(np.minimum(i, len(values) - 1 - i), window)
    return (ahead[i + w + 1] - ahead[i - w]) / (2 * w + 1)


def _smoothed(
    raw: Float64, cells: Float64, cell_sd: float, table: SketchTable, size: float, alpha: float
) -> tuple[Float64, int, float]:
    """Misses made monotone, the bin in which they reach α, and their deviation by noise there.

    Sums are averaged over the widest window that holds no more mass than a deviation of the noise,
    and no single bin that clearly is a crowd: what the average may blur is then less than the noise
    it takes away. Both are read off the noisy sums themselves.
    """
    for window in factor.windows(len(raw)):
        misses = _monotone(_averaged(raw, window))
        i = min(int(np.searchsorted(misses, alpha, side="right")), len(misses) - 1)
        noise = float(table.miss_deviation(window)[i]) * size
        low, high = max(i - window - 1, 0), min(i + window, len(raw) - 1)
        # Noise alone lifts few bins by three of its deviations; one taken for a crowd by mistake
        # only costs smoothing.
        crowd = cells[low : high + 1].max() > WHOLE_BIN + 3 * cell_sd
        if window == 0 or (misses[high] - misses[low] <= noise and not crowd):
            break
    misses = _with_steps(misses, i, raw, cells > WHOLE_BIN + 3 * cell_sd, noise)
    return misses, min(int(np.searchsorted(misses, alpha, side="right")), len(raw) - 1), noise


def _with_steps(
    misses: Float64, i: int, raw: Float64, crowds: NDArray[np.bool_], noise: float
) -> Float64:
    """Misses between two values that many records share: flat, and known by their mean.

    A monotone fit rises with the noise along such a step, from below its level to above it, and
    would end a set just under a value that belongs into it.
    """
    # Crowds above the bin where α is reached, and those at or below it; where α is reached inside
    # one, no step is in the way.
    at = np.flatnonzero(crowds)
    above, below = at[at < i], at[at >= i]
    if not len(above) or not len(below) or below[0] == i:
        return misses
    step = slice(above[-1], below[0])
    # A curve that still climbs between the two holds records there, and is no step.
    first, second = np.array_split(raw[step], 2)
    if abs(second.mean() - first.mean()) > noise:
        return misses
    out = misses.copy()
    out[step] = raw[step].mean()
    return _monotone(out)


def _steadied(mixed: Mixture, alpha: float) -> tuple[Float64, float, float]:
    """Weights of rows that noise does not drown, what is kept, and the deviation it brings.

    Two steps, both without effect where records are many. A row whose miss rate has noise of more
    than 1 says nothing: all records stand for it. Then the target's distance D to all records is
    drawn towards 0 as far as its noise explains it, with a prior that expects distances of the size
    of α and believes large ones (Student's t, 3 degrees of freedom).
    """
    table, n = mixed.table, mixed.totals
    all_records = np.full(len(n), 1 / n.sum())
    pooled = _monotone(all_records @ table.misses)
    # The bin is found on all records and not on the target's own curve, whose crossing the noise to
    # be judged here would have a hand in.
    i = min(int(np.searchsorted(pooled, alpha, side="right")), len(pooled) - 1)
    sd = float(table.miss_deviation()[i])
    heard = sd <= n
    lost = np.where(heard, 0.0, mixed.weights)
    c = np.where(heard, mixed.shares, 0.0) + lost.sum() * all_records
    # D = Σ (c_y - 1/N) M_y, a sum over rows with independent noise.
    apart = c - all_records
    noise = sd * float(np.linalg.norm(apart))
    kept, square = 1.0, 0.0
    if noise > 0:
        kept, square = _believed(float(apart @ table.misses[:, i]), noise, alpha)
    # A share of mean α has at most the variance α(1-α).
    bias = kept**2 * alpha * (1 - alpha) * float(lost @ lost) + (1 - kept) ** 2 * square
    return kept * c + (1 - kept) * all_records, kept * (1 - float(lost.sum())), bias**0.5


def _believed(seen: float, noise: float, scale: float) -> tuple[float, float]:
    """How much of a distance is kept, and the mean square of the true one, given a noisy one."""
    from scipy.stats import t

    # Bayes by summation: beyond eight deviations the noise has less than e^-32 of its density.
    at = seen + noise * np.linspace(-8, 8, 801)
    # Heavy tails keep large distances nearly whole, where a normal prior would draw all in like
    # proportion. Logarithms first: densities far out would underflow.
    log = t.logpdf(at / scale, 3) - ((at - seen) / noise) ** 2 / 2
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    kept = float(np.clip(mass @ at / seen, 0, 1)) if seen else 0.0
    return kept, float(mass @ at**2)


def _row_misses(mixed: Mixture, i: int, alpha: float) -> Float64:
    """(rows,) miss rates at a bin, drawn towards α where noise hides them."""
    table, n = mixed.table, np.maximum(mixed.totals, 1.0)
    spread = alpha * (1 - alpha)
    # The best linear mean of a noisy rate and α, if rates of mean α spread as far as they can,
    # α(1-α): nothing is drawn further than noise alone asks for.
    kappa = spread / (spread + (float(table.miss_deviation()[i]) / n) ** 2)
    return np.clip(kappa * table.misses[:, i] / n + (1 - kappa) * alpha, 0, 1)
