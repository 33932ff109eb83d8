"""`fedcover evaluate`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import fedcover as fc
from fedcover._io.writing import output_file, replacing
from fedcover.cli.common import Logits, PredictSeed, Trust, out
from fedcover.cli.files import load_calibration, outputs_for
from fedcover.diagnostics import Coverage, coverage_tails


def evaluate(
    calibration: Annotated[Path, typer.Argument(help="A .json written by `calibrate`.")],
    data: Annotated[Path, typer.Argument(help="Model outputs of labelled records.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Also write the figures as .json.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the bands.")] = 0.95,
    logits: Logits = False,
    seed: PredictSeed = 0,
    trusted: Trust = None,
) -> None:
    """Coverage of the sets on labelled records: overall, by class and by set size.

    Example: fedcover evaluate calibrations/mercy.json labelled.npz
    """
    if out_file is not None:
        output_file(out_file)
    cal = load_calibration(calibration, data, trusted)
    table = outputs_for(cal, data, logits)
    labels = table.require_labels()
    sets = cal.predict_set(table.probs, seed)
    parts: dict[str, Sequence[Mapping[Any, Coverage]]] = {
        "all": [{"all": c} for c in sets.coverage_band(labels, confidence)],
        "class": sets.coverage_by_class(labels, confidence),
        "set size": sets.coverage_by_size(labels, confidence),
    }
    for a, level in enumerate(cal.alpha):
        sizes = sets.sizes if len(cal.alpha) == 1 else sets.sizes[a]
        title = f"{cal.target}, {cal.method}, α = {level:g}: promise {1 - level:g}"
        shown = Table(title=Text(title))
        for heading in ("records", "n", "coverage", f"{confidence:.0%} band"):
            shown.add_column(heading, justify="left" if heading == "records" else "right")
        for part, by_level in parts.items():
            for key, c in by_level[a].items():
                name = Text(_group_name(part, key, cal))
                shown.add_row(name, str(c.n), f"{c.value:.3f}", f"{c.low:.3f} - {c.high:.3f}")
        out.print(shown)
        overall = parts["all"][a]["all"]
        verdict = _verdict(overall, level, _worth(cal, a), confidence)
        out.print(f"mean set size {sizes.mean():.3f} of {cal.n_classes}; {verdict}")
    if cal.certificate is not None:
        out.print(Text(f"Certificate: {cal.certificate.statement}"))
    if out_file is not None:
        figures = {
            part: [{str(k): vars(c) for k, c in level.items()} for level in by_level]
            for part, by_level in parts.items()
        }
        mean_size = sets.sizes.mean(axis=-1).tolist()
        body = {"target": cal.target, "alpha": cal.alpha, "mean_size": mean_size, **figures}
        with replacing(out_file) as file:
            file.write(json.dumps(body, indent=1))


def _worth(cal: fc.Calibration, a: int) -> float:
    """How many records would leave the coverage as uncertain as noise and all else leave it."""
    if cal.coverage_error is None:
        return cal.effective_size
    variance = cal.alpha[a] * (1 - cal.alpha[a])
    return min(cal.effective_size, variance / max(float(cal.coverage_error[a]) ** 2, 1e-300))


def _verdict(c: Coverage, level: float, worth: float, confidence: float) -> str:
    """Does the coverage fit the promise, given both the test records and the calibration set?"""
    low, high = coverage_tails(c.hits, c.n, level, worth)
    rare = (1 - confidence) / 2
    if low < rare:
        return (
            f"below {1 - level:g} by more than {c.n} test records and a calibration worth "
            f"{worth:.0f} records explain (chance {low:.2g}): check that the records "
            "follow the target's own label mix and that a label looks alike at all sites"
        )
    if high < rare:
        return f"above {1 - level:g} beyond chance ({high:.2g}): valid, sets larger than needed"
    return f"coverage agrees with {1 - level:g} (chance of less {low:.2g}, of more {high:.2g})"


def _group_name(part: str, key: Any, cal: fc.Calibration) -> str:
    if part == "class" and cal.label_names:
        return f"class {cal.label_names[key]}"
    return "all" if part == "all" else f"{part} {key}"
