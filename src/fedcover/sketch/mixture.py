"""A target's score distribution from the table: G(q) = Σ_y P*(y) F_y(q), and how uncertain it is.

Under label shift the scores of one label are distributed alike at all sites, so the target's
distribution function is a mixture of the rows of the table, weighted by the target's own label
distribution P*. Noise of the rows is independent and of one size: the mixture has the same design
as a row, and noise σ‖c‖ with c_y = P*(y)/n_y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover.protocols.noisy_curve import MARGIN, Curve, Grid, posterior_curve
from fedcover.quantile import rounding_slack
from fedcover.sketch.bins import from_even
from fedcover.sketch.design import design_matrix, recovery
from fedcover.sketch.table import SketchTable
from fedcover.sketch.totals import label_totals, row_totals

Float64 = NDArray[np.float64]

APART = 0.12
"""How far a target's distribution function is expected to be from that of all records."""

CROWDED = 3.0
"""A bin with this many times its expected mass, beyond noise, is too coarse to look inside."""


@dataclass(frozen=True)
class Mixture:
    """The distribution function of a target's scores at the edges of the bins.

    Attributes
    ----------
    curve
        Its values, and the deviation that privacy noise leaves them.
    shares
        (C,) weight of one record of each label, as a share of all: c_y.
    rows
        (rows, B + 1) distribution function of each row; noisy where the table is.
    weights
        (rows,) share of the target's labels in each row.
    totals, total_sds
        (rows,) records of each row, and how uncertain noise leaves them.
    records
        (C,) records of each label.
    unseen
        (C,) share of the target's labels that no record has.
    row_noise
        Deviation of the noise of a row's sums, in records.
    kept
        How much of the difference between the target and all records the noise leaves.
    """

    curve: Curve
    shares: Float64
    rows: Float64
    weights: Float64
    totals: Float64
    total_sds: Float64
    records: Float64
    unseen: Float64
    row_noise: float
    kept: float

    def sampling_variance(self, alpha: float) -> float:
        """Of the coverage, because records are a sample: Σ_y P*(y)² F_y(1-F_y)/n_y at 1-α.

        Where noise drowns F_y(q), the 1-α of all labels together stands for it.
        """
        seen = self.totals > 0
        own = np.clip(self.rows[seen, self.edge(alpha)], 0, 1)
        noise = np.minimum(self.row_noise / self.totals[seen], 1)
        spread = (1 - noise) * own * (1 - own) + noise * alpha * (1 - alpha)
        return float(np.sum(self.weights[seen] ** 2 * spread / self.totals[seen]))

    def noise_variance(self, alpha: float) -> float:
        """Of the coverage, because of privacy noise; at the nearest edge."""
        return float(self.curve.sd[self.edge(alpha)] ** 2)

    def between_labels(self, alpha: float, noise: float) -> float:
        """Variance of F_y(q) over the target's labels y: what an error in P* is multiplied by."""
        values = self.rows[:, self.edge(alpha)]
        seen = self.totals > 0
        share = self.weights[seen] / max(self.weights[seen].sum(), 1e-300)
        apart = values[seen] - share @ values[seen]
        blur = share @ (noise / self.totals[seen]) ** 2
        return float(np.clip(share @ apart**2 - blur, 0.0, 0.25))

    def edge(self, alpha: float) -> int:
        """The edge at which the distribution function is nearest to 1-α."""
        return int(np.argmin(np.abs(self.curve.values - (1 - alpha))))


