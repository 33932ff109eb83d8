"""The page of a site's own calibration from a sketch: its scores, its errors, its coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from fedcover.calibration import Calibration
from fedcover.report import own_records
from fedcover.report import personal_figures as figures
from fedcover.report.page import Fact, Plot, Section, Table, Text, write_page
from fedcover.report.sketch import records
from fedcover.report.style import NARROW, WIDE
from fedcover.site import Site
from fedcover.sketch.bins import to_even
from fedcover.sketch.blend import blend
from fedcover.sketch.mixture import Mixture, mixture
from fedcover.sketch.personal import Errors, counted_variance, errors_of
from fedcover.sketch.result import SketchResult
from fedcover.sketch.wanted import mix_of

Float64 = NDArray[np.float64]
Levels = tuple[float, ...]

TINY = 5e-5
"""Errors of the coverage below this are not shown."""

POINTS = 160
"""Points at which a distribution function is drawn."""


@dataclass(frozen=True)
class LabelMix:
    """A site's label distribution, and where it comes from.

    Attributes
    ----------
    wanted
        (C,) label distribution P*.
    counted
        How many labels were counted for it; None if it was given or guessed.
    said
        Where it comes from, in words.
    variance
        From levels to the variance of the coverage that its error causes.
    """

    wanted: Float64
    counted: int | None
    said: str
    variance: Callable[[Mixture, Levels], Float64]

    @classmethod
    def of(
        cls,
        sketch: SketchResult,
        said: str,
        label_counts: ArrayLike | None = None,
        probabilities: ArrayLike | None = None,
        source: ArrayLike | None = None,
    ) -> LabelMix:
        """From what `SketchResult.personalise` was given."""
        names = sketch.label_names
        mix = mix_of(sketch.table, names, label_counts, None, probabilities, source)

        def variance(mixed: Mixture, levels: Levels) -> Float64:
            guessed = mix.guess_variance(sketch.table, levels)
            if guessed is not None:
                return guessed
            return counted_variance(sketch.table, mixed, mix.counted, levels)

        return cls(mix.wanted, mix.counted, said, variance)


def write(
    path: Path,
    sketch: SketchResult,
    cal: Calibration,
    file: Path,
    mix: LabelMix,
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
    mix
        The site's label distribution.
    site
        The site's labelled records, if it has any.
    use_own
        Whether its scores were blended in.
    """
    mixed = mixture(sketch.table, mix.wanted)
    errors = _errors(sketch, mixed, mix, cal.alpha)
    own = site.scores if site is not None and use_own else None
    sections: list[Section] = [
        _thresholds(cal),
        _distribution(sketch, cal, mixed, mix, site),
        _error_parts(sketch, cal, mixed, mix, errors, own),
    ]
    if site is not None:
        sections.append(_coverage(sketch, cal, site, own))
    sections += [_promise(cal), _next(file)]
    lead = [
        f"These thresholds were made at the site itself, from a sketch of {len(sketch.sites)} "
        f"sites with {records(sketch)} calibration records and from its own label mix "
        f"({mix.said}). No message was sent for them.",
    ]
    worst = int(np.argmax(errors.total))
    promised = [Fact(f"{100 * (1 - a):g}%", f"promised at α = {a:g}") for a in cal.alpha[:3]]
    off = Fact(
        f"± {100 * errors.total[worst]:.1f}",
        f"points, one standard deviation of the coverage at α = {cal.alpha[worst]:g}, "
        "from the sketch alone",
    )
    write_page(
        path,
        f"Thresholds for {cal.target}, from the sketch of {len(sketch.sites)} sites",
        lead,
        sections,
        facts=[*promised, off],
        kicker="fedcover personalise · at the site, no message",
        footer=f"Written by fedcover {version('fedcover')}. This page shows the site's own label "
        "mix and records without noise: it is for the site.",
    )


def _errors(sketch: SketchResult, mixed: Mixture, mix: LabelMix, alphas: Levels) -> Errors:
    return errors_of(sketch.table, mixed, mix.wanted, mix.variance(mixed, alphas), alphas)


def span(thresholds: Float64) -> str:
    """The thresholds of one level, which differ a little from label to label."""
    low, high = f"{thresholds.min():.4f}", f"{thresholds.max():.4f}"
    return low if low == high else f"{low} to {high}"


def _thresholds(cal: Calibration) -> Table:
    rows = [
        [f"{a:g}", f"{100 * (1 - a):g}%", span(row)]
        for a, row in zip(cal.alpha, cal.thresholds, strict=True)
    ]
    return Table(
        "The thresholds",
        ["α", "Promise", "Threshold"],
        rows,
        "A label is in the set if its score is at most the threshold; from the lowest to the "
        f"highest of {cal.n_classes:,} labels. The sketch has records worth "
        f"{cal.effective_size:,.0f} of this site's own label mix.",
    )


