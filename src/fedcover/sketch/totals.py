"""How many records each row and label has, from noisy totals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcover.sketch.table import SketchTable

Float64 = NDArray[np.float64]

FEWEST = 1.0
"""No label is taken to have fewer records: a smaller divisor would only blow up noise."""


def shrunk(totals: Float64, sd: float, records: float | None) -> Float64:
    """Totals drawn towards their mean as far as noise explains their differences (James, Stein).

    With many labels the divisors n_y are noisy one by one, and 1/n_y of a noisy n_y is biased.
    """
    if sd == 0:
        return totals
    mean = max(FEWEST, float(totals.mean()) if records is None else records / len(totals))
    apart = totals - mean
    between = max(0.0, float(apart @ apart) / max(1, len(totals) - 1) - sd**2)
    keep = between / (between + sd**2) if len(totals) > 3 else 1.0
    return np.maximum(mean + keep * apart, max(FEWEST, min(0.1 * mean, sd)))


def label_totals(table: SketchTable) -> Float64:
    """(C,) calibration records of every label."""
    return shrunk(table.separate_totals, table.label_sd, table.records)


def row_totals(table: SketchTable) -> tuple[Float64, Float64]:
    """(rows,) calibration records of every row, and the deviations of their noise."""
    row = table.layout.row_of
    members = np.bincount(row, minlength=table.layout.rows)
    totals = np.bincount(row, label_totals(table), table.layout.rows)
    return totals.astype(np.float64), table.label_sd * np.sqrt(members)
