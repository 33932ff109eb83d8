"""`fedcover demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcover.cli.common import out


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
