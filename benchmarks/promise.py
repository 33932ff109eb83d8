"""Does the promise hold on worlds that nobody has looked at? ``python -m benchmarks.promise``.

Every draw is a new random world of a family (see tests/statistical/worlds.py): a population of
scores, a federation, and a target whose label mix is known. The sketch is collected with every
budget and view, personalised for the target, and its coverage computed from the population. Bias is
against the attainable coverage: the smallest at or above 1-α that one threshold for all labels
reaches. Crowds narrower than a bin that is public and fixed (see RESOLUTION) excuse their own mass.

Marked are a bias of more than .005 beyond three standard errors, a share within two stated
deviations outside 91 to 99.5 %, and certificates broken more often than they may be. The seed is a
new one unless given, and printed. With --out every trial is written down as it is done, and a run
that was stopped goes on where it ended.

    python -m benchmarks.promise --draws 200 --out promise.jsonl --jobs 2
    python -m benchmarks.promise --family saturated --epsilon 2 --draws 50
    python -m benchmarks.promise --certify .95 --epsilon none --epsilon 1
"""

from __future__ import annotations

import argparse
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.statistical.trials import VIEWS, Cell, budget, trial, worlds_of
from tests.statistical.worlds import FAMILIES

BATCH = 5
"""Worlds that a process draws at a time."""

EXPLAINED = (
    "Bias and spread: coverage less attainable coverage, of those not refused; where a "
    "crowd is narrower than public bins all within the bin is attainable. Strict: without this "
    "exception, and in how many draws it applies. In brackets: 95 % interval of the share. "
    "Rows here hold trials of the same worlds: their standard errors and intervals are too small."
)


@dataclass(frozen=True)
class Plan:
    """What is asked of every world."""

    seed: int
    draws: int = 200
    families: tuple[str, ...] = FAMILIES
    epsilons: tuple[float | None, ...] = (1.0, 2.0, 8.0)
    views: tuple[str, ...] = VIEWS
    alpha: float = 0.1
    certify: float | None = None
    counted: int | None = None

    @property
    def cells(self) -> list[tuple[float | None, str]]:
        """Budgets and views; without a budget the view does not matter."""
        private = [e for e in self.epsilons if e is not None]
        plain = [(None, "")] if None in self.epsilons else []
        return [*product(private, self.views), *plain]


def table(title: str, *columns: str, caption: str | None = None) -> Table:
    """An empty table as the other benchmarks print it, without what they need for measuring."""
    made = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for i, column in enumerate(columns):
        made.add_column(column, justify="right" if i else "left", no_wrap=True)
    return made


def tables(quick: bool) -> Iterator[Table]:
    """All families with a new seed."""
    plan = Plan(secrets.randbits(31), 10 if quick else 200)
    yield from reports(plan, rows_of(plan), [])


def rows_of(plan: Plan, jobs: int = 1, done: Iterable[dict[str, Any]] = ()) -> Iterator[list[Any]]:
    """The trials that are not done yet, some worlds of one family at a time, in order."""
    have = {(row["family"], row["draw"]) for row in done}
    asked = []
    for family in plan.families:
        left = [r for r in range(plan.draws) if (family, r) not in have]
        asked += [(plan, family, left[a : a + BATCH]) for a in range(0, len(left), BATCH)]
    if jobs == 1:
        yield from map(_batch, asked)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_batch, asked)


def _batch(asked: tuple[Plan, str, list[int]]) -> list[dict[str, Any]]:
    plan, family, numbers = asked
    rows = []
    for r, world in zip(numbers, worlds_of(family, plan.seed, numbers), strict=True):
        for epsilon, view in plan.cells:
            cell = {"family": family, "draw": r, "epsilon": epsilon, "view": view}
            privacy = budget(epsilon, view) if epsilon else None
            found = trial(world, privacy, plan.alpha, plan.certify, plan.counted)
            rows.append({**cell, "score": type(world.score).__name__, **found})
    return rows


def reports(
    plan: Plan, batches: Iterable[list[dict[str, Any]]], done: Sequence[dict[str, Any]]
) -> Iterator[Table]:
    """A table of each family as soon as it is complete, then what is the worst and all together."""
    rows, shown = list(done), 0
    for batch in batches:
        rows += batch
        while shown < len(plan.families) and batch[-1]["family"] != plan.families[shown]:
            yield _family(plan, plan.families[shown], rows)
            shown += 1
    for family in plan.families[shown:]:
        yield _family(plan, family, rows)
    yield _whole(plan, rows)


