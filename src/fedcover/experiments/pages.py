"""Reports: one page per experiment, and one for all with the table of agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcover.experiments.records import Results
from fedcover.experiments.study import Agreement, Study
from fedcover.report.page import Fact, Section, Table, Text, save_figures, write_page

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
    sections = [*drawn, *([agreement_table(rows)] if rows else []), _assumed(results)]
    agreed = sum(a.agrees for a in rows)
    write_page(
        folder / f"{study.name}.html",
        study.title,
        [f"An experiment of {PAPER}, repeated with the published settings and with ours."],
        sections,
        facts=[
            Fact(f"{results.repetitions}", "repetitions"),
            Fact(f"{agreed} of {len(rows)}", "claims in their bands"),
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
    facts = results.facts
    terms = [(k.replace("_", " "), str(v)) for k, v in facts["settings"].items()]
    terms += [("seed", str(facts["seed"])), ("repetitions", str(facts["repetitions"]))]
    terms += [(k, v) for k, v in facts.get("versions", {}).items()]
    return Text("What was assumed", terms=terms, boxed=True)