def _distribution(
    sketch: SketchResult, cal: Calibration, mixed: Mixture, mix: LabelMix, site: Site | None
) -> Plot:
    warp, curve = sketch.table.layout.warp, mixed.curve
    keep = np.unique(np.linspace(0, len(curve.values) - 1, POINTS).astype(int))
    values = np.clip(curve.values[keep], 0, 1)
    levels = tuple(float(a) for a in np.clip(1 - values, 1e-3, 1 - 1e-3))
    deviation = _errors(sketch, mixed, mix, levels).total
    shown = np.unique(np.linspace(0, len(cal.alpha) - 1, len(figures.MARKERS)).astype(int))
    marks = []
    for a in shown:
        row = cal.thresholds[a]
        low, high = to_even(np.array([row.min(), row.max()]), warp).tolist()
        marks.append(figures.Mark(cal.alpha[a], span(row), low, high))
    own = None
    if site is not None:
        at = np.sort(site.scores)
        part = np.unique(np.linspace(0, len(at) - 1, POINTS).astype(int))
        own = to_even(at[part], warp), (part + 1) / len(at)

    def draw(width: float) -> Figure:
        scores = curve.scores[keep]
        places = to_even(scores, warp)
        return figures.distribution(places, scores, values, deviation, marks, own, width=width)

    middle = len(cal.alpha) // 2
    answer = (
        f"{100 * (1 - cal.alpha[middle]):g}% of this site's records are expected at or below the "
        f"score {span(cal.thresholds[middle])}: that is its threshold at "
        f"α = {cal.alpha[middle]:g}."
    )
    some = f" {len(shown)} of {len(cal.alpha)} levels are marked." * (len(shown) < len(cal.alpha))
    also = (
        f" Dashed: the {len(site):,} labelled records of the site itself."
        if site is not None
        else ""
    )
    raised = (
        " Thresholds are raised to keep the promise in spite of noise, and lie right of the curve."
        if cal.options.get("mode") == "guaranteed" and sketch.privacy
        else ""
    )
    caption = (
        f"Distribution function of the true label's score at {cal.target}: the sketch's rows "
        f"({records(sketch)} records), weighted by its label mix ({mix.said}). Band: two standard "
        "deviations of all errors that are known. Markers: thresholds, at 1-α; their bar reaches "
        f"from the lowest label to the highest.{also}{raised}{some} Assumed: records of one label "
        "look alike at all sites."
    )
    alt = "Thresholds: " + ", ".join(f"α = {m.alpha:g}, score {m.text}" for m in marks)
    return Plot("Where do the thresholds come from?", answer, "distribution", draw(WIDE),
                draw(NARROW), caption, alt)  # fmt: skip


def _error_parts(
    sketch: SketchResult,
    cal: Calibration,
    mixed: Mixture,
    mix: LabelMix,
    errors: Errors,
    own: Float64 | None,
) -> Plot:
    a = int(np.argmax(errors.total))
    parts = {
        "calibration sample": errors.sampling[a],
        "privacy noise": errors.noise[a],
        "own label mix": errors.mix[a],
        "unlike labels in a group": errors.groups[a],
    }
    parts = {name: sd for name, sd in parts.items() if sd >= TINY}
    totals = {"all together": errors.total[a]}
    if own is not None:
        edges = sketch.table.layout.edge_array
        same = mix.counted == len(own)
        common = float(mix.wanted @ mixed.shares) if cal.target in sketch.sites else 0.0
        both = blend(mixed, errors, edges, own, cal.alpha, same, cal.thresholds, common)
        alone = np.sqrt(cal.alpha[a] * (1 - cal.alpha[a]) / len(own))
        totals |= {"own scores alone": float(alone), "own scores blended in": both.error[a]}
    largest = max(parts, key=lambda name: parts[name])
    answer = (
        f"Most of it from the {largest}: {100 * parts[largest]:.2f} points of "
        f"{100 * errors.total[a]:.2f} in all."
    )
    blended = "; below it, what own scores make of it" if own is not None else ""
    caption = (
        f"One standard deviation of the coverage in points, at α = {cal.alpha[a]:g}, where it is "
        f"largest; n = {records(sketch)} records, label mix: {mix.said}. Parts add up by their "
        f"squares to all together{blended}. Not in it: records of one label that differ between "
        "sites."
    )
    alt = "Errors in points: " + ", ".join(
        f"{name} {100 * value:.2f}" for name, value in {**parts, **totals}.items()
    )
    wide, narrow = (figures.error_parts(parts, totals, width=w) for w in (WIDE, NARROW))
    return Plot("How far may the coverage be off?", answer, "errors", wide, narrow, caption, alt)


def _coverage(sketch: SketchResult, cal: Calibration, site: Site, own: Float64 | None) -> Plot:
    mode = str(cal.options.get("mode", sketch.mode))
    covered = own_records.own_coverage(sketch, site, own, mode)
    inside = "are in the sketch" if site.name in sketch.sites else "are not in the sketch by name"
    used = ", and their scores went into the thresholds" if own is not None else ""
    answer = (
        f"The site's {len(site):,} labelled records {inside}, and their labels give the mix{used}. "
        f"They are not new ones: {own_records.LATER}."
    )
    curves = {site.name: (len(site), covered)}
    return own_records.plot(curves, 1, sketch.privacy is not None, answer)


def _promise(cal: Calibration) -> Text:
    said: Sequence[str] = [f"The sets cover {cal.guarantee}.", *cal.notes]
    return Text("What this promises, and what to know", said)


def _next(file: Path) -> Text:
    return Text(
        "What to do next",
        code=[
            f"fedcover predict {file.name} new.npz",
            f"fedcover evaluate {file.name} labelled.npz",
        ],
    )
