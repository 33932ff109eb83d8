"""The cells of a sketch as records: un-mixed from what was measured, with their noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcover.sketch.design import recovery
from fedcover.sketch.table import SketchTable

Float64 = NDArray[np.float64]


def cell_records(table: SketchTable) -> Float64:
    """(rows, bins) records of every cell; negative where noise outweighs them."""
    layout = table.layout
    return table.table @ recovery(layout.design, layout.bins).T / table.scale


def cell_noise(table: SketchTable, bins: Float64 | None = None) -> float:
    """Deviation of the noise of a typical cell, in records.

    Parameters
    ----------
    bins
        (columns, bins) of 0 and 1, where several bins are shown as one column.
    """
    if table.table_sd == 0:
        return 0.0
    back = recovery(table.layout.design, table.layout.bins)
    back = back if bins is None else bins @ back
    return table.table_sd * float(np.median(np.linalg.norm(back, axis=1)))
