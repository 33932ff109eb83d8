"""`fedcover audit`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from fedcover.cli.common import Conspirators, err, out, privacy_budget
from fedcover.cli.parser import FOUND
from fedcover.errors import FedcoverError
from fedcover.methods import registry
from fedcover.options import make

PAPER = "paper"


def audit(
    method: Annotated[
        str,
        typer.Argument(
            help="Any method that states an ε: `fedcover methods` lists them; or paper for "
            "Algorithm 1 as published."
        ),
    ],
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the method, as key=value; repeatable."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="ε the method runs with; default 1, and 0.9 for the paper."),
    ] = None,
    delta: Annotated[float, typer.Option(help="δ of the claim.")] = 1e-5,
    unit: Annotated[str, typer.Option(help="What is protected: record or site.")] = "record",
    relation: Annotated[str, typer.Option(help="Neighbours by replace or add-remove.")] = "replace",
    view: Annotated[str, typer.Option(help="Who looks: server or secure-sum.")] = "server",
    conspirators: Conspirators = None,
    labels: Annotated[int, typer.Option(help="Number of labels.")] = 2,
    claim: Annotated[
        float | None, typer.Option(help="Another ε to test; default what the method claims.")
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(help="Runs on each data set; default 200,000, four million for the paper."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bounds.")] = 0.95,
) -> None:
    """Try to break a claim of privacy; exit code 3 if that succeeds.

    Example: fedcover audit sketch --epsilon 1 --runs 100000
    """
    from fedcover.audit import audit_method, audit_paper

    literal = method == PAPER
    given = (unit, relation, view, conspirators)
    if literal and (option or given != ("record", "replace", "server", None)):
        raise FedcoverError(
            "audit paper with options of other methods",
            allowed="epsilon, delta, claim, runs and confidence",
            fix="Leave the others out: the published algorithm has one form",
        )
    count = (4_000_000 if literal else 200_000) if runs is None else runs
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
        line = bar.add_task("runs", total=(2 if literal else 3) * count)

        def done(more: int) -> None:
            bar.advance(line, more)

        if literal:
            asked = 0.9 if epsilon is None else epsilon
            result = audit_paper(
                asked, delta, count, claim=claim, confidence=confidence, progress=done
            )
        else:
            chosen = make(registry.classes(), method, option, "method")
            private = registry.named(method.lower()).private
            result = audit_method(
                chosen,
                privacy_budget(
                    1.0 if epsilon is None else epsilon,
                    delta, unit, relation, view, conspirators,
                ) if private else None,
                count, labels=labels, claim=claim, confidence=confidence, progress=done,
            )  # fmt: skip
    out.print(Text(f"{result.method}. The account says ε = {result.accounted:.4g}."))
    style = "bold red" if result.contradicted else "green"
    out.print(Text(f"Verdict: {result.describe()}", style=style))
    if not result.contradicted:
        out.print("An audit can refute a claim; it cannot prove one. The account does that.")
    above = max(result.lower, result.gaussian or 0.0)
    if above > result.accounted:
        out.print(Text("The account is contradicted as well: do not use this method.", "bold red"))
    if result.contradicted or above > result.accounted:
        raise typer.Exit(FOUND)
