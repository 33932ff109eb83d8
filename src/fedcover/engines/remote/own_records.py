"""Whether what was published can be true, by this site's own records; a liar must not learn which.

Whatever is refused here depends on the site's data. So the refusal stays at the site: no
calibration is written, the reason goes to the log, and the server is answered as always.

Coverage. Given their scores' law, the n own records are covered each with a chance C, the coverage
of the published thresholds at this site. An honest run aims at C = 1-α and misses it by what its
calibration records, its noise and the site's label mix leave open. Let g_y be the miss rates of the
labels, P̂*(y) the site's label mix, and n_y its own records of a label, which are among the N_y that
were used. The misses of the mix are Σ_y P̂*(y) g_y, and their variance by the calibration sample is

    Σ_y P̂*(y)² g_y (1-g_y) / N_y  ≤  max_y (P̂*(y)/n_y) · Σ_y P̂*(y) g_y (1-g_y)  ≤  α(1-α)/m

with m = min_y n_y/P̂*(y), by concavity. So m = n where the mix was counted from the same records. No
word of the server's goes in. Where the mix was counted from M other labels, these leave a variance
of at most α(1-α)/M, the largest of a share with mean α. What the method states besides is added:
for a sketch its stated error, which has the noise, worked out here from its table.

C is taken to have the Beta law of that mean and variance: exact for split conformal thresholds
(Vovk 2012), and with heavier tails than a normal law where noise is large. The hits are then
beta-binomial. Own records are among those that set the threshold, which draws their share of hits
towards 1-α: alarms are then rarer still. Ties, bins and certificates only raise C.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcover.calibration import Calibration
from fedcover.diagnostics import coverage_tails
from fedcover.engines.remote.codes import Refusal
from fedcover.methods.sketch.result import SketchResult
from fedcover.methods.sketch.table import bins_of
from fedcover.position import positions
from fedcover.site import Site

FALSE_ALARMS = 1e-6
"""How often an honest run is refused for its coverage, at most."""

FAR = 7.0
"""Deviations of noise that excuse a number: beyond, a chance of 10⁻¹² for each."""

SUBSAMPLE = 4
"""What a run that uses a half of all records may at worst leave of a site's own, as a divisor."""


def check_size(available: int, site: Site) -> None:
    """Refuses a pool that has fewer records than this site alone."""
    if available < len(site):
        raise _refused(f"{available} records in all, and this site alone has {len(site)}")


def check_table(sketch: SketchResult, site: Site) -> None:
    """Refuses a table that has fewer records than this site's own part of it, noise allowed for."""
    table = sketch.table
    if site.name not in table.sites:  # it was lost on the way, and its records are not in the sum
        return
    most = sketch.most_per_site
    if table.records is not None:
        own = len(site) if most is None else min(len(site), most)
        if table.records < own:
            raise _refused(f"{table.records} records in all, and this site put in {own}")
    if most is not None and most < len(site):  # which of its records are in it is not kept
        return
    layout, counts = table.layout, site.calibration_counts
    if (table.separate_totals < counts - FAR * table.label_sd).any():
        raise _refused("fewer records of a label than this site put in")
    cell = layout.row_of[site.labels] * layout.bins + bins_of(site.positions, layout.cut_array)
    held = np.bincount(cell, minlength=layout.rows * layout.bins)
    # Sums of a transform are off by rounding, which is far below half a record.
    if (table.cells.ravel() < held - FAR * table.cell_deviation - 0.5).any():
        raise _refused("fewer records in a cell of the table than this site put in")


def check_coverage(
    cal: Calibration, site: Site, error: NDArray[np.float64] | None, subsampled: bool = False
) -> None:
    """Refuses thresholds that cover own records as badly as no honest run would.

    Parameters
    ----------
    cal
        The calibration made of what was published.
    error
        (A,) standard deviation of the coverage that is stated besides; None for none.
    subsampled
        Whether the run used a part of the records only.
    """
    limits = positions(cal.thresholds, cal.distances)[:, site.labels]
    hits = (site.positions <= limits).sum(axis=1)
    for a, alpha in enumerate(cal.alpha):
        stated = 0.0 if error is None else float(error[a])
        if stated > 1:
            raise _refused(f"the coverage would be off by {stated:.3g}, and it is a share")
        worth = worth_of(site, alpha, stated, subsampled)
        chance = coverage_tails(int(hits[a]), len(site), alpha, worth)[0]
        if chance < FALSE_ALARMS / len(cal.alpha):
            raise _refused(
                f"thresholds for coverage {1 - alpha:g} cover {hits[a]} of this site's "
                f"{len(site)} records; an honest run does so with a chance of {chance:.1g}. Or "
                "records of one label do not look alike at all sites, or the method does not "
                "correct for label shift: method Local needs neither"
            )


def worth_of(site: Site, alpha: float, stated: float, subsampled: bool) -> float:
    """As how many records the coverage of a run is known, at least, to who has this site's own."""
    mix, counts = site.label_counts / site.label_counts.sum(), site.calibration_counts
    there = mix > 0
    worth = float((counts[there] / mix[there]).min()) / (SUBSAMPLE if subsampled else 1)
    doubt = 1 / max(worth, 1e-300) + stated**2 / (alpha * (1 - alpha))
    if site.separate_counts:
        doubt += 1 / float(site.label_counts.sum())
    # A Beta law "of m records" has the variance α(1-α)/(m+2).
    return max(1.0, 1 / doubt - 2)


def _refused(why: str) -> Refusal:
    return Refusal(
        "result",
        f"what was published cannot be: {why}",
        allowed="what this site's own records can be a part of",
        fix="Do not use this server's result. The calibration that was there before is still there",
    )
