"""`fedcover predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import fedcover as fc
from fedcover.cli.common import Logits, Seed, out, outputs_for


def predict(
    calibration: Annotated[Path, typer.Argument(help="A .json written by `calibrate`.")],
    data: Annotated[Path, typer.Argument(help="Model outputs of new records.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write the sets as csv; else show ten.")
    ] = None,
    logits: Logits = False,
    seed: Seed = None,
) -> None:
    """Prediction sets of new records."""
    cal = fc.Calibration.load(calibration)
    table = outputs_for(cal, data, logits)
    sets = cal.predict_set(table.probs, seed)
    if out_file is not None:
        sets.to_csv(out_file, table.ids)
        out.print(f"{len(sets)} records, {len(cal.alpha)} level(s) written to {out_file}")
    else:
        shown = Table(title=f"First sets for {cal.target}")
        for heading in ("record", "α", "size", "labels"):
            shown.add_column(heading)
        for k in range(min(10, len(sets))):
            for a, level in enumerate(cal.alpha):
                inside = sets.labels_of(k, a)
                name = table.ids[k] if table.ids else str(k)
                shown.add_row(name, f"{level:g}", str(len(inside)), ", ".join(inside) or "∅")
        out.print(shown)
    for a, level in enumerate(cal.alpha):
        size = sets.sizes.mean() if len(cal.alpha) == 1 else sets.sizes[a].mean()
        out.print(f"α = {level:g}: mean set size {size:.3f} of {cal.n_classes} labels")
