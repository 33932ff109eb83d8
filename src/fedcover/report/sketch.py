"""The page of a collected sketch: what is in it, what it does for its sites, what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcover.classnames import Names
from fedcover.methods.sketch import factor
from fedcover.methods.sketch.result import SketchResult
from fedcover.methods.sketch.table import Layout, SketchTable, row_totals
from fedcover.report import own_records
from fedcover.report.figures import sketch as figures
from fedcover.report.figures import style
from fedcover.report.page import Fact, Plot, Section, Table, Text, responsive, write_page
from fedcover.report.score_axis import ScoreAxis
from fedcover.site import Site

Float64 = NDArray[np.float64]

MOST_ROWS, MOST_COLUMNS = 40, 32
"""Rows and columns of the heat map that can be told apart on a page."""


LOCAL_PAGE = (
    "The coverage curves and numbers were computed from the sites' records without noise: "
    "this page is not covered by ε. Give others the sketch, not this page."
)


def write(
    path: Path,
    sketch: SketchResult,
    file: Path,
    sites: Sequence[Site] = (),
    groups: Sequence[str] | None = None,
) -> None:
    """Write the page.

    Parameters
    ----------
    path
        Where to.
    sketch, file
        What was collected, and where it is saved.
    sites
        Sites whose records lie here; of those the coverage is shown.
    groups
        (C,) names of the groups of labels, where they have names.
    """
    n, noisy = len(sketch.sites), sketch.privacy is not None
    shown = heat(sketch.table, sketch.label_names, groups)
    curves = own_records.curves_of(sketch, sites)
    sections: list[Section] = [_heat_map(sketch, shown)]
    if curves:
        sections += [own_records.plot(curves, len(sites), noisy), own_records.numbers(curves)]
    sections += [_cost(sketch, file), _privacy(sketch, bool(curves)), _promise(sketch), _next(file)]
    lead = [
        "Each row counts the calibration records of one label by how surprising the label is to "
        "the model. Records of one label look alike at all sites, or so it is assumed, and only "
        "the mix of labels differs: so a site weighs the rows by its own mix, at home, and has its "
        "thresholds for any error rate α. The mix that it asks for stays at home; the table that "
        f"it sends does count its calibration records by label{', with noise' * noisy}.",
    ]
    write_page(
        path,
        f"One table of {records(sketch)} records serves "
        f"{f'all {n} sites' if n > 1 else 'its site'}, and others, at every α",
        lead,
        sections,
        facts=_facts(sketch),
        kicker="fedcover collect · label × score sketch",
        footer=f"Written by fedcover {version('fedcover')}. {LOCAL_PAGE if curves else ''}".strip(),
    )


def records(sketch: SketchResult) -> str:
    """Number of records, marked where it is noisy."""
    return f"{'' if sketch.table.records else 'about '}{sketch.n_records:,}"


def _facts(sketch: SketchResult) -> list[Fact]:
    cost, privacy = sketch.cost, sketch.privacy
    rounds = "round of messages" if cost.rounds == 1 else "rounds of messages"
    facts = [
        Fact(str(cost.rounds), f"{rounds}, for every site and every α"),
        Fact(f"{cost.bytes_up:,}", "bytes sent by a site on average"),
    ]
    if privacy is None:
        return [*facts, Fact("no ε", "counts left the sites without noise", "bad")]
    what = "one record" if privacy.unit == "record" else "all data of one site"
    return [*facts, Fact(f"{privacy.epsilon:.3g}", f"ε for {what}, at δ = {privacy.delta:g}")]


def _heat_map(sketch: SketchResult, shown: Heat) -> Plot:
    layout = sketch.table.layout
    answer = f"{layout.rows:,} rows × {layout.bins:,} bins of scores."
    if shown.noise:
        answer += f" Privacy noise of ± {shown.noise:.3g} records is on every cell shown"
        below = int((shown.cells < 0).sum())
        made = f"; it made {below:,} of {shown.cells.size:,} negative, shown as they are"
        answer += f"{made if below else ''}."
    caption = (
        f"n = {records(sketch)} calibration records of {len(sketch.sites)} sites; no α is involved "
        f"yet. Colour: records in a cell, by the square root of their number. {shown.said} "
        "Numbers at the right: records of the row"
        f"{', from noisy totals' if shown.noise else ''}. Assumed: records of one label look alike "
        "at all sites."
    )
    alt = "Records by row: " + ", ".join(
        f"{name} {total}" for name, total in zip(shown.names(60), shown.totals, strict=True)
    )
    return responsive("heat-map", "What is in the table?", answer, caption, alt, shown.draw)


def _cost(sketch: SketchResult, file: Path) -> Table:
    cost, privacy = sketch.cost, sketch.privacy
    noisy = "" if privacy is None else "noisy "
    seen = (
        f"only the sum of the {noisy}tables over all sites"
        if privacy is not None and privacy.secure_sum
        else f"the {noisy}table and the {noisy}label totals of every site"
    )
    if sketch.table.confusion is not None:
        seen += f"; and {noisy}counts of which label the model predicted for which"
    rows = [
        ["Rounds", str(cost.rounds)],
        ["Sent by a site", f"{cost.bytes_up:,} bytes on average"],
        ["Received by a site", f"{cost.bytes_down:,} bytes on average"],
        ["The sketch itself", f"{file.stat().st_size:,} bytes, in {file.name}"],
        ["The server sees", seen],
        ["Every site sees", "the sketch, which is the sum over all sites"],
        ["Stays at a site", "its records, and the label mix that it asks thresholds for"],
    ]
    if privacy is None:
        rows.append(["Differential privacy", "none: the counts are exact, a count of 1 shows"])
    else:
        rows += [
            ["ε and δ", f"ε = {privacy.epsilon:.4g}, δ = {privacy.delta:g}"],
            ["Unit", "one record" if privacy.unit == "record" else "all data of one site"],
            ["Relation", f"{privacy.relation}: what neighbouring data sets differ by"],
            ["View", f"{privacy.view}: whom the promise holds against"],
        ]
        if privacy.secure_sum:
            told = "sites that may tell who sees the sum all they know"
            rows.append(["Conspirators", f"{privacy.conspirators}: {told}"])
    caption = (
        "Computed on one machine: bytes are counted as a network would see them. "
        "Personalising and predicting cost no message and no budget."
    )
    return Table("What it cost, and who sees what", ["What", "Value"], rows, caption,
                 text_columns=["Value"])  # fmt: skip


def _privacy(sketch: SketchResult, with_records: bool) -> Text:
    if sketch.privacy is None:
        reveals = sketch.method.reveals
        said = [f"Without differential privacy this left the sites: {reveals}."]
    else:
        said = [sketch.privacy.describe()]
    return Text("What may be known about a record", [*said, *[LOCAL_PAGE] * with_records])


def _promise(sketch: SketchResult) -> Text:
    effect = f" With privacy, {sketch.privacy.effect}." if sketch.privacy else ""
    return Text(
        "What this promises, and when it does not hold",
        [
            f"A site's sets cover {sketch.method.guarantee}.{effect} Each site is told its errors "
            "when it personalises: that of the sample, of the noise, and of its own label mix.",
            "Another scanner or another population at one site breaks the assumption. A site with "
            "scores of its own can give them (--use-own-scores), and is told when they disagree.",
        ],
    )


def _next(file: Path) -> Text:
    return Text(
        "What to do next",
        code=[
            "# at a site, for any α, without a message",
            f"fedcover personalise {file.name} --site mine.npz --alpha 0.1 --out mine.json",
            "fedcover predict mine.json new.npz",
            "fedcover evaluate mine.json labelled.npz",
        ],
    )


@dataclass(frozen=True)
class Heat:
    """What the heat map shows.

    Attributes
    ----------
    cells
        (R, K) records.
    rows, totals
        Names of the rows, those of the first and the last where several are pooled, and their
        records.
    ends
        The same in numbers.
    row_is
        What a row is.
    axis, places
        The score axis, and (K + 1,) where on it columns begin and end.
    noise
        Deviation of the noise of a typical cell.
    said
        How rows and columns were pooled, in words.
    """

    cells: Float64
    rows: list[tuple[str, ...]]
    ends: list[tuple[str, ...]]
    totals: list[str]
    row_is: str
    axis: ScoreAxis
    places: Float64
    noise: float
    said: str

    def draw(self, width: float = style.WIDE) -> style.Figure:
        """The heat map."""
        names = self.names(24 if width > style.NARROW else 14)
        return figures.heat_map(
            self.cells, names, self.totals, self.axis, self.places,
            ylabel=self.row_is, noise=self.noise, width=width,
        )  # fmt: skip

    def names(self, most: int) -> list[str]:
        """Names of the rows in so many characters; where two do not fit, numbers of both ends."""
        half = (most - 4) // 2
        crowded = any(len(row) > 1 and max(map(len, row)) > half for row in self.rows)
        rows = self.ends if crowded else self.rows
        return [style.shortened(" to ".join(row), most) for row in rows]


def heat(
    table: SketchTable,
    label_names: Names | None = None,
    groups: Sequence[str] | None = None,
) -> Heat:
    """Rows in the order of the table, neighbours pooled where there are too many.

    Parameters
    ----------
    table
        The sums.
    label_names
        (C,) names of the labels.
    groups
        (C,) names of their groups.
    """
    layout = table.layout
    row, row_starts = _pools(layout.rows, MOST_ROWS)
    ends = np.linspace(0, layout.bins, min(layout.bins, MOST_COLUMNS) + 1).round().astype(int)
    sums = np.add.reduceat(table.misses[:, ends[1:] - 1], row_starts, axis=0)
    cells = np.diff(sums, axis=1, prepend=0.0)[:, ::-1]  # from the top bin, shown at the right
    about = "" if table.exact else "≈ "
    totals = np.add.reduceat(row_totals(table)[0], row_starts)
    names = _row_names(layout, label_names, groups)
    numbers = [str(k) for k in range(layout.rows)]
    is_group = layout.groups is not None
    what = "groups" if is_group else "labels"
    said = [f"A row pools {row} {what} in their order; there are {layout.rows:,}."] * (row > 1)
    if len(ends) <= layout.bins:
        each = layout.bins / (len(ends) - 1)
        said.append(f"A column pools about {each:.0f} of {layout.bins:,} bins.")
    said.append("Every bin is as wide as the next, and they are finer near both ends.")
    return Heat(
        cells=np.where(np.abs(cells) < 1e-9, 0.0, cells),
        rows=[_ends(names[start : start + row]) for start in row_starts],
        ends=[_ends(numbers[start : start + row]) for start in row_starts],
        totals=[f"{about}{total:,.0f}" for total in totals],
        row_is="group of labels" if is_group else "label",
        axis=ScoreAxis.of(layout),
        places=1 - ends[::-1] / layout.bins,
        noise=float(np.median(_noise(table, ends))) * float(np.sqrt(row)),
        said=" ".join(said),
    )


def _noise(table: SketchTable, ends: NDArray[np.int64]) -> Float64:
    """(K,) deviation of the noise of one row's columns, which are differences of two sums."""
    if table.table_sd == 0:
        return np.zeros(len(ends) - 1)
    back = factor.recovery(table.layout.bins)
    sums = np.zeros((len(ends), len(back)))
    for total, end in zip(sums, ends, strict=True):
        total[:end] = back[:end][::-1]
    return table.table_sd * np.linalg.norm(np.diff(sums, axis=0), axis=1)


def _pools(n: int, most: int) -> tuple[int, NDArray[np.int64]]:
    """How many neighbours are pooled so that at most `most` are left, and where they begin."""
    size = -(-n // most)
    return size, np.arange(0, n, size)


def _row_names(
    layout: Layout, label_names: Names | None, groups: Sequence[str] | None
) -> list[str]:
    labels = [str(name) for name in label_names or range(layout.n_classes)]
    if layout.groups is None:
        return labels
    members: list[list[int]] = [[] for _ in range(layout.rows)]
    for y, row in enumerate(layout.groups):
        members[row].append(y)
    if groups is not None:
        return [f"{groups[m[0]]} ({len(m)})" for m in members]
    return [f"{len(m)} labels: {', '.join(labels[y] for y in m[:4])}, …" for m in members]


def _ends(names: list[str]) -> tuple[str, ...]:
    return (names[0],) if len(names) == 1 else (names[0], names[-1])
