"""`fedcover bounds`."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

import fedcover as fc
from fedcover import checks
from fedcover.bounds import BoundRow
from fedcover.cli.common import (
    Files,
    Logits,
    ScoreName,
    ScoreOption,
    Temperature,
    known_target,
    out,
)
from fedcover.cli.files import read_sites, site_files, site_name

HELPS = {
    "target counts": "more labelled records of {target}, or label_counts of {target} from more "
    "data",
    "pooled counts": "more labelled records at all sites, above all of the rarest label",
    "finite sample": "more calibration records at any site",
    "largest ratio": "records of the labels that are frequent at {target} and rare at the others",
    "small sites": "more records at the smallest sites",
    "no records": "records of the labels that occur at no site",
}
"""What makes each term smaller, by the names of `fedcover.bounds`."""


def bounds(
    files: Files,
    target: Annotated[str, typer.Option(help="Site whose sets the bounds are about.")],
    alpha: Annotated[float, typer.Option(help="Error rate α.")] = 0.1,
    gamma: Annotated[
        float, typer.Option(help="Moreau parameter γ, or width of the search.")
    ] = 1e-6,
    density: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH", help="Smallest and largest density of the scores, for Theorem 4.3."
        ),
    ] = None,
    score: ScoreName = "aps",
    score_option: ScoreOption = None,
    logits: Logits = False,
    temperature: Temperature = 1.0,
) -> None:
    """What the paper's theorems say about a federation, and which term dominates.

    Example: fedcover bounds site-*.npz --target mercy --alpha 0.1
    """
    checks.asked_alphas(alpha)
    if density is not None:
        checks.real(density[0], "the first number of --density", 0, 1, open_low=True)
        checks.real(density[1], "the second number of --density", 1, np.inf)
    files = site_files(files)
    known_target(target, [site_name(f) for f in files])
    sites = read_sites(files, score, score_option, logits, temperature, seed=0)
    rows = fc.bounds.federation_bounds(sites, target, alpha, gamma, densities=density)
    n = sum(len(s) for s in sites)
    shown = Table(title=Text(f"{target}: {len(sites)} sites, {n} records, α = {alpha:g}"))
    for heading in ("result", "bounds", "value", "largest term", "note"):
        shown.add_column(heading, justify="right" if heading == "value" else "left")
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.3g}"
        note = "; ".join(t for t in ("says nothing (≥ 1)" if row.vacuous else "", row.note) if t)
        shown.add_row(row.result, row.meaning, value, row.dominant, note)
    out.print(shown)
    out.print("Worst-case bounds from label counts; measured coverage: `fedcover evaluate`.")
    out.print(Text(advice(rows, target)))


def advice(rows: list[BoundRow], target: str) -> str:
    """One sentence: the largest term of the main result, and which data would make it smaller."""
    by_name = {row.result: row for row in rows}
    main, shift = by_name["Theorem 2.4"], by_name["Equation 11, repaired"]
    term = main.dominant
    if term == "shift distance":  # itself a bound, with terms of its own
        term = shift.dominant if shift.value is not None and np.isfinite(shift.value) else ""
        named = f"the shift distance, and in it by the {term}" if term else "the shift distance"
        term = term or "no records"
    else:
        named = f"the term {term!r}"
    helps = HELPS.get(term, "more calibration records").format(target=target)
    return f"The bound on the coverage (Theorem 2.4) is dominated by {named}; what helps: {helps}."
