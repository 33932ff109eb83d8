"""`fedcover merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedcover.cli.collect import OutSketch, Report, show
from fedcover.cli.common import out, site_files
from fedcover.cli.sketchfile import merged, outputs
from fedcover.errors import FedcoverError


def merge(
    sketches: Annotated[list[Path], typer.Argument(help="Sketches written by `collect`.")],
    out_file: OutSketch,
    report: Report = None,
) -> None:
    """Add up sketches of different sites; nothing is sent, and no budget is spent."""
    outputs({".npz": out_file, ".html": report}, [])
    sketches = site_files(sketches)
    if len(sketches) < 2:
        raise FedcoverError(
            f"{len(sketches)} sketch is given",
            allowed="two or more",
            fix="fedcover merge north.npz south.npz --out all.npz, for example",
        )
    sketch = merged(sketches)
    sketch.save(out_file)
    show(sketch, out_file)
    if report is not None:
        from fedcover.report.sketch import write

        write(report, sketch, out_file)
        out.print(Text(f"Report: {report}"))
