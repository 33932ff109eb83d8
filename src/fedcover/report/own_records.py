"""Coverage of a site's own records against α: computed, drawn, and said plainly what it is not."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedcover.calibration import Calibration
from fedcover.errors import FedcoverWarning
from fedcover.methods.sketch.result import SketchResult
from fedcover.position import positions
from fedcover.report.figures import sketch as figures
from fedcover.report.page import Plot, Table, responsive
from fedcover.site import Site

Float64 = NDArray[np.float64]
Curves = Mapping[str, tuple[int, Float64]]

ALPHAS = np.round(np.arange(0.02, 0.501, 0.02), 2)
"""Levels of the coverage curves."""

TABLED = (0.04, 0.1, 0.2, 0.4)
"""Levels of the table of numbers."""

PANELS = 12
"""Most sites with a panel of their own."""

MOST_SITES = 60
"""Most sites whose curves are drawn; of more, evenly chosen ones are."""

LATER = (
    "new ones will be covered somewhat differently. “fedcover evaluate” tells on labelled records "
    "that were kept apart"
)


def own_coverage(sketch: SketchResult, site: Site, scores: Float64 | None = None) -> Float64:
    """Share of a site's own records that its sets cover, for each of `ALPHAS`.

    Parameters
    ----------
    sketch, site
        The sketch, and the site: the thresholds are those for the label mix of its records.
    scores
        Own scores that are to be blended into them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoverWarning)  # said where the site personalises
        cal = sketch.personalise(
            site.calibration_counts, ALPHAS.tolist(), local_scores=scores, name=site.name
        )
    return covered_by(cal, site)


def covered_by(cal: Calibration, site: Site) -> Float64:
    """(A,) share of a site's records that the sets of a calibration cover."""
    limits = positions(cal.thresholds, cal.distances)[:, site.labels]
    return np.asarray((site.positions <= limits).mean(axis=1))


def curves_of(sketch: SketchResult, sites: Sequence[Site]) -> Curves:
    """Records and coverage by site; of very many sites, evenly chosen ones."""
    pick = np.linspace(0, len(sites) - 1, min(len(sites), MOST_SITES)).astype(int)
    return {s.name: (len(s), own_coverage(sketch, s)) for s in (sites[k] for k in pick)}


def plot(
    curves: Curves,
    n_sites: int,
    private: bool,
    answer: str | None = None,
    cal: tuple[Float64, Float64] | None = None,
) -> Plot:
    """A panel for each of a few sites, or all sites in one.

    Parameters
    ----------
    curves
        What to draw.
    n_sites
        Of how many sites.
    private
        Whether there is privacy noise.
    answer
        What is said above it; default, the span of the sites.
    cal
        Levels of the thresholds that a site alone uses, and what they cover.
    """
    sizes = sorted({n for n, _ in curves.values()})
    n = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    band = (
        ""
        if len(curves) > PANELS
        else " Grey: two standard deviations around it of as many new records"
        f"{'; privacy noise comes on top' if private else ''}."
    )
    some = f" {len(curves)} of {n_sites} sites are drawn, evenly chosen." * (len(curves) < n_sites)
    caption = (
        f"Share of a site's own labelled records whose label is in the set, for α from "
        f"{ALPHAS[0]:g} to {ALPHAS[-1]:g}; n = {n} records. The thresholds are those for the label "
        f"mix of these records. Dashed: the promise 1-α.{band}{some} Assumed: records of one label "
        "look alike at all sites."
    )
    alt = "Own records covered at α = 0.1: " + ", ".join(
        f"{name} {_percent(curves, name)}" for name in curves
    )
    question = "Does every site get what it asks for?" if n_sites > 1 else "Does it hold at home?"
    said = "coverage", question, answer or _span(curves), caption, alt
    if len(curves) > PANELS:
        return responsive(*said, figures.many_curves, ALPHAS, curves)
    return responsive(*said, figures.coverage_curves, ALPHAS, curves, cal)


def numbers(curves: Curves) -> Table:
    """The same as a table, at a few levels."""
    rows = [
        [name, f"{n:,}", *(f"{100 * covered[_at(a)]:.1f}" for a in TABLED)]
        for name, (n, covered) in curves.items()
    ]
    return Table(
        "Show the numbers of every site",
        ["Site", "Records", *(f"α = {a:g}" for a in TABLED)],
        rows,
        "Own calibration records covered, in percent.",
        folded=True,
    )


def _span(curves: Curves) -> str:
    low, high = figures.extremes(ALPHAS, curves)
    ends = [_percent(curves, low), _percent(curves, high)]
    covered = ends[0] if ends[0] == ends[1] else f"{ends[0]} ({low}) to {ends[1]} ({high})"
    return (
        f"At α = 0.1 the sets cover {covered} of a site's own calibration records. These are the "
        f"records the table was made from, not new ones: {LATER}."
    )


def _percent(curves: Curves, name: str) -> str:
    return f"{100 * curves[name][1][_at(0.1)]:.1f}%"


def _at(alpha: float) -> int:
    return int(np.argmin(np.abs(ALPHAS - alpha)))
