"""`fedcover demo`: five hospitals, real data, every method side by side, a report to open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

REPETITIONS = 100


def run(
    out: Path,
    *,
    alpha: float = 0.1,
    repetitions: int = REPETITIONS,
    seed: int = 0,
    console: Console,
) -> None:
    """Run the demo: print the table, write the report and example files into `out`.

    Parameters
    ----------
    out
        Folder for the files; made if it does not exist.
    alpha
        Error rate α, one number.
    repetitions
        Random splits to average over, at least two.
    seed
        Seed of every random choice.
    console
        Where the progress bar and the table go.
    """
    # Heavy imports wait until the demo is really run.
    from fedcover.demo import experiment, files, page, terminal

    experiment.check(alpha, repetitions, seed)
    files.make_folder(out)
    results = terminal.with_progress(console, repetitions, alpha, seed)
    with console.status("Writing the report"):
        files.write(results, out)
        page.write(results, out)
    terminal.show(results, out, console)
