"""`fedcover privacy`."""

from __future__ import annotations

import math
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

import fedcover as fc
from fedcover import checks
from fedcover.cli.common import out
from fedcover.errors import FedcoverError
from fedcover.methods.dp_fedcp.algorithm1 import AlgorithmOne, imagenet_mixture, size_mixture
from fedcover.methods.sketch.plan import unknown_shares
from fedcover.privacy import accounting
from fedcover.privacy.events import GaussianRelease
from fedcover.privacy.statement import RELATIONS, VIEWS

Runs = Annotated[list[int], typer.Option(help="Separate runs, such as one per label.")]

PLAIN = """\
(a) the server sees each site's messages; (b) only sums over all sites are seen. What is protected \
is all data of one site, replaced by any other: it moves a gradient by at most 1. (b) counts every \
local step as a sum of its own, which is exact for K = 1.
The paper's claim is Theorem 4.4, which speaks of one run, where one per label was made. Its proof \
does not hold: it divides the loss of round t by t+1, although averaging shrinks signal and noise \
alike; it puts max λ where λ²/Σλ² belongs; it turns an inequality of sampling around; and it \
spends more than δ. Where the claim lies above a true ε, that is by chance. With n = 2 and \
S = T = K = 1 it claims 0.9 where 1.65 is exact; `fedcover audit paper` shows it."""

NO_GAIN = """\
Drawing sites gains nothing here: in (a) the server knows who was drawn, and in (b) the noise of \
the sum tells sites of unequal weight λ apart."""

NOT_COUNTED = """\
Not counted above: {what}. They leave every site exactly, so without noise on them the ε of all \
that is released is {total}. Nor are hidden: that a site takes part, and floating-point rounding."""