def _family(plan: Plan, family: str, rows: Sequence[dict[str, Any]]) -> Table:
    made = _empty(plan, f"{family}, seed {plan.seed}", "ε, view")
    for epsilon, view in plan.cells:
        keep = (family, epsilon, view)
        mine = [r for r in rows if (r["family"], r["epsilon"], r["view"]) == keep]
        if mine:
            _add(plan, made, f"{epsilon:g}, {view}" if epsilon else "no privacy", Cell.of(mine))
    return made


def _whole(plan: Plan, rows: Sequence[dict[str, Any]]) -> Table:
    """All cells together, and the trials by score."""
    made = _empty(plan, f"All families, seed {plan.seed}", "", EXPLAINED)
    _add(plan, made, "all", Cell.of(list(rows)))
    for name in sorted({r["score"] for r in rows} - {"NoneType"}):
        _add(plan, made, name, Cell.of([r for r in rows if r["score"] == name]))
    return made


def _empty(plan: Plan, title: str, first: str, caption: str | None = None) -> Table:
    promise = f"target {1 - plan.alpha:g}"
    if plan.certify:
        promise += f", certified with confidence {plan.certify:g}"
    if plan.counted:
        promise += f", mix counted from {plan.counted} labels"
    return table(
        f"{title}, {promise}",
        first,
        "draws",
        "refused",
        "warned",
        "bias ± s.e.",
        "spread",
        "strict (crowded)",
        "within 2 stated",
        "below target",
        "size / oracle",
        "",
        caption=caption,
    )


def _add(plan: Plan, made: Table, name: str, cell: Cell) -> None:
    low, high = cell.interval()
    share = f"{cell.inside / cell.stated:.3f} ({low:.2f}-{high:.2f})" if cell.stated else "-"
    marks = []
    if plan.certify is None:
        marks += ["bias"] * bool(cell.biased()) + ["stated"] * bool(cell.untrue())
    elif cell.violated(plan.certify, 0.95):
        marks.append("certificate")
    made.add_row(
        name,
        str(cell.draws),
        str(cell.refused),
        str(cell.warned),
        f"{cell.bias:+.4f} ± {cell.error:.4f}",
        f"{cell.spread:.4f}",
        f"{cell.strict:+.4f} ({cell.crowded})",
        share,
        f"{cell.below / max(1, cell.calibrated):.3f}",
        f"{cell.size:.3f}",
        f"[red]{', '.join(marks)}[/red]" if marks else "",
    )


def _epsilon(text: str) -> float | None:
    return None if text == "none" else float(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.promise",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--draws", type=int, default=200, help="worlds of each family (200)")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--epsilon", action="append", type=_epsilon, help="1, 2, 8; or none")
    parser.add_argument("--view", action="append", choices=VIEWS)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--certify", type=float, help="ask for a certificate of this confidence")
    parser.add_argument("--counted", type=int, help="the mix is counted from so many labels")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="file of trials, one a line; goes on with it")
    options = parser.parse_args()
    asked = {
        "draws": options.draws,
        "families": list(options.family or FAMILIES),
        "epsilons": list(options.epsilon or (1.0, 2.0, 8.0)),
        "views": list(options.view or VIEWS),
        "alpha": options.alpha,
        "certify": options.certify,
        "counted": options.counted,
    }
    seed, done = options.seed, []
    if options.out and options.out.exists():
        head, *lines = options.out.read_text().splitlines()
        before = json.loads(head)
        seed = before.pop("seed") if seed is None else seed
        if {"seed": seed, **before, "draws": 0} != {"seed": seed, **asked, "draws": 0}:
            parser.error(f"{options.out} was made with other options: {head}")
        done = [row for line in lines for row in json.loads(line)]
    seed = secrets.randbits(31) if seed is None else seed
    plan = Plan(seed, **{k: tuple(v) if isinstance(v, list) else v for k, v in asked.items()})
    if options.out and not done:
        options.out.write_text(json.dumps({"seed": seed, **asked}) + "\n")

    console = Console(width=max(150, Console().width))
    console.print(f"seed {seed}; {plan.draws} worlds of each family, δ = 1e-5")
    batches = rows_of(plan, options.jobs, done)
    if options.out:
        batches = _written(batches, options.out)
    for made in reports(plan, batches, done):
        console.print(made)


def _written(batches: Iterable[list[Any]], path: Path) -> Iterator[list[Any]]:
    """The same batches, each a line of a file before it is used."""
    for batch in batches:
        with path.open("a") as file:
            file.write(json.dumps(batch) + "\n")
        yield batch


if __name__ == "__main__":
    main()
