"""`fedcover reproduce`: the paper's experiments; and `fedcover demo`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcover import checks
from fedcover._io.writing import output_folder, unwritable
from fedcover.cli.common import out
from fedcover.errors import FedcoverError
from fedcover.experiments import NAMES, PAPER

if TYPE_CHECKING:
    from fedcover.experiments.sections import Page

WIDE = 130
"""Columns of a terminal from which on the table of agreement is shown whole."""


def demo(
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path(
        "fedcover-demo"
    ),
    alpha: Annotated[float, typer.Option(help="Error rate α.")] = 0.1,
    repetitions: Annotated[int, typer.Option(help="Random splits to average over.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
) -> None:
    """Five hospitals, real data, every method side by side: a table and an HTML report.

    Example: fedcover demo --out fedcover-demo
    """
    from fedcover.experiments.demo.command import run

    run(out_dir, alpha=alpha, repetitions=repetitions, seed=seed, console=out)


def reproduce(
    what: Annotated[
        str, typer.Argument(help="all of the paper's, or one of: " + ", ".join(NAMES))
    ] = "all",
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("report"),
    quick: Annotated[bool, typer.Option("--quick", help="Few repetitions: a first look.")] = False,
    repetitions: Annotated[
        int | None, typer.Option(help="Repetitions; default 1000 or 200, by experiment.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes; default all cores.")] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Send repetitions to a Ray cluster.")] = False,
    logits: Annotated[
        Path | None,
        typer.Option(help="Your own logits file: 10 classes, or 100 and more, as in ImageNet."),
    ] = None,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Only draw again from the tables in the folder.")
    ] = False,
) -> None:
    """Repeat the paper's experiments, or the demo; writes tables, figures and an HTML report.

    Example: fedcover reproduce simulated --quick --out report
    """
    from fedcover.experiments import records, runner, sections, studies

    checks.choice(what, "experiment", ["all", *NAMES])
    if repetitions is not None:
        checks.whole(repetitions, "repetitions", 2)
    checks.whole(seed, "seed", 0)
    output_folder(out_dir)
    chosen = studies(PAPER if what == "all" else (what,), logits)
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out_dir, error) from None
    command = shlex.join(["fedcover", *sys.argv[1:]])
    done = []
    executors = nullcontext(runner.on_ray) if ray else runner.processes(workers)
    screen = Console(stderr=True) if sys.stderr.isatty() else None
    with runner.progress_bars(screen) as new_bar, executors as executor:
        for study in chosen:
            count = repetitions or (study.quick if quick else study.repetitions)
            if redraw:
                results = _existing(records, out_dir / f"{study.name}.parquet")
            else:
                bar = new_bar(study.name, count)
                results = runner.run(study, out_dir, count, seed, executor, bar)
            done.append(sections.write_study(study, results, out_dir, command))
    if what == "all":
        sections.write_all(done, out_dir, command)
    _show(done)
    page = "index.html" if what == "all" else f"{what}.html"
    out.print(Text(f"The report is {out_dir / page}; tables (.parquet) and figures lie beside it."))


def _existing(records: Any, path: Path) -> Any:
    if not path.exists():
        raise FedcoverError(
            f"{path} does not exist",
            allowed="--redraw where the experiment has been run",
            fix="Leave --redraw out",
        )
    return records.load(path)


def _show(pages: Sequence[Page]) -> None:
    """The table of agreement, with as many columns as the terminal has room for."""
    wide = out.width >= WIDE
    table = Table(title="The paper, by eye, and here", caption="✗: outside the band, see the page")
    for heading in ("quantity", "paper", "here", *(("difference", "band") if wide else ()), ""):
        table.add_column(heading)
    for page in pages:
        name, n = page.study.name, page.results.repetitions
        table.add_row(Text(f"{name}, {n} repetitions", style="bold"))
        for a in page.agreement:
            mark = Text("✓", style="green") if a.agrees else Text("✗", style="yellow")
            more = (a.difference, a.band) if wide else ()
            table.add_row(f"{a.figure}: {a.what}", a.paper, a.ours, *more, mark)
        table.add_section()
    out.print(table)
