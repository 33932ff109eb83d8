"""The page of a site's own calibration from a sketch: its scores, its errors, its coverage."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcover.calibration import Calibration
from fedcover.methods.sketch.personalise import LabelMix, Personal, blend
from fedcover.methods.sketch.result import SketchResult
from fedcover.position import positions
from fedcover.report import own_records
from fedcover.report.figures import sketch as figures
from fedcover.report.page import Fact, Plot, Section, Table, Text, responsive, write_page
from fedcover.report.score_axis import ScoreAxis, span
from fedcover.report.sketch import records
from fedcover.site import Site

Float64 = NDArray[np.float64]

TINY = 5e-5
"""Errors of the coverage below this are not shown."""

LEVELS = tuple(np.round(np.linspace(0.995, 0.005, 67), 3).tolist())
"""Levels at which a distribution function is drawn."""

POINTS = 160
"""Points at which own scores are drawn."""


def write(
    path: Path,
    sketch: SketchResult,
    cal: Calibration,
    file: Path,
    mix: LabelMix,
    said: str,
    site: Site | None = None,
    use_own: bool = False,
) -> None:
    """Write the page.

    Parameters
    ----------
    path
        Where to.
    sketch, cal, file
        The sketch, the calibration made from it, and where that is saved.
    mix, said
        The site's label distribution, and where it comes from, in words.
    site
        The site's labelled records, if it has any.
    use_own
        Whether its scores were blended in.
    """
    own = site if use_own else None
    personal = Personal(sketch.table, mix, cal.alpha)
    stated = personal.errors.total if cal.coverage_error is None else cal.coverage_error
    sections: list[Section] = [
        _thresholds(cal, stated),
        _distribution(sketch, cal, mix, said, site),
        _error_parts(sketch, cal, personal, said, own),
    ]
    if site is not None:
        sections.append(_coverage(sketch, cal, site, use_own))
    sections += [_promise(cal), _next(file)]
    lead = [
        f"These thresholds were made at the site itself, from a sketch of {len(sketch.sites)} "
        f"sites with {records(sketch)} calibration records and from its own label mix "
        f"({said}). No message was sent for them.",
    ]
    write_page(
        path,
        f"Thresholds for {cal.target}, from the sketch of {len(sketch.sites)} sites",
        lead,
        sections,
        facts=_facts(cal, stated),
        kicker="fedcover personalise · at the site, no message",
        footer=f"Written by fedcover {version('fedcover')}. This page shows the site's own label "
        "mix and records without noise: it is for the site.",
    )


def _facts(cal: Calibration, stated: Float64) -> list[Fact]:
    what = "promised" if cal.certificate is None else "or more, certified,"
    facts = [Fact(f"{100 * (1 - a):g}%", f"{what} at α = {a:g}") for a in cal.alpha[:3]]
    if cal.certificate is not None:
        sure = f"{100 * cal.certificate.confidence:g}%"
        return [*facts, Fact(sure, "probability of that; what it is over stands below")]
    worst = int(np.argmax(stated))
    what = f"points, one standard deviation of the coverage at α = {cal.alpha[worst]:g}"
    return [*facts, Fact(f"± {100 * stated[worst]:.1f}", what)]


def _thresholds(cal: Calibration, stated: Float64) -> Table:
    limits = positions(cal.thresholds, cal.distances)
    sure = None if cal.certificate is None else f"{100 * cal.certificate.confidence:g}%"
    rows = [
        [f"{a:g}", span(row), f"≥ {aim}, certified" if sure else f"{aim} ± {100 * error:.2f}"]
        for a, row, error in zip(cal.alpha, limits, stated, strict=True)
        for aim in [f"{100 * (1 - a):g}%"]
    ]
    about = (
        f"Certified: with probability {sure}, see below"
        if sure
        else "±: one standard deviation in points, with every error that is known"
    )
    return Table(
        "The thresholds",
        ["α", "Threshold", "Coverage"],
        rows,
        "A label is in the set if its score is at most the threshold; from the lowest to the "
        f"highest of {cal.n_classes:,} labels. {about}. The sketch has records worth "
        f"{cal.effective_size:,.0f} of this site's own label mix.",
    )


def _distribution(
    sketch: SketchResult, cal: Calibration, mix: LabelMix, said: str, site: Site | None
) -> Plot:
    axis = ScoreAxis.of(sketch.table.layout)
    curve = Personal(sketch.table, mix, LEVELS)
    middle = np.array([int(np.median(q.positions)) for q in curve.quantiles])
    places = axis.places(np.maximum.accumulate(middle))
    values, deviation = 1 - np.array(LEVELS), curve.errors.total
    limits = positions(cal.thresholds, cal.distances)
    shown = np.unique(np.linspace(0, len(cal.alpha) - 1, len(figures.MARKERS)).astype(int))
    marks = []
    for a in shown:
        low, high = axis.places(np.array([limits[a].min(), limits[a].max()])).tolist()
        marks.append(figures.Mark(cal.alpha[a], span(limits[a]), low, high))
    own = None
    if site is not None:
        at = np.sort(site.positions)
        part = np.unique(np.linspace(0, len(at) - 1, POINTS).astype(int))
        own = axis.places(at[part]), (part + 1) / len(at)

    half = len(cal.alpha) // 2
    answer = (
        f"{100 * (1 - cal.alpha[half]):g}% of this site's records are expected at or below the "
        f"score {span(limits[half])}: that is its threshold at α = {cal.alpha[half]:g}."
    )
    if cal.certificate is not None:
        answer = (
            f"The certified threshold at α = {cal.alpha[half]:g} is {span(limits[half])}: right of "
            "the curve, by as much as it may be off."
        )
    some = f" {len(shown)} of {len(cal.alpha)} levels are marked." * (len(shown) < len(cal.alpha))
    also = (
        f" Dashed: the {len(site):,} labelled records of the site itself."
        if site is not None
        else ""
    )
    caption = (
        f"Distribution function of the true label's score at {cal.target}: the sketch's rows "
        f"({records(sketch)} records), weighted by its label mix ({said}). The axis is even in the "
        "sketch's bins, which get finer near both ends. Band: two standard deviations of all "
        "errors that are known. Markers: thresholds, at 1-α; their bar reaches from the lowest "
        f"label to the highest.{also}{some} Assumed: records of one label look alike at all sites."
    )
    alt = "Thresholds: " + ", ".join(f"α = {m.alpha:g}, score {m.text}" for m in marks)
    title, drawn = (
        "Where do the thresholds come from?",
        (axis, places, values, deviation, marks, own),
    )
    return responsive("distribution", title, answer, caption, alt, figures.distribution, *drawn)


def _error_parts(
    sketch: SketchResult, cal: Calibration, personal: Personal, said: str, own: Site | None
) -> Plot:
    total = personal.errors.total
    a = int(np.argmax(total))
    parts = personal.errors.parts(a)
    largest = max(parts, key=lambda name: parts[name])
    parts = {name: sd for name, sd in parts.items() if sd >= min(TINY, parts[largest])}
    totals = {"all together": float(total[a])}
    if own is not None:
        both = blend(personal, own.positions, cal.target in sketch.sites)
        alone = np.sqrt(cal.alpha[a] * (1 - cal.alpha[a]) / len(own))
        totals |= {"own scores alone": float(alone), "own scores blended in": float(both.error[a])}
    answer = (
        f"Most of it from the {largest}: {100 * parts[largest]:.2f} points of "
        f"{100 * total[a]:.2f} in all."
    )
    blended = "; below it, what own scores make of it" if own is not None else ""
    caption = (
        f"One standard deviation of the coverage in points, at α = {cal.alpha[a]:g}, where it is "
        f"largest; n = {records(sketch)} records, label mix: {said}. Parts add up by their "
        f"squares to all together{blended}. Not in it: records of one label that differ between "
        "sites."
    )
    alt = "Errors in points: " + ", ".join(
        f"{name} {100 * value:.2f}" for name, value in {**parts, **totals}.items()
    )
    title = "How far may the coverage be off?"
    return responsive("errors", title, answer, caption, alt, figures.error_parts, parts, totals)


def _coverage(sketch: SketchResult, cal: Calibration, site: Site, use_own: bool) -> Plot:
    covered = own_records.own_coverage(sketch, site, site.scores if use_own else None)
    inside = "are in the sketch" if site.name in sketch.sites else "are not in the sketch by name"
    used = ", and their scores went into the thresholds" if use_own else ""
    raised = "" if cal.certificate is None else " The curve is that of thresholds not certified."
    answer = (
        f"The site's {len(site):,} labelled records {inside}, and their labels give the mix{used}. "
        f"They are not new ones: {own_records.LATER}.{raised}"
    )
    points = np.array(cal.alpha), own_records.covered_by(cal, site)
    curves = {site.name: (len(site), covered)}
    return own_records.plot(curves, 1, sketch.privacy is not None, answer, points)


def _promise(cal: Calibration) -> Text:
    said: Sequence[str] = [f"The sets cover {cal.guarantee}.", *cal.notes]
    if cal.certificate is not None:
        said = [cal.certificate.statement, *said]
    return Text("What this promises, and what to know", said)


def _next(file: Path) -> Text:
    return Text(
        "What to do next",
        code=[
            f"fedcover predict {file.name} new.npz",
            f"fedcover evaluate {file.name} labelled.npz",
        ],
    )
