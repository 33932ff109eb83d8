"""What a query of the sketch asks, checked: a site believes no server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.privacy.noise import MOST_SIGMA
from fedcover.protocols.message import Message
from fedcover.sketch.bins import MOST_BINS, MOST_CELLS
from fedcover.sketch.design import DESIGNS, MOST_DESIGNED

MOST_SCALE = 1 << 40


@dataclass(frozen=True)
class Asked:
    """A query in good order.

    Attributes
    ----------
    cuts
        Inner edges of the score bins.
    rows
        (C,) row of each label.
    table
        Whether the table is asked for.
    columns
        Columns of the label totals, 0 for none.
    cut
        Score that parts two columns.
    design, scale, table_sigma, label_sigma
        What is measured, in which units, with how much noise.
    most
        Most records that a site puts in; 0 for all.
    """

    cuts: NDArray[np.float64]
    rows: NDArray[np.int64]
    table: bool
    columns: int
    cut: float
    design: str
    scale: int
    table_sigma: float
    label_sigma: float
    most: int

    @classmethod
    def of(cls, query: Message, n_classes: int | None = None) -> Asked:
        """What a query asks; refused by shapes and public numbers alone.

        A check that looked at the data would be an oracle.
        """
        n = query.numbers
        cuts, rows = (query.arrays.get(key, np.empty((0, 0))) for key in ("cuts", "rows"))
        good = _good_arrays(cuts, rows, n_classes)
        good = good and _whole(n, "table", 0, 1) and _whole(n, "labels", 0, 2)
        good = good and _whole(n, "design", 0, len(DESIGNS) - 1)
        good = good and _whole(n, "scale", 1, MOST_SCALE) and _whole(n, "most", 0, 1 << 40)
        good = good and all(_real(n, k, 0, MOST_SIGMA) for k in ("table_sigma", "label_sigma"))
        good = good and _real(n, "cut", 0, 1)
        if good:
            flat = n["design"] == 0
            good = flat or len(cuts) < MOST_DESIGNED
        if not good:
            raise FedcoverError(
                "a query has bins, rows or numbers outside what was agreed",
                allowed="bins in order, a row for every label, a known design, noise of 0 or more",
                fix="Do not answer this server: it would void the privacy account",
            )
        return cls(
            cuts=cuts,
            rows=rows,
            table=bool(n["table"]),
            columns=int(n["labels"]),
            cut=float(n["cut"]),
            design=DESIGNS[int(n["design"])],
            scale=int(n["scale"]),
            table_sigma=float(n["table_sigma"]),
            label_sigma=float(n["label_sigma"]),
            most=int(n["most"]),
        )

    @property
    def bins(self) -> int:
        return len(self.cuts) + 1

    @property
    def n_rows(self) -> int:
        return int(self.rows.max()) + 1


def _good_arrays(cuts: NDArray[Any], rows: NDArray[Any], n_classes: int | None) -> bool:
    good = cuts.ndim == 1 and cuts.dtype == np.float64 and 1 <= len(cuts) < MOST_BINS
    good = good and bool(np.isfinite(cuts).all() and (np.diff(cuts) > 0).all())
    good = good and rows.ndim == 1 and rows.dtype == np.int64 and len(rows) > 0
    good = good and n_classes in (None, len(rows))
    good = good and int(rows.min()) >= 0 and int(rows.max()) < len(rows)
    return good and (int(rows.max()) + 1) * (len(cuts) + 1) <= MOST_CELLS


def _whole(numbers: Mapping[str, int | float], key: str, least: int, most: int) -> bool:
    value = numbers.get(key)
    return isinstance(value, (int, np.integer)) and least <= value <= most


def _real(numbers: Mapping[str, int | float], key: str, least: float, most: float) -> bool:
    value = numbers.get(key, math.nan)
    return isinstance(value, (int, float, np.number)) and least <= value <= most
