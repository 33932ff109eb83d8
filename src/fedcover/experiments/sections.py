"""Reports of the experiments: sections that several share, a page for each, and one for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.experiments.compare import ALPHA
from fedcover.experiments.records import Results
from fedcover.experiments.study import Agreement, Study
from fedcover.report.figures.charts import histograms
from fedcover.report.page import (
    Fact,
    Plot,
    Section,
    Table,
    Text,
    responsive,
    save_figures,
    write_page,
)

Float64 = NDArray[np.float64]

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
    note = f" {PUBLISHED}" if any(m.startswith("published") for m in values) else ""
    values, refused = answered(values)
    return responsive(
        name,
        title,
        within(values),
        f"Empirical coverage at {where}: {below} Dashed: target 1-α; orange: mean.{note}{refused}",
        f"Histograms of coverage by method: {title}",
        histograms,
        values,
        1 - ALPHA,
        "coverage (share of test records)",
        (0.6, 1.0),
    )


def coverage_by_score(
    name: str, title: str, where: str, results: Results, methods: Sequence[str], below: str
) -> list[Plot]:
    """The same for each kind of score, which the column u names; parameters as above."""
    out = []
    for u in results.kinds("u"):
        values = {m: results.values("coverage", u=u, method=m) for m in methods}
        full = f"{name}-coverage-{'one' if u == 'U = 1' else 'random'}"
        out.append(coverage_histograms(full, f"{title}, {u}", f"{where}, {u}", values, below))
    return out


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
        f"{text.capitalize()}: {'; '.join(methods) or 'none'}."
        for text, methods in groups.items()
        if methods or text.startswith("within")
    )


def method_table(
    results: Results,
    methods: Sequence[str],
    groups: Mapping[str, Mapping[str, Any]],
    title: str,
    below: str,
) -> Table:
    """Coverage and set size of all methods; `groups` names rows of the results to tell apart."""
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


PAPER = (
    "Plassier, Makni, Rubashevskii, Moulines and Panov, Conformal Prediction for Federated "
    "Uncertainty Quantification Under Label Shift, ICML 2023"
)


def agreement_table(rows: Sequence[Agreement]) -> Table:
    """The paper's claims beside ours."""
    return Table(
        "Does it agree with the paper?",
        ["quantity", "paper, by eye", "here", "difference", "band", "agrees"],
        [
            [
                f"{a.what}\n{a.figure}",
                a.paper,
                a.ours,
                a.difference,
                a.band,
                "yes" if a.agrees else "no",
            ]
            for a in rows
        ],
        "Values of the paper are read off its figures by eye. Mean ± standard deviation over "
        "repetitions. A band says how near is near enough.",
        text_columns=["paper, by eye", "here", "band"],
    )


@dataclass(frozen=True)
class Page:
    """What the page of one experiment shows."""

    study: Study
    results: Results
    sections: Sequence[Section]
    agreement: Sequence[Agreement]


def write_study(study: Study, results: Results, folder: Path, command: str) -> Page:
    """The page of one experiment, with its figures as files beside it."""
    drawn, rows = study.sections(results), study.agreement(results)
    repeated = f"An experiment of {PAPER}, repeated with the published settings and with ours."
    sections = [*drawn, *([agreement_table(rows)] if rows else []), _assumed(results)]
    agreed = sum(a.agrees for a in rows)
    write_page(
        folder / f"{study.name}.html",
        study.title,
        [repeated if rows else "An experiment of our own."],
        sections,
        facts=[
            Fact(f"{results.repetitions}", "repetitions"),
            *([Fact(f"{agreed} of {len(rows)}", "claims in their bands")] if rows else []),
        ],
        kicker=f"fedcover reproduce {study.name}",
        footer=f"Made by: {command}",
    )
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    save_figures(sections, figures)
    return Page(study, results, drawn, rows)


def write_all(pages: Sequence[Page], folder: Path, command: str) -> None:
    """The page of all experiments: agreement first, then every figure."""
    rows = [a for page in pages for a in page.agreement]
    sections: list[Section] = [agreement_table(rows)]
    for page in pages:
        name = page.study.name
        text = (
            f"{page.results.repetitions} repetitions. Page of its own: {name}.html; results: "
            f"{name}.parquet."
        )
        sections += [Text(page.study.title, [text]), *page.sections]
    write_page(
        folder / "index.html",
        "The paper, reproduced",
        [
            f"Every experiment of {PAPER}, with the published settings and with ours beside them.",
            "Coverage is the share of new records whose label is in the set; the promise is 1-α.",
        ],
        sections,
        facts=[
            Fact(f"{len(pages)}", "experiments"),
            Fact(f"{sum(a.agrees for a in rows)} of {len(rows)}", "claims in their bands"),
        ],
        kicker="fedcover reproduce all",
        footer=f"Made by: {command}",
    )


def _assumed(results: Results) -> Text:
    """Settings, versions and seed, for the record."""
    run = results.metadata
    terms = [(k.replace("_", " "), str(v)) for k, v in results.settings.items()]
    terms += [(k, str(run[k])) for k in ("seed", "repetitions")]
    terms += list(run.get("versions", {}).items())
    return Text("What was assumed", terms=terms, boxed=True)
