"""The table itself: H[label or group, score bin], summed over sites, with what is known of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.sketch.bins import to_even
from fedcover.sketch.design import design_matrix

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """What the rows and columns of a table mean; tables of one layout add up.

    Attributes
    ----------
    n_classes
        Number of labels C.
    edges
        (B + 1,) edges of the score bins; a bin holds its upper edge.
    warp
        The transform in which the bins are even: "even", "upper" or "lower".
    design
        What is measured of a row: "flat", "tree" or "root".
    groups
        (C,) row of each label; None if every label has its own row.
    learned
        Whether the groups were learned from the label totals; of no matter for adding.
    """

    n_classes: int
    edges: tuple[float, ...]
    warp: str = "even"
    design: str = "flat"
    groups: tuple[int, ...] | None = None
    learned: bool = field(default=False, compare=False)

    @property
    def bins(self) -> int:
        return len(self.edges) - 1

    @property
    def rows(self) -> int:
        return self.n_classes if self.groups is None else max(self.groups) + 1

    @cached_property
    def row_of(self) -> Int64:
        """(C,) row of each label."""
        rows = np.arange(self.n_classes) if self.groups is None else np.array(self.groups)
        return rows.astype(np.int64)

    @property
    def measured(self) -> int:
        """Numbers sent per row."""
        return len(design_matrix(self.design, self.bins))

    @property
    def label_columns(self) -> int:
        """Columns of the separate label totals: one, or two where labels share rows."""
        return 1 if self.groups is None else 2

    @cached_property
    def edge_array(self) -> Float64:
        """The edges as an array."""
        return np.array(self.edges)

    @cached_property
    def even(self) -> Float64:
        """The edges where bins are even, for interpolation."""
        return to_even(self.edge_array, self.warp)

    @property
    def label_cut(self) -> float:
        """Score that parts the two columns of the label totals."""
        return self.edges[int(np.argmin(np.abs(self.even - 0.75)))]


@dataclass(frozen=True, eq=False)
class SketchTable:
    """Noisy sums over sites, in whole numbers.

    Attributes
    ----------
    layout
        What they mean.
    table
        (rows, measurements) sums of D·h, times `scale`.
    labels
        (C, columns) label totals, times `scale`; measured separately.
    scale
        What counts were multiplied by before whole-number noise was added.
    table_noise, label_noise
        Variances of the noise of one number, in records², one entry for each collection that went
        in (kept apart so that adding is exact in any order).
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

    @property
    def table_sd(self) -> float:
        """Deviation of the noise of one number of the table, in records."""
        return math.sqrt(math.fsum(self.table_noise))

    @property
    def label_sd(self) -> float:
        """Deviation of the noise of one label total, in records."""
        return math.sqrt(math.fsum(self.label_noise))

    @property
    def exact(self) -> bool:
        """Whether there is no noise at all."""
        return self.table_sd == 0 and self.label_sd == 0

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
        scale = math.lcm(self.scale, other.scale)
        one, two = scale // self.scale, scale // other.scale
        known = self.records is not None and other.records is not None
        learned = self.layout.learned or other.layout.learned  # sites that join repeat the groups
        return replace(
            self,
            layout=replace(self.layout, learned=learned),
            table=self.table * one + other.table * two,
            labels=self.labels * one + other.labels * two,
            scale=scale,
            table_noise=tuple(sorted(self.table_noise + other.table_noise)),
            label_noise=tuple(sorted(self.label_noise + other.label_noise)),
            records=(self.records or 0) + (other.records or 0) if known else None,
            sites=tuple(sorted(self.sites + other.sites)),
        )
