"""Sections of the report that several experiments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcover.experiments.compare import ALPHA

if TYPE_CHECKING:
    from fedcover.experiments.records import Results
    from fedcover.report.page import Plot, Table

PUBLISHED = (
    "Published: T = 200, K = 20, η = 10⁻³, γ = 10⁻⁶, mean of all iterates, q₀ as named, on N̄ = "
    "⌊n/2⌋ of the records; other methods use all of them."
)


def coverage_histograms(
    name: str, title: str, where: str, values: Mapping[str, NDArray[np.float64]], below: str
) -> Plot:
    """Histograms of the coverage by method.

    Parameters
    ----------
    name, title
        Of the figure.
    where
        Whose coverage, for the caption.
    values
        Coverages of all repetitions, by method.
    below
        What the caption says of n, α and repetitions.
    """
    from fedcover.experiments.drawing import histograms
    from fedcover.report.both import plot

    note = f" {PUBLISHED}" if any(m.startswith("published") for m in values) else ""
    values, refused = answered(values)
    return plot(
        name,
        title,
        within(values),
        f"Empirical coverage at {where}: {below} Dashed: target 1-α; orange: mean.{note}{refused}",
        f"Histograms of coverage by method: {title}",
        histograms,
        values,
        1 - ALPHA,
        "coverage (share of test records)",
        limits=(0.6, 1.0),
    )


def answered(
    values: Mapping[str, NDArray[np.float64]],
) -> tuple[dict[str, NDArray[np.float64]], str]:
    """The methods that have numbers, and a sentence on those that refused; sizes are public, so a
    method refuses a budget in all repetitions or in none."""
    kept = {m: v for m, v in values.items() if not np.isnan(v).any()}
    gone = "; ".join(m for m in values if m not in kept)
    return kept, f" Refused in all repetitions, noise would drown α: {gone}." if gone else ""


def mean_and_spread(values: NDArray[np.float64], digits: int = 3) -> str:
    """Mean ± standard deviation, or that the method refused."""
    if np.isnan(values).any():
        return "refused"
    return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"


def within(values: Mapping[str, Any]) -> str:
    """Which methods are near the target on average, in a sentence."""
    off = {m: v.mean() - (1 - ALPHA) for m, v in values.items()}
    groups = {
        "within .01 of the target on average": [m for m in off if abs(off[m]) <= 0.01],
        "below": [m for m in off if off[m] < -0.01],
        "above": [m for m in off if off[m] > 0.01],
    }
    return " ".join(
        f"{text.capitalize()}: {'; '.join(found) or 'none'}."
        for text, found in groups.items()
        if found or text.startswith("within")
    )


def method_table(
    results: Results,
    methods: Sequence[str],
    groups: Mapping[str, Mapping[str, Any]],
    title: str,
    below: str,
) -> Table:
    """Coverage and set size of all methods; `groups` names rows of the results to tell apart."""
    from fedcover.report.page import Table

    rows = []
    for m in methods:
        cells = [m]
        for which in groups.values():
            v, size = (results.values(c, method=m, **which) for c in ("coverage", "size"))
            cells += [mean_and_spread(v), mean_and_spread(size, 2)]
        rows.append(cells)
    columns = ["method"] + [f"{what}, {g}" for g in groups for what in ("coverage", "set size")]
    return Table(
        title,
        columns,
        rows,
        f"Mean ± standard deviation over the repetitions; set size: labels per set. "
        f"Refused: noise would drown α, so no budget was spent. {below}",
    )
