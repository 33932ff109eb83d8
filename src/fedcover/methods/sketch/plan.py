"""Bins, rows and noise of a sketch, from public quantities and a budget; all before any message."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fedcover.errors import FedcoverError
from fedcover.methods.sketch import factor
from fedcover.methods.sketch.table import Layout
from fedcover.privacy import accounting
from fedcover.privacy.events import Event, GaussianRelease
from fedcover.privacy.statement import Privacy

LABEL_SHARE = 0.15
"""Part of the budget for the separate label totals. A small one: as misses are counted, doubt about
a divisor n_y moves the coverage by α times as much only."""

CONFUSION_SHARE = 0.2
"""Part of the budget for the confusion matrix, where it is asked for."""

LEAST_SHARE_SIGMA = 50.0
"""Scaled deviation of one site's noise from which discrete noise is accounted as continuous."""

USUAL_ALPHA = 0.1
"""The level for which a collection is judged that names none."""


@dataclass(frozen=True)
class Noise:
    """Noise of the parts of a sketch.

    Attributes
    ----------
    scale
        What counts are multiplied by before whole-number noise.
    table_sigma, label_sigma, confusion_sigma
        Deviation of the noise that one site adds, in scaled units.
    events
        What it costs, seen by whom the budget names.
    """

    scale: int
    table_sigma: float
    label_sigma: float
    confusion_sigma: float
    events: tuple[Event, ...]

    def variance(self, sigma: float, sites: int) -> tuple[float, ...]:
        """Variance of the sum over so many sites, over `scale`; none without noise."""
        return ((sigma / self.scale) ** 2 * sites,) if sigma else ()


NO_NOISE = Noise(1, 0.0, 0.0, 0.0, ())


def reach(privacy: Privacy, most_per_site: int | None) -> float:
    """How far one unit moves a table of counts: two cells if replaced, all records of a site."""
    # A record that comes into a limited choice makes another fall out: two cells move as well.
    limited = privacy.unit == "record" and most_per_site is not None
    # The factor's columns have no negative entries, so counts that leave and counts that come are
    # no farther apart than at a right angle: √2, in whichever rows and bins they are.
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
    """Noise shares that a viewer cannot take off: all but those of sites that tell what they know.

    A site that looks knows its own, and is one of the conspirators. What is left is never less than
    the share of the site whose records are asked about.
    """
    return max(1, n_sites - privacy.conspirators) if privacy.secure_sum else 1


def noise_for(
    privacy: Privacy | None,
    layout: Layout,
    n_sites: int,
    most_per_site: int | None,
    confusion: bool = False,
) -> Noise:
    """Noise that spends exactly the budget on the table, the label totals and what else is asked.

    Parameters
    ----------
    privacy, layout
        The budget and the table.
    n_sites
        Sites whose noise is in every sum.
    most_per_site
        Most records that one site puts in.
    confusion
        Whether a confusion matrix is released as well.
    """
    if privacy is None:
        return NO_NOISE
    extra = CONFUSION_SHARE if confusion else 0.0
    parts = [LABEL_SHARE, 1 - LABEL_SHARE - extra, *[extra] * confusion]
    # Shares of 1/z²: releases with independent Gaussian noise compose to one with Σ 1/z².
    label_z, table_z, *rest = accounting.split_noise(privacy.epsilon, privacy.delta, parts)
    moved = reach(privacy, most_per_site)
    column = factor.reach(layout.bins)
    others = math.sqrt(unknown_shares(privacy, n_sites))
    # Multiplied counts with multiplied noise mean the same, but the whole-number law of one site's
    # share then is as wide as the Gaussian it is accounted as. The table's is wider still: its
    # sensitivity has the factor's column in it.
    scale = 64
    while scale * min(label_z, *rest, math.inf) * moved < LEAST_SHARE_SIGMA * others:
        scale *= 2
    # Sensitivities in scaled units; the noise that a viewer cannot take off is z times as much.
    one = scale * moved
    events = [
        GaussianRelease("label totals", label_z * one, one),
        GaussianRelease("label × score table", table_z * one * column, one * column),
    ]
    if confusion:
        events.append(GaussianRelease("confusion matrix", rest[0] * one, one))
    # Each site adds so little that what is needed comes together from the unknown shares alone.
    sigmas = [e.sigma / others for e in events] + [0.0]
    return Noise(scale, sigmas[1], sigmas[0], sigmas[2] if confusion else 0.0, tuple(events))


def predicted_deviation(
    privacy: Privacy,
    layout: Layout,
    n_sites: int,
    records: int,
    most_per_site: int | None,
    confusion: bool = False,
) -> float:
    """Deviation of the coverage by noise on the table, for evenly mixed labels; all public.

    Of sums averaged over the widest window, as they are where noise is large.
    """
    noise = noise_for(privacy, layout, n_sites, most_per_site, confusion)
    # All n shares are in the sum, though ε is promised by n - c of them.
    per_row = noise.table_sigma / noise.scale * math.sqrt(n_sites)
    window = factor.windows(layout.bins)[0]
    # Noise grows slowly along the bins; half way stands for wherever the threshold will be.
    middle = float(factor.sum_deviation(layout.bins, window)[layout.bins // 2])
    # With even labels c_y = 1/N for every row, so ‖c‖ = √rows / N.
    return per_row * middle * math.sqrt(layout.rows) / records


def refuse_hopeless(
    privacy: Privacy,
    layout: Layout,
    n_sites: int,
    records: int | None,
    most_per_site: int | None,
    alphas: tuple[float, ...],
    confusion: bool = False,
) -> None:
    """Refuses, before any budget is spent, a collection whose noise would drown α."""
    if records is None:
        return
    alpha = min(alphas or (USUAL_ALPHA,))
    collection = (layout, n_sites, records, most_per_site, confusion)
    predicted = predicted_deviation(privacy, *collection)
    # Beyond, two deviations of noise are as large as α itself: thresholds would say nothing.
    if predicted <= alpha / 2:
        return
    # The deviation falls as 1/N: so many times too large, so many times the records.
    need = math.ceil(records * predicted / (alpha / 2))
    enough = least_epsilon(privacy, *collection, alpha)
    raised = f"epsilon={enough:.3g}" if enough else "a larger budget"
    summed = "" if privacy.secure_sum else ", view='secure-sum'"
    raise FedcoverError(
        f"{records} records of {layout.rows} labels with epsilon={privacy.epsilon:g}: noise alone "
        f"would move the coverage by ± {predicted:.3f} at alpha={alpha:g}",
        allowed=f"a predicted deviation of at most alpha/2 = {alpha / 2:g}",
        fix=f"Take {raised}{summed}, at least {need} records, or groups of like labels. No budget "
        "was spent",
    )


def least_epsilon(
    privacy: Privacy,
    layout: Layout,
    n_sites: int,
    records: int,
    most_per_site: int | None,
    confusion: bool,
    alpha: float,
) -> float | None:
    """About the smallest ε that would do, in steps of a tenth; None if not even 100 is enough."""
    epsilon = privacy.epsilon
    while epsilon < 100:
        # Tried and not solved for: the scale of the counts steps with ε.
        epsilon *= 1.1
        larger = replace(privacy, epsilon=epsilon)
        collection = (layout, n_sites, records, most_per_site, confusion)
        if predicted_deviation(larger, *collection) <= alpha / 2:
            return epsilon
    return None
