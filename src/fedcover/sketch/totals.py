"""How many records each row and label has, from noisy totals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcover.sketch.design import recovery
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
    if table.layout.groups is None:
        return row_totals(table)[0]
    sd = table.label_sd * float(np.sqrt(table.layout.label_columns))
    return shrunk(table.labels.sum(axis=1) / table.scale, sd, table.records)


def row_totals(table: SketchTable) -> tuple[Float64, Float64]:
    """(rows,) calibration records of every row, and their deviations.

    The separate label totals and the table's own row sums both measure them; each counts by its
    noise.
    """
    layout = table.layout
    separate = np.zeros(layout.rows)
    np.add.at(separate, layout.row_of, table.labels.sum(axis=1) / table.scale)
    if table.exact:
        return separate, np.zeros(layout.rows)
    members = np.bincount(layout.row_of, minlength=layout.rows)
    given = table.label_sd**2 * layout.label_columns * members
    ones = recovery(layout.design, layout.bins).sum(axis=0)
    own = table.table_sd**2 * float(ones @ ones)
    both = (own * separate + given * (table.table @ ones / table.scale)) / (own + given)
    sd = np.sqrt(own * given / (own + given))
    return shrunk(both, float(sd.mean()), table.records), sd
