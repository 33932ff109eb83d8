"""Bins, rows and noise of a sketch, from public quantities and a budget; all before any message."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedcover.errors import FedcoverError
from fedcover.privacy import accounting
from fedcover.privacy.events import Event, GaussianRelease
from fedcover.privacy.statement import Privacy
from fedcover.sketch.bins import EXACT_BINS, MOST_CELLS, even_edges, from_even
from fedcover.sketch.design import best_design, longest_column, prefix_deviation
from fedcover.sketch.table import Layout

LABEL_SHARE = {1: 0.15, 2: 0.3}
"""Part of the budget for the separate label totals, by their number of columns."""

LEAST_SHARE_SIGMA = 50.0
"""Scaled deviation of one site's noise from which discrete noise is accounted as continuous."""

INSIDE = 0.07
"""Expected error of looking inside a bin, as a share of its mass; measured on real scores."""

TOO_NOISY = 0.02
"""Predicted noise of a bin of the mixture beyond which labels are pooled into groups."""

MOST_GROUPS = 20
"""Groups that are learned; more would be as noisy as labels, fewer would mix unlike ones."""

END_BINS = 120
"""Bins without noise inside the first and the last of the even ones."""

FEWEST_BINS, MOST_NOISY_BINS = 5, 64
"""Bins with noise."""

RECORDS_UNKNOWN = 1000
"""What bins are chosen for where the number of records is not public."""


@dataclass(frozen=True)
class Noise:
    """Noise of the two parts of a sketch.

    Attributes
    ----------
    scale
        What counts are multiplied by before whole-number noise.
    table_sigma, label_sigma
        Deviation of the noise that one site adds, in scaled units.
    table_variance, label_variance
        Variance of one site's noise, in records².
    events
        What it costs, seen by whom the budget names.
    """

    scale: int
    table_sigma: float
    label_sigma: float
    table_variance: float
    label_variance: float
    events: tuple[Event, ...]


NO_NOISE = Noise(1, 0.0, 0.0, 0.0, 0.0, ())


def reach(privacy: Privacy, most_per_site: int | None) -> float:
    """How far one unit moves a table of counts: two cells if replaced, all records of a site."""
    # A record that comes into a limited choice makes another fall out: two cells move as well.
    limited = privacy.unit == "record" and most_per_site is not None
    cells = math.sqrt(2) if privacy.relation == "replace" or limited else 1.0
    return cells * unit_records(privacy, most_per_site)


def unit_records(privacy: Privacy, most_per_site: int | None) -> int:
    """Records in one unit of privacy."""
    if privacy.unit == "record":
        return 1
    if most_per_site is None:
        raise FedcoverError(
            "privacy.unit is 'site' and a site may have any number of records",
            allowed="most_per_site=… with unit='site'",
            fix="Say how many records a site may put in at most; it takes a random choice of them",
        )
    return most_per_site


def unknown_shares(privacy: Privacy, n_sites: int) -> int:
    """Noise shares that a viewer cannot take off: all but one, because a site knows its own."""
    return max(1, n_sites - 1) if privacy.view == "secure-sum" else 1


def noise_for(
    privacy: Privacy | None, layout: Layout, n_sites: int, most_per_site: int | None
) -> Noise:
    """Noise that spends exactly the budget on the table and on the label totals."""
    if privacy is None:
        return NO_NOISE
    labels = LABEL_SHARE[layout.label_columns]
    label_z, table_z = accounting.split_noise(privacy.epsilon, privacy.delta, (labels, 1 - labels))
    moved = reach(privacy, most_per_site)
    column = longest_column(layout.design, layout.bins)
    # Deviations, in records, of the noise that a viewer cannot take off.
    label, table = label_z * moved, table_z * moved * column
    others = unknown_shares(privacy, n_sites)
    scale = 64
    while scale * min(label, table) < LEAST_SHARE_SIGMA * math.sqrt(others):
        scale *= 2
    return Noise(
        scale=scale,
        table_sigma=scale * table / math.sqrt(others),
        label_sigma=scale * label / math.sqrt(others),
        table_variance=table**2 / others,
        label_variance=label**2 / others,
        events=(
            GaussianRelease("label totals", scale * label, scale * moved),
            GaussianRelease("label × score table", scale * table, scale * moved * column),
        ),
    )


def row_noise(privacy: Privacy, n_sites: int, most_per_site: int | None, columns: int) -> float:
    """Deviation of the noise of one bin of the summed table, per unit of its longest column."""
    z = accounting.noise_multiplier(privacy.epsilon, privacy.delta)
    shared = n_sites / unknown_shares(privacy, n_sites)
    return z * reach(privacy, most_per_site) * math.sqrt(shared / (1 - LABEL_SHARE[columns]))


def mixture_noise(sigma: float, rows: int, records: int) -> float:
    """Predicted noise of a bin of a target's mixture: σ‖c‖ with evenly spread rows, and some.

    Targets lean to some labels, the more so the fewer there are: three times with 3 labels, half
    as much more with many.
    """
    uneven = 1.5 * (1 + math.sqrt(3 / max(rows, 3)))
    return uneven * sigma * math.sqrt(rows) / records


def groups_pay(
    privacy: Privacy, n_classes: int, n_sites: int, records: int, most: int | None
) -> bool:
    """Whether labels are so many, for so few records, that their rows drown in noise."""
    sigma = row_noise(privacy, n_sites, most, columns=1)
    return n_classes > MOST_GROUPS and mixture_noise(sigma, n_classes, records) > TOO_NOISY


def predicted_error(bins: int, noise: float) -> float:
    """Coverage error to expect of `bins` bins with this much noise each."""
    return math.hypot(noise * prefix_deviation(best_design(bins), bins), INSIDE / bins)


def least_error(noise: float) -> float:
    """Coverage error to expect of the best number of bins."""
    return min(predicted_error(b, noise) for b in range(FEWEST_BINS, MOST_NOISY_BINS + 1))


@lru_cache(maxsize=16)
def exact_edges(rows: int) -> tuple[float, ...]:
    """Bins without noise: as many as give thresholds to 1e-3, unless the table gets too large.

    Scores crowd at the ends of [0, 1], where 1e-3 is coarse: more edges follow there, each distance
    to the end 8 % smaller than the one before, down to 1e-7.
    """
    most = MOST_CELLS // rows
    bins = int(np.clip(most - 2 * END_BINS, 64, EXACT_BINS))
    ends = np.geomspace(1e-7, 1 / bins, min(END_BINS, max(0, most - bins) // 2), endpoint=False)
    return tuple(np.unique(np.concatenate([np.arange(bins + 1) / bins, ends, 1 - ends])).tolist())


@lru_cache(maxsize=64)
def noisy_edges(noise: float, warp: str, stops: tuple[float, ...]) -> tuple[float, ...]:
    """Bins with the least predicted error; `stops` are α above whose quantile an edge is needed."""
    bins = min(range(FEWEST_BINS, MOST_NOISY_BINS + 1), key=lambda b: predicted_error(b, noise))
    extra = from_even(np.array([1 - a / 2 for a in stops]), warp)
    return tuple(np.unique(np.append(even_edges(bins, warp), extra)).tolist())
