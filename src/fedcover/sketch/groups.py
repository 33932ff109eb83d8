"""Labels that share a row: given by the user, or learned from noisy label totals."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.sketch.table import SketchTable
from fedcover.sketch.totals import label_totals, shrunk

Float64 = NDArray[np.float64]


def numbered(groups: Sequence[Hashable]) -> tuple[int, ...]:
    """Groups as numbers from 0, in order of appearance; given as numbers or names."""
    given = list(groups) if isinstance(groups, Sequence) or np.ndim(groups) == 1 else []
    try:
        good = len({*given}) > 0 and not isinstance(groups, (str, bytes))
    except TypeError:  # a group that is a list
        good = False
    if not good:
        raise FedcoverError(
            f"groups is {groups!r}",
            allowed="None, 'auto', 'learned', or the group of every class in order",
            fix="groups=['animal', 'animal', 'vehicle'], for example",
        )
    number: dict[Hashable, int] = {}
    return tuple(number.setdefault(g, len(number)) for g in groups)


def learned_groups(
    labels: Float64, label_sd: float, records: int | None, most: int
) -> tuple[int, ...]:
    """Groups of labels of like difficulty, about equally large, from noisy label totals.

    Labels are put in the order of the share of their scores that lies above the cut, each share
    drawn towards the mean by its noise, and the order is divided into `most` parts.

    Parameters
    ----------
    labels
        (C, 2) noisy numbers of records with a score up to the cut, and above it.
    label_sd
        Noise of each.
    records
        Number of all records, where it is public.
    most
        How many groups.
    """
    totals = shrunk(labels.sum(axis=1), label_sd * np.sqrt(2), records)
    above, noise = _above(labels[:, 1], totals, label_sd)
    middle = float(totals @ above / totals.sum())
    apart = max(_between(above, noise, middle, totals), 1e-6)
    order = np.argsort(middle + apart / (apart + noise) * (above - middle), kind="stable")
    rank = np.cumsum(totals[order]) - totals[order] / 2
    part = np.minimum((rank / totals.sum() * most).astype(np.int64), most - 1)
    rows = np.empty(len(labels), dtype=np.int64)
    rows[order] = part
    return numbered(rows.tolist())  # as sites that join later will number them


def within_groups(table: SketchTable) -> tuple[float, float]:
    """Variance of F_y(cut) among labels that share a row, and the share of scores above the cut.

    As far as noise lets one see it. Groups that were learned from the same numbers look more alike
    than they are: for those it is what the noise leaves unknown of each label's difficulty.
    """
    layout = table.layout
    totals = label_totals(table)
    above, noise = _above(table.labels[:, 1] / table.scale, totals, table.label_sd)
    middle = float(np.clip(totals @ above / totals.sum(), 0.01, 0.99))
    if layout.learned:
        apart = _between(above, noise, middle, totals)
        left = apart * noise / (apart + noise + 1e-300)
        return float(np.average(left, weights=totals)), middle
    mass = np.bincount(layout.row_of, totals)
    centre = np.bincount(layout.row_of, totals * above) / np.maximum(mass, 1e-300)
    return _between(above, noise, centre[layout.row_of], totals), middle


def _above(counts: Float64, totals: Float64, sd: float) -> tuple[Float64, Float64]:
    """Share of each label's scores above the cut, and its variance by noise and by sampling."""
    totals = np.maximum(totals, 1.0)
    above = np.clip(counts / totals, 0, 1)
    middle = float(np.clip(counts.sum() / totals.sum(), 0.01, 0.99))
    return above, (sd / totals) ** 2 + middle * (1 - middle) / totals


def _between(above: Float64, noise: Float64, centre: Float64 | float, totals: Float64) -> float:
    """Variance between labels: what is seen, less what noise explains."""
    return float(max(0.0, np.average((above - centre) ** 2 - noise, weights=totals)))
