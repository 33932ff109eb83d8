"""`fedcover bounds`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

import fedcover as fc
from fedcover import checks
from fedcover.cli.common import Files, Logits, ScoreName, ScoreOption, Temperature, out, read_sites


def bounds(
    files: Files,
    target: Annotated[str, typer.Option(help="Site whose sets the bounds are about.")],
    alpha: Annotated[float, typer.Option(help="Error rate α.")] = 0.1,
    gamma: Annotated[
        float, typer.Option(help="Moreau parameter γ, or width of the search.")
    ] = 1e-6,
    density: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Smallest and largest density of the scores, for Theorem 4.3."),
    ] = None,
    score: ScoreName = "aps",
    score_option: ScoreOption = None,
    logits: Logits = False,
    temperature: Temperature = 1.0,
) -> None:
    """What the paper's theorems say about a federation, and which term dominates."""
    checks.alphas(alpha)
    sites = read_sites(files, score, score_option, logits, temperature, seed=0)
    rows = fc.bounds.federation_bounds(sites, target, alpha, gamma, densities=density)
    n = sum(len(s) for s in sites)
    shown = Table(title=f"{target}: {len(sites)} sites, {n} records, α = {alpha:g}")
    for heading in ("result", "bounds", "value", "largest term", "note"):
        shown.add_column(heading, justify="right" if heading == "value" else "left")
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.3g}"
        note = "; ".join(t for t in ("says nothing (≥ 1)" if row.vacuous else "", row.note) if t)
        shown.add_row(row.result, row.meaning, value, row.dominant, note)
    out.print(shown)
    out.print("Worst-case bounds from label counts; measured coverage: `fedcover evaluate`.")