def mixture(table: SketchTable, wanted: Float64) -> Mixture:
    """The target with label distribution `wanted`, (C,)."""
    layout = table.layout
    weights = np.bincount(layout.row_of, wanted, layout.rows).astype(np.float64)
    totals, total_sds = row_totals(table)
    bins = table.table.astype(np.float64)
    if layout.design != "flat":  # a thousand bins through the identity would take its time
        bins = bins @ recovery(layout.design, layout.bins).T
    rows = np.hstack([np.zeros((layout.rows, 1)), np.cumsum(bins, axis=1) / table.scale])
    rows = np.divide(rows, totals[:, None], out=np.zeros_like(rows), where=totals[:, None] > 0)
    records = totals if layout.groups is None else label_totals(table)
    share = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    if table.exact:
        unseen = np.where(totals[layout.row_of] == 0, wanted, 0.0)
        curve = Curve(layout.edge_array, weights @ rows, np.zeros(len(layout.edges)))
        known = (weights, totals, total_sds, records)
        return Mixture(curve, share[layout.row_of], rows, *known, unseen, 0.0, kept=1.0)
    share, total_sd = _normalised(table, share, weights, totals, total_sds)
    # Draw the mixture towards that of all records as far as noise, not shift, explains it.
    noise = 2 * table.table_sd**2 * float(share @ share)
    kept = APART**2 / (APART**2 + noise)
    mixed = kept * share + (1 - kept) / totals.sum()
    observed = mixed @ table.table / table.scale
    curve = posterior_curve(
        Grid(layout.edge_array, np.diff(layout.even)),
        design_matrix(layout.design, layout.bins).astype(np.float64),
        observed,
        np.full(len(observed), table.table_sd * float(np.linalg.norm(mixed))),
        total_sd=max(1e-3, kept * total_sd),
    )
    known = (weights, totals, total_sds, records)
    return Mixture(
        curve, mixed[layout.row_of], rows, *known, np.zeros(len(wanted)), table.table_sd, kept
    )


def _normalised(
    table: SketchTable, share: Float64, weights: Float64, totals: Float64, total_sds: Float64
) -> tuple[Float64, float]:
    """The weights c so that the mixture's mass is 1, and how far it may still be from that.

    Divisors n_y are noisy and shrunk, so the mass may be off by as much as a typical one of them.
    The table's own row sums say by how much; both count by their uncertainty.
    """
    ones = recovery(table.layout.design, table.layout.bins).sum(axis=0)
    measured = float(share @ (table.table @ ones)) / table.scale
    noise = (table.table_sd * float(np.linalg.norm(share) * np.linalg.norm(ones))) ** 2
    divisors = float(weights @ (total_sds / totals) ** 2)
    mass = (measured * divisors + noise) / (divisors + noise)
    mass = float(np.clip(mass, 0.5, 2.0))
    return share / mass, float(np.sqrt(noise * divisors / (noise + divisors)))


def thresholds(
    table: SketchTable, mixed: Mixture, alphas: tuple[float, ...], mode: str, margins: Float64
) -> tuple[Float64, NDArray[np.bool_]]:
    """Where the distribution function reaches (1-α)(W + w_y)/W, (A, C); whether bins crowd, (A,).

    Without noise: the first edge at which it does, less than a bin above the exact quantile. With
    noise, balanced: on a line inside the bin. Guaranteed: the first edge at which the function less
    `margins`, (A,), does. A bin that holds far more than expected is not looked into either.
    """
    curve, even = mixed.curve, table.layout.even
    keep = 1 - np.asarray(alphas)[:, None]
    seen = float(curve.values[-1])
    level = keep * (seen + mixed.shares) + MARGIN[mode] * margins[:, None]
    if table.exact:
        slack = rounding_slack(seen, int(mixed.totals.sum()))
        values = np.append(curve.values, np.inf)
        at = np.searchsorted(values, level - slack)
        out = np.append(curve.scores, 1.0)[at]
        full = (mixed.unseen > 0) | (seen <= 0)
        return np.where(full, 1.0, out), np.zeros(len(alphas), dtype=bool)
    lowered = np.maximum.accumulate(curve.values)
    up = np.append(curve.scores, 1.0)[np.minimum(np.searchsorted(lowered, level), len(lowered))]
    if mode == "guaranteed":
        return up, np.zeros(len(alphas), dtype=bool)
    rising = lowered + 1e-12 * np.arange(len(lowered))  # strictly growing, for the inverse
    inside = from_even(np.interp(level, rising, even), table.layout.warp)
    bin_of = np.clip(np.searchsorted(lowered, level[:, 0]) - 1, 0, table.layout.bins - 1)
    mass, sd = np.diff(lowered)[bin_of], np.diff(even)[bin_of]
    crowded = mass > CROWDED * sd + 2 * mixed.curve.sd[bin_of]
    out = np.where(level > lowered[-1], 1.0, np.where(crowded[:, None], up, inside))
    return out, crowded
