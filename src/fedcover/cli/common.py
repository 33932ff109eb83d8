"""What the commands share: consoles, options, and how a coverage is shown."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.text import Text

import fedcover as fc
from fedcover import checks
from fedcover.cli.screen import Screen
from fedcover.cli.words import at_the_command_line
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.inputs import listed
from fedcover.options import make
from fedcover.position import positions
from fedcover.report.score_axis import span

out, err = Screen(), Screen(stderr=True)

T = TypeVar("T")

Files = Annotated[list[Path], typer.Argument(help="Site files: .npz, .csv or .parquet.")]
Alpha = Annotated[
    list[str],
    typer.Option(
        metavar="NUMBER",
        help="Error rate α: 0.1 asks for 90 % coverage. Several with commas: 0.05,0.1.",
    ),
]
Logits = Annotated[bool, typer.Option("--logits", help="Columns of csv/parquet are logits.")]
Temperature = Annotated[float, typer.Option(help="Divide logits by this before the softmax.")]
SCORES = ", ".join(name.lower() for name in fc.scores.ALL)
ScoreName = Annotated[str, typer.Option(help=f"One of {SCORES}.")]
ScoreOption = Annotated[
    list[str] | None, typer.Option(help="Option of the score, such as u=1 or penalty=0.1.")
]
Certify = Annotated[
    float | None,
    typer.Option(
        help="Probability, such as .95, with which the coverage is to be 1-α or more; larger sets."
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of every random choice.")]
PredictSeed = Annotated[
    int,
    typer.Option(
        help="Seed of the random part of the sets. A record's part depends on the record itself, "
        "so the same seed gives it the same set in every run."
    ),
]

Epsilon = Annotated[
    float | None, typer.Option(help="Privacy budget ε of the run; default no privacy.")
]
Delta = Annotated[float | None, typer.Option(help="δ of the privacy budget; default 1e-5.")]
Unit = Annotated[str | None, typer.Option(help="What is protected: record (the default), or site.")]
Relation = Annotated[
    str | None, typer.Option(help="Neighbours: replace (the default), or add-remove.")
]
View = Annotated[str | None, typer.Option(help="Who looks: server (the default), or secure-sum.")]
Conspirators = Annotated[
    int | None,
    typer.Option(help="In a secure sum: how many other sites may tell what they know; default 1."),
]
Trust = Annotated[
    Path | None,
    typer.Option(
        "--trusted",
        help="Roster of lines NAME KEY: a file that none of them has signed is refused.",
    ),
]
Gone = Annotated[str | None, typer.Option(hidden=True)]
Report = Annotated[Path | None, typer.Option(help="Also write a page with figures, an .html file.")]


def privacy_budget(
    epsilon: float | None,
    delta: float | None,
    unit: str | None,
    relation: str | None,
    view: str | None,
    conspirators: int | None,
) -> fc.Privacy | None:
    """The budget asked for, or None; a part of one without ε would protect nothing."""
    parts = {
        "delta": delta,
        "unit": unit,
        "relation": relation,
        "view": view,
        "conspirators": conspirators,
    }
    given = {name: value for name, value in parts.items() if value is not None}
    if epsilon is None:
        if given:
            raise FedcoverError(
                f"--{next(iter(given))} without --epsilon",
                allowed="the options of privacy with a budget ε",
                fix="Give --epsilon 2, for example; without it nothing is protected",
            )
        return None
    return fc.Privacy(epsilon, **{"delta": 1e-5, **given})  # type: ignore[arg-type]


def error_rates(alpha: Sequence[str]) -> tuple[float, ...]:
    """The levels of --alpha, which may be repeated or hold commas, checked."""
    levels = []
    for part in ",".join(alpha).split(","):
        try:
            levels.append(float(part))
        except ValueError:
            raise FedcoverError(
                f"--alpha is {part.strip()!r}",
                allowed="numbers between 0 and 1 with a point for decimals, and commas between",
                fix="Write --alpha 0.1 for 90 % coverage, or --alpha 0.05,0.1",
            ) from None
    if any(level in (0, 1) or level > 1 for level in levels) and len(levels) > 1:
        raise FedcoverError(
            f"--alpha is {','.join(alpha)}",
            allowed="numbers between 0 and 1; a comma stands between two levels",
            fix="Write a point for decimals: --alpha 0.1",
        )
    return checks.alphas(levels)


def note(text: str, kind: str = "Note", screen: Screen = out) -> None:
    """A remark under what was printed, in the words of the command line."""
    screen.print(Text.assemble((f"{kind}: ", "yellow"), at_the_command_line(text)))


def score_named(name: str, options: list[str] | None) -> fc.scores.Score:
    """A score function by its name on the command line."""
    kinds = {name.lower(): kind for name, kind in fc.scores.ALL.items()}
    return make(kinds, name, options, "score")


def known_target(target: str, known: Sequence[str]) -> str:
    """The name of a site."""
    if target not in known:
        raise FedcoverError(
            f"target {target!r} is not a site",
            allowed=f"a site: {listed(known)}",
            fix="Choose one with --target; site-mercy.npz is the site mercy",
        )
    return target


def spans(cal: fc.Calibration) -> list[str]:
    """The thresholds of each level, which may differ a little from label to label."""
    return [span(row) for row in positions(cal.thresholds, cal.distances)]


def coverages(cal: fc.Calibration) -> list[str]:
    """What is said of the coverage at each level: certified, with its deviation, or aimed at."""
    if cal.certificate is not None:
        return [f"≥ {1 - a:g} ({cal.certificate.confidence:.4g})" for a in cal.alpha]
    if cal.coverage_error is None:
        return [f"{1 - a:g}" for a in cal.alpha]
    stated = zip(cal.alpha, cal.coverage_error, strict=True)
    return [f"{1 - a:g} ± {error:.3f}" for a, error in stated]


def coverage_note(cal: fc.Calibration) -> str:
    """How to read what `coverages` says; nothing where it says the aim alone."""
    if cal.certificate is not None:
        return "Coverage ≥ c (p): at least c with probability p, see the certificate."
    if cal.coverage_error is None:
        return ""
    return "Coverage c ± s: s is one standard deviation, with every error that is known."


def shown_once(work: Callable[[], T], notes: Callable[[T], Iterable[str]]) -> T:
    """The result of some work; warnings that come back among its notes are not shown twice."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FedcoverWarning)
        done = work()
    known = set(notes(done))
    for warning in caught:
        if str(warning.message) not in known:
            warnings.warn(warning.message, warning.category, stacklevel=2)
    return done
