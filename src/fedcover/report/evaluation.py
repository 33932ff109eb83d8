"""The page of a calibration on labelled records: coverage, thresholds, what left, who signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from fedcover.calibration import Calibration
from fedcover.diagnostics import Coverage
from fedcover.evaluation import ALL, CLASS, FILE, SIZE, Evaluation
from fedcover.position import positions
from fedcover.report.figures import results as figures
from fedcover.report.page import Fact, Plot, Section, Table, Text, responsive, write_page
from fedcover.report.score_axis import span

TONES = {"below": "bad", "on": "good", "above": "good"}

TITLES = {FILE: "file by file", CLASS: "class by class", SIZE: "by size of the set"}

PANELS = 3
"""Most levels that are drawn; the tables have all."""

LISTED = 40
"""Most groups of a part that are drawn: those that are covered least."""


def write(
    path: Path, made: Evaluation, calibration: Path, data: Sequence[Path], checked: bool
) -> None:
    """Write the page.

    Parameters
    ----------
    path
        Where to.
    made
        What it is about.
    calibration, data
        The files it was made from, to repeat it.
    checked
        Whether the signatures were checked by a roster.
    """
    cal = made.calibration
    files = f"{len(made.files)} files" if len(made.files) > 1 else next(iter(made.files))
    lead = [
        f"The sets of {cal.target} were made for {made.overall(0).n:,} labelled records "
        f"({files}). Coverage is the share of them whose label is in its set. The promise is for "
        f"records that follow the label mix of {cal.target} and did not calibrate: a file "
        "of another site may be covered more or less."
    ]
    shown = [part for part in made.parts if part != ALL]
    sections: list[Section] = [
        _levels(made),
        *(_groups(made, part) for part in shown if part != FILE),
        _sizes(made),
        *(_numbers(made, part) for part in shown),
        _thresholds(cal),
        _left(cal),
        _promise(cal),
        _signatures(cal, checked),
        _again(path, made, calibration, data),
    ]
    write_page(
        path,
        _headline(made),
        lead,
        sections,
        facts=_facts(made),
        opening=_groups(made, FILE if FILE in made.parts else ALL),
        kicker=f"fedcover report · {cal.target}, {cal.method}",
        footer=f"Written by fedcover {version('fedcover')}. This page shows how often labels occur "
        "in your records: mind who reads it.",
    )


def _headline(made: Evaluation) -> str:
    c, promise = made.overall(0), 1 - made.calibration.alpha[0]
    verdict = {
        "below": "less than chance explains",
        "on": "as promised, within chance",
        "above": "more than needed",
    }[made.verdict(0)]
    who = made.calibration.target
    return f"{who}: {c.value:.1%} of {c.n:,} records covered, promised {promise:.4g}: {verdict}"


def _facts(made: Evaluation) -> list[Fact]:
    cal = made.calibration
    facts = []
    for a, level in enumerate(cal.alpha[:PANELS]):
        label = f"covered at α = {level:g}, promised {1 - level:.4g}"
        facts.append(Fact(f"{made.overall(a).value:.1%}", label, TONES[made.verdict(a)]))
    facts.append(Fact(f"{made.sizes(0).mean():.2f}", f"labels in a set, of {cal.n_classes:,}"))
    if cal.certificate is not None:
        sure = f"{100 * cal.certificate.confidence:g}%"
        facts.append(Fact(sure, "probability of the certificate"))
    if cal.privacy is None:
        return [*facts, Fact("no ε", "differential privacy is not claimed")]
    return [*facts, Fact(f"ε = {cal.privacy.epsilon:.4g}", f"at δ = {cal.privacy.delta:g}")]


def _levels(made: Evaluation) -> Table:
    rows = []
    for a, level in enumerate(made.calibration.alpha):
        c = made.overall(a)
        band = f"{100 * c.low:.1f} to {100 * c.high:.1f}"
        size = f"{made.sizes(a).mean():.2f}"
        rows.append([f"{level:g}", f"{100 * c.value:.1f}", band, size, made.said(a)])
    columns = ["α", "Covered, %", f"{made.confidence:.0%} band", "Labels per set", "In words"]
    return Table(
        "Is the promise kept?",
        columns,
        rows,
        f"n = {made.overall(0).n:,} records. The band is Clopper and Pearson's, for these records "
        "alone. “In words” also counts the luck of the calibration records.",
        text_columns=["In words"],
    )


def _groups(made: Evaluation, part: str) -> Plot:
    """A point and a band for each group, a panel for each level."""
    cal = made.calibration
    least = sorted(made.parts[part][0], key=lambda k: made.parts[part][0][k].value)[:LISTED]
    kept = [key for key in made.parts[part][0] if key in least]
    if part == SIZE and len(cal.alpha) > 1:  # other levels have other sizes
        kept = sorted({key for level in made.parts[part][:PANELS] for key in level})[:LISTED]
    names = [made.named(part, key) for key in kept]
    levels: dict[str, list[Coverage | None]] = {
        f"α = {a:g}": [groups.get(key) for key in kept]
        for a, groups in zip(cal.alpha[:PANELS], made.parts[part], strict=False)
    }
    targets = [1 - a for a in cal.alpha[:PANELS]]
    some = f" {len(kept)} of {len(made.parts[part][0])} are drawn: those covered least."
    more = f" {PANELS} of {len(cal.alpha)} levels are drawn." * (len(cal.alpha) > PANELS)
    caption = (
        f"Point: share of records whose label is in the set, n = {made.overall(0).n:,} in all, "
        f"{', '.join(levels)}. Line: {made.confidence:.0%} band (Clopper and Pearson), for one "
        "group at a time. Dashed: the promise, which is for all records of "
        f"{cal.target} together{'' if part == ALL else ', not for each group'}."
        f"{some * (len(kept) < len(made.parts[part][0]))}{more}"
    )
    first = made.parts[part][0]
    alt = f"Coverage at α = {cal.alpha[0]:g}: " + ", ".join(
        f"{made.named(part, key)} {first[key].value:.1%}" for key in kept if key in first
    )
    question = "How often is the label in the set" + (f", {TITLES[part]}?" if part != ALL else "?")
    answer = _spread(made, part, first)
    name = f"by-{part.replace(' ', '-')}"
    return responsive(name, question, answer, caption, alt, figures.bands, levels, names, targets)


def _spread(made: Evaluation, part: str, groups: Mapping[object, Coverage]) -> str:
    if part == ALL:
        return f"At α = {made.calibration.alpha[0]:g}: {made.said(0)}."
    low, high = (f(groups, key=lambda k: groups[k].value) for f in (min, max))
    level = f"At α = {made.calibration.alpha[0]:g}"
    if len(groups) == 1:
        return f"{level} there is {made.named(part, low)} alone."
    if groups[low].value == groups[high].value:
        return f"{level}: {groups[low].value:.1%} everywhere."
    ends = (
        f"{groups[key].value:.1%} ({made.named(part, key)}, n = {groups[key].n:,})"
        for key in (low, high)
    )
    said = f"{level}: {' to '.join(ends)}."
    if part == SIZE:
        return f"{said} Large sets mark the records about which the model is unsure."
    return said


def _sizes(made: Evaluation) -> Plot:
    cal = made.calibration
    levels = {f"α = {a:g}": made.sizes(k) for k, a in enumerate(cal.alpha[:PANELS])}
    means = {name: f"{sizes.mean():.2f}" for name, sizes in levels.items()}
    said = ", ".join(f"{mean} labels at {name}" for name, mean in means.items())
    empty = f"{(made.sizes(0) == 0).mean():.1%} of the sets are empty at α = {cal.alpha[0]:g}."
    caption = (
        f"Share of sets by number of labels, n = {made.overall(0).n:,} records, "
        f"{', '.join(levels)}; dashed: the mean. {empty} Nothing is promised for the size."
    )
    title, answer = "How big are the sets?", f"On average {said}, of {cal.n_classes:,}."
    drawn = figures.sizes, levels, cal.n_classes
    return responsive("sizes", title, answer, caption, f"Mean set size: {said}.", *drawn)


def _numbers(made: Evaluation, part: str) -> Table:
    levels = made.parts[part]
    keys = list(dict.fromkeys(key for level in levels for key in level))
    keys = keys if part == FILE else sorted(keys)
    rows = [
        [
            made.named(part, key),
            *(_cell(level.get(key)) for level in levels),
        ]
        for key in keys
    ]
    columns = ["Records", *(f"α = {a:g}" for a in made.calibration.alpha)]
    caption = f"Coverage in percent, its {made.confidence:.0%} band, and the number of records."
    return Table(f"Show the numbers {TITLES[part]}", columns, rows, caption, folded=True)


def _cell(c: Coverage | None) -> str:
    if c is None:
        return ""
    return f"{100 * c.value:.1f}\n{100 * c.low:.1f} to {100 * c.high:.1f}, n = {c.n:,}"


def _thresholds(cal: Calibration) -> Plot:
    names = [str(name) for name in cal.label_names or range(cal.n_classes)]
    levels = [f"α = {a:g}" for a in cal.alpha[: figures.MOST_LEVELS]]
    spans = [span(row) for row in positions(cal.thresholds, cal.distances)]
    said = ", ".join(f"{limits} at α = {a:g}" for a, limits in zip(cal.alpha, spans, strict=True))
    caption = (
        f"A label is in the set if its score is at most the threshold. {levels[0]}"
        f"{' and others' * (len(levels) > 1)}; they rest on n = {cal.n_records:,} calibration "
        f"records of {cal.n_sites} sites, worth {cal.effective_size:,.0f} of this target's own."
    )
    drawn = figures.thresholds, cal.thresholds[: figures.MOST_LEVELS], names, levels, cal.target
    title = "How unusual may a label look?"
    return responsive("thresholds", title, f"Threshold {said}.", caption, f"{said}.", *drawn)


def _left(cal: Calibration) -> Text:
    sent = (
        f"{cal.cost.rounds} round{'s' * (cal.cost.rounds != 1)}; a site sent "
        f"{cal.cost.bytes_up:,} bytes and received {cal.cost.bytes_down:,}."
    )
    scores = "Raw scores left the sites." if cal.shares_scores else "No list of scores left a site."
    said = (
        "No differential privacy is claimed: no ε limits what may be inferred from what left."
        if cal.privacy is None
        else cal.privacy.describe()
    )
    first = "" if cal.privacy is not None and cal.reveals == said else f"{cal.reveals.rstrip('.')}."
    words = [first[:1].upper() + first[1:], scores, sent, said]
    return Text("What left the sites", [text for text in words if text])


def _promise(cal: Calibration) -> Text:
    said = [f"The sets cover {cal.guarantee}.", *cal.notes]
    if cal.certificate is not None:
        said = [f"Certificate: {cal.certificate.statement}", *said]
    else:
        said.append("No certificate was asked for: the coverage is promised on average.")
    return Text("What is promised", said)


def _signatures(cal: Calibration, checked: bool) -> Text:
    if not cal.signed_by:
        return Text("Who signed", ["Nobody: whoever can write the file can change it."])
    held = (
        "The signatures hold, by the keys of the roster that was given."
        if checked
        else "They were not checked here: that takes the public keys (--trusted FILE)."
    )
    return Text("Who signed", [*(f"{one.describe()}." for one in cal.signed_by), held])


def _again(path: Path, made: Evaluation, calibration: Path, data: Sequence[Path]) -> Text:
    cal = made.calibration
    options = ", ".join(f"{k} = {v}" for k, v in cal.options.items()) or "none"
    files = " ".join(file.name for file in data)
    return Text(
        "How to make it again",
        [f"Method: {cal.method}; options: {options}. Score: {cal.score!r}."],
        code=[f"fedcover report {calibration.name} {files} --out {path.name}"],
    )