def privacy(
    rounds: Annotated[int, typer.Option(help="T of Algorithm 1.")] = 200,
    local_steps: Annotated[int, typer.Option(help="K of Algorithm 1.")] = 20,
    sigma: Annotated[
        list[float], typer.Option(help="Gradient noise σ_g; give it several times for more.")
    ] = [10.0, 30.0, 60.0, 100.0],  # noqa: B006 (typer copies it)
    delta: Annotated[float, typer.Option(help="δ at which ε is given.")] = 1e-5,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Records of the sites, such as 10x3950,500; λ is taken in proportion. Default: "
            "the paper's ImageNet federation with its label shift."
        ),
    ] = None,
    runs: Runs = [1, 1000],  # noqa: B006
    sites_per_round: Annotated[
        int | None, typer.Option(help="S sites drawn for each round; default all.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Show instead what the private sketch releases for this budget."),
    ] = None,
    conspirators: Annotated[
        int | None,
        typer.Option(
            help="How many other sites tell who sees the sums all they know; default 1 for the "
            "sketch, and none for Algorithm 1, as in the paper."
        ),
    ] = None,
) -> None:
    """What ε a method really has: Algorithm 1 beside the paper's claim, or the private sketch.

    Example: fedcover privacy --epsilon 2 --sizes 10x3950,500
    """
    checks.real(delta, "delta", 0, 0.5, open_low=True)
    mixture = imagenet_mixture() if sizes is None else size_mixture(_sizes(sizes))
    if epsilon is not None:
        _private(epsilon, delta, len(mixture), 1 if conspirators is None else conspirators)
        return
    cases = [
        AlgorithmOne(s, mixture, rounds, local_steps, sites_per_round, r, conspirators or 0)
        for s in sigma
        for r in runs
    ]
    few = "" if sites_per_round is None else f", {sites_per_round} per round"
    few += f", {conspirators} conspire" if conspirators else ""
    title = f"Algorithm 1, T = {rounds}, K = {local_steps}, {len(mixture)} sites{few}"
    shown = Table(title=Text(f"{title}: ε of one site's data at δ = {delta:g}"))
    for heading in ("σ_g", "runs", "(a) server", "(b) secure sum", "paper claims"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for case in cases:
        claimed = case.claimed_epsilon(delta) if case.runs == 1 else None
        shown.add_row(
            f"{case.noise:g}",
            f"{case.runs:,}",
            number(accounting.epsilon(case.server_events(), delta)),
            number(accounting.epsilon(case.secure_sum_events(), delta)),
            "-" if claimed is None else number(claimed),
        )
    out.print(shown)
    out.print(Text(PLAIN))
    first = cases[0]
    if sites_per_round is not None and not first.amplified:
        out.print(Text(NO_GAIN))
    exact = first.exact_events()
    total = number(accounting.epsilon([*first.server_events(), *exact], delta))
    what = ", ".join(event.what for event in exact)
    out.print(Text(NOT_COUNTED.format(what=what, total=total)))


def _private(epsilon: float, delta: float, n_sites: int, conspirators: int) -> None:
    """What the private sketch releases for a budget, under every relation and view."""
    from fedcover.methods.base import Task

    names = tuple(f"site {i}" for i in range(n_sites))
    about = f"ε = {epsilon:g}, δ = {delta:g}, any targets and α; {conspirators} may conspire"
    shown = Table(title=Text(f"Private sketch, {about}"))
    for heading in ("relation", "view", "released", "σ/Δ", "σ of the sum", "ε alone"):
        number_column = heading in ("σ/Δ", "σ of the sum", "ε alone")
        shown.add_column(
            heading, justify="right" if number_column else "left", no_wrap=heading != "released"
        )
    public: dict[str, None] = {}
    for relation in RELATIONS:
        for view in VIEWS:
            seen = (view, conspirators if view == "secure-sum" else 1)
            asked = fc.Privacy(epsilon, delta, "record", relation, *seen)
            stated = fc.methods.Sketch().statement(Task(names, 10, (0.1,), privacy=asked))
            assert stated is not None  # the task asks for privacy
            for event in stated.events:
                if not isinstance(event, GaussianRelease):
                    continue
                # In records that one unit moves; in a secure sum all but c shares are unknown.
                spread = event.noise_multiplier * (2**0.5 if relation == "replace" else 1)
                shares = n_sites / unknown_shares(asked, n_sites)
                shown.add_row(
                    relation,
                    view,
                    event.what,
                    f"{event.noise_multiplier:.3f}",
                    f"{spread * math.sqrt(shares):.1f}",
                    number(accounting.epsilon([event], delta)),
                )
            together = number(accounting.epsilon(stated.events, delta))
            shown.add_row("", "", Text("all together", "bold"), "", "", Text(together, "bold"))
            shown.add_section()
            public |= {f"{fact} ({relation})": None for fact in stated.public}
    out.print(shown)
    out.print(
        Text(
            f"σ of the sum: noise of a number summed over {n_sites} sites, in records (in what one "
            "record adds to a row for the table). ε composes: the parts do not add up to the "
            "whole. The unit is one record. All targets, α and labels share the same releases."
        )
    )
    if public:
        out.print(Text(f"Taken as public: {', '.join(public)}."))


def number(epsilon: float) -> str:
    """An ε with three digits, or as many as it has before the point."""
    if math.isinf(epsilon):
        return "∞"
    return f"{epsilon:,.0f}" if epsilon >= 1000 else f"{epsilon:.3g}"


def _sizes(text: str) -> list[int]:
    """The sizes behind 10x3950,500: ten sites of 3950 and one of 500."""
    sizes: list[int] = []
    for part in text.split(","):
        times, cross, size = part.strip().partition("x")
        digits = (times, size) if cross else ("1", times)
        if not all(d.strip().isdecimal() and 0 < int(d) <= checks.MOST_RECORDS for d in digits):
            raise FedcoverError(
                f"--sizes {text}",
                allowed="whole numbers with commas between, repeated as 10x3950",
                fix="Write --sizes 10x3950,500, for example",
            )
        sizes += [int(digits[1])] * min(int(digits[0]), checks.MOST_CLASSES)
    return sizes
