"""Reports of the experiments: shared sections, the paper's values beside ours, a page for each.

The paper's values are read by eye off its figures; its text gives no numbers for them. (Plassier et
al., ICML 2023, Figures 1 to 3 and the violin plots of its appendix. Target .90.)
"""

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

SIMULATED = {"Global": 0.80, "Oracle": 0.90, "DP-FedCP": 0.90}
"""Figure 1: centres of the coverage histograms."""

CIFAR10 = {"Global": 0.845, "DP-FedCP": 0.90, "DP-FedCP sd": 0.015, "Local low": 0.78}
"""Figure 2, target agent 4."""

IMAGENET = {"Global": 0.825, "DP-FedCP": 0.90, "DP-FedCP sd": 0.008}
"""Figure 3a."""

SHIFT = {50: 0.90, 60: 0.885, 70: 0.866, 80: 0.846, 90: 0.825, 95: 0.815}
"""Figure 3c: coverage of Global by shift in per cent; DP-FedCP stays at .90."""

NOISE_SPREAD = {10: 0.01, 100: 0.04}
"""Figure 3b: spread of the coverage of DP-FedCP by σ_g, skewed to over-coverage."""

PUBLISHED_COVERAGE = 0.90
"""Coverage of DP-FedCP in Figures 1 to 3, whose settings lack the start q₀."""


def signed(difference: float) -> str:
    """A difference with its sign, unless it rounds to nothing."""
    text = f"{difference:+.3f}"
    return "0.000" if text in ("+0.000", "-0.000") else text


def number(
    figure: str, what: str, paper: float, ours: NDArray[np.float64], band: float
) -> Agreement:
    """A mean over repetitions beside a value read off a figure."""
    mean = float(ours.mean())
    return Agreement(
        figure,
        what,
        f"{paper:.3f}",
        f"{mean:.3f} ± {ours.std():.3f}",
        signed(mean - paper),
        abs(mean - paper) <= band,
        f"within {band:g}",
    )


def claim(
    figure: str,
    what: str,
    paper: str,
    ours: str,
    band: str,
    *,
    agrees: bool,
    difference: str = "",
) -> Agreement:
    """A claim in words beside what was found."""
    return Agreement(figure, what, paper, ours, difference, agrees, band)


def ordered(figure: str, low: NDArray[np.float64], high: NDArray[np.float64]) -> Agreement:
    """That Global covers less than DP-FedCP on average; says how often, too."""
    return claim(
        figure,
        "Global covers less than DP-FedCP",
        "yes",
        f"by {(high - low).mean():.3f}, in {100 * (low < high).mean():.0f} % of repetitions",
        "by at least 0.01",
        agrees=bool((high - low).mean() >= 0.01),
    )


def published(figure: str, coverage: Mapping[str, NDArray[np.float64]]) -> list[Agreement]:
    """What the paper shows of DP-FedCP beside its published settings; coverage by start q₀."""
    means = {q: float(v.mean()) for q, v in coverage.items()}
    best = min(means, key=lambda q: abs(means[q] - PUBLISHED_COVERAGE))
    spread = max(means.values()) - min(means.values())
    return [
        claim(
            figure,
            "DP-FedCP as published, at the best q₀ tried",
            f"{PUBLISHED_COVERAGE:.3f}",
            f"{means[best]:.3f} with q₀ = {best}",
            "within 0.02",
            agrees=abs(means[best] - PUBLISHED_COVERAGE) <= 0.02,
            difference=signed(means[best] - PUBLISHED_COVERAGE),
        ),
        claim(
            figure,
            "DP-FedCP as published, whatever q₀",
            "not stated, so any",
            "; ".join(f"q₀ = {q}: {mean:.3f}" for q, mean in means.items()),
            "means within 0.02 of each other",
            agrees=spread <= 0.02,
        ),
    ]


PUBLISHED_SETTINGS = (
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
    note = f" {PUBLISHED_SETTINGS}" if any(m.startswith("published") for m in values) else ""
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
