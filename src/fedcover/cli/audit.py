"""`fedcover audit`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

import fedcover as fc
from fedcover import checks
from fedcover.cli.common import err, out
from fedcover.cli.parser import FOUND
from fedcover.methods import registry

METHODS = (*(e.name for e in registry.entries() if e.audited), "paper")


def audit(
    method: Annotated[
        str,
        typer.Argument(
            help="sketch (dp-fedcp with a budget is the same), or paper for Algorithm 1 as "
            "published."
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="ε the method runs with; default 1, and 0.9 for the paper."),
    ] = None,
    delta: Annotated[float, typer.Option(help="δ of the claim.")] = 1e-5,
    relation: Annotated[
        str, typer.Option(help="For the sketch: neighbours by replace or add-remove.")
    ] = "replace",
    view: Annotated[str, typer.Option(help="For the sketch: server or secure-sum.")] = "server",
    claim: Annotated[
        float | None, typer.Option(help="Another ε to test; default what the method claims.")
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Runs on each data set; default a million, four for the paper."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.95,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the split of the runs; the noise has none.")
    ] = None,
) -> None:
    """Try to break a claim of privacy; exit code 3 if that succeeds.

    Example: fedcover audit sketch --epsilon 1 --runs 100000
    """
    from fedcover import audit as audits

    checks.choice(method, "method", METHODS)
    literal = method == "paper"
    privacy = fc.Privacy(
        (0.9 if literal else 1.0) if epsilon is None else epsilon,
        delta,
        relation=relation,
        view=view,
    )
    count = (4_000_000 if literal else 1_000_000) if runs is None else runs
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    with bar:
        line = bar.add_task("runs", total=2 * count)

        def done(more: int) -> None:
            bar.advance(line, more)

        if literal:
            result = audits.audit_paper(
                privacy.epsilon, delta, count,
                claim=claim, confidence=confidence, seed=seed, progress=done,
            )  # fmt: skip
        else:
            result = audits.audit_sketch(
                privacy, count, claim=claim, confidence=confidence, seed=seed, progress=done
            )
    out.print(Text(f"{result.method}. The accountant says ε = {result.accounted:.4g}."))
    style = "bold red" if result.contradicted else "green"
    out.print(Text(f"Verdict: {result.describe()}", style=style))
    if not result.contradicted:
        out.print("An audit can refute a claim; it cannot prove one. The account does that.")
    if result.lower > result.accounted:
        out.print(
            Text("The accountant is contradicted as well: do not use this method.", "bold red")
        )
    if result.contradicted or result.lower > result.accounted:
        raise typer.Exit(FOUND)
