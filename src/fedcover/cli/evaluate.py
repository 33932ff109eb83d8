"""`fedcover evaluate` and `fedcover report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedcover._io.writing import replacing
from fedcover.cli.common import Logits, PredictSeed, Report, Trust, out
from fedcover.cli.files import check_outputs, load_calibration, outputs_for
from fedcover.errors import FedcoverError
from fedcover.evaluation import Evaluation

Made = Annotated[
    Path, typer.Argument(metavar="CALIBRATION", help="A .json of `calibrate` or `personalise`.")
]
Data = Annotated[
    list[Path],
    typer.Argument(metavar="DATA...", help="Model outputs of labelled records, a file or several."),
]
Confidence = Annotated[float, typer.Option(help="Confidence of the bands.")]


def evaluate(
    calibration: Made,
    data: Data,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Also write the figures as .json.")
    ] = None,
    report: Report = None,
    confidence: Confidence = 0.95,
    logits: Logits = False,
    seed: PredictSeed = 0,
    trusted: Trust = None,
) -> None:
    """Coverage of the sets on labelled records: overall, by file, by class and by set size.

    Example: fedcover evaluate calibrations/mercy.json labelled.npz
    """
    check_outputs({".json": out_file, ".html": report}, [calibration, *data])
    made = _evaluated(calibration, data, confidence, logits, seed, trusted)
    _show(made)
    if out_file is not None:
        with replacing(out_file) as file:
            file.write(json.dumps(made.facts(), indent=1))
    if report is not None:
        _write(report, made, calibration, data, trusted)


def report(
    calibration: Made,
    data: Data,
    out_file: Annotated[Path, typer.Option("--out", help="The page to write, an .html file.")],
    confidence: Confidence = 0.95,
    logits: Logits = False,
    seed: PredictSeed = 0,
    trusted: Trust = None,
) -> None:
    """A page about a calibration: coverage on labelled records, thresholds, what left the sites.

    Example: fedcover report calibrations/mercy.json labelled.npz --out mercy.html
    """
    check_outputs({".html": out_file}, [calibration, *data])
    made = _evaluated(calibration, data, confidence, logits, seed, trusted)
    for a, level in enumerate(made.calibration.alpha):
        c = made.overall(a)
        out.print(Text(f"α = {level:g}: coverage {c.value:.3f} of {c.n} records; {made.said(a)}"))
    _write(out_file, made, calibration, data, trusted)


def _evaluated(
    calibration: Path,
    data: list[Path],
    confidence: float,
    logits: bool,
    seed: int,
    trusted: Path | None,
) -> Evaluation:
    """The sets of all records, after a look at every file."""
    cal = load_calibration(calibration, data[0], trusted)
    twice = [path for k, path in enumerate(data) if path.stem in {p.stem for p in data[:k]}]
    if twice:
        raise FedcoverError(
            f"two files are called {twice[0].stem}",
            allowed="every file once, with a name of its own",
            fix="Leave one out, or rename it",
        )
    read = {}
    for path in data:
        table = outputs_for(cal, path, logits)
        read[path.stem] = (table.probs, table.require_labels())
    return Evaluation.of(cal, read, seed, confidence)


def _show(made: Evaluation) -> None:
    cal = made.calibration
    for a, level in enumerate(cal.alpha):
        title = f"{cal.target}, {cal.method}, α = {level:g}: promise {1 - level:g}"
        shown = Table(title=Text(title))
        for heading in ("records", "n", "coverage", f"{made.confidence:.0%} band"):
            shown.add_column(heading, justify="left" if heading == "records" else "right")
        for part, by_level in made.parts.items():
            for key, c in by_level[a].items():
                name = Text(made.named(part, key))
                shown.add_row(name, str(c.n), f"{c.value:.3f}", f"{c.low:.3f} - {c.high:.3f}")
        out.print(shown)
        size = made.sizes(a).mean()
        out.print(f"mean set size {size:.3f} of {cal.n_classes}; {made.said(a)}")
    if cal.certificate is not None:
        out.print(Text(f"Certificate: {cal.certificate.statement}"))


def _write(
    path: Path, made: Evaluation, calibration: Path, data: list[Path], trusted: Path | None
) -> None:
    from fedcover.report.evaluation import write

    write(path, made, calibration, data, trusted is not None)
    said = "It shows coverage and labels of your records: mind who reads it."
    out.print(Text(f"Report: {path}. {said}"), soft_wrap=True)
