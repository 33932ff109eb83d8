"""`fedcover predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedcover._io.writing import output_file
from fedcover.cli.common import Logits, PredictSeed, Trust, out
from fedcover.cli.files import load_calibration, outputs_for


def predict(
    calibration: Annotated[Path, typer.Argument(help="A .json written by `calibrate`.")],
    data: Annotated[Path, typer.Argument(help="Model outputs of new records.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write the sets as csv; else show ten.")
    ] = None,
    logits: Logits = False,
    seed: PredictSeed = 0,
    trusted: Trust = None,
) -> None:
    """Prediction sets of new records.

    Example: fedcover predict calibrations/mercy.json new.npz --out sets.csv
    """
    if out_file is not None:
        output_file(out_file)
    cal = load_calibration(calibration, data, trusted)
    table = outputs_for(cal, data, logits, labels=False)
    sets = cal.predict_set(table.probs, seed)
    if out_file is not None:
        sets.to_csv(out_file, table.ids)
        done = f"{len(sets)} records, {len(cal.alpha)} level(s) written to {out_file}"
        out.print(Text(done))
    else:
        shown = Table(title=Text(f"First sets for {cal.target}"))
        for heading in ("record", "α", "size", "labels"):
            shown.add_column(heading)
        for k in range(min(10, len(sets))):
            for a, level in enumerate(cal.alpha):
                inside = sets.labels_of(k, a)
                name = table.ids[k] if table.ids else str(k)
                names = Text(", ".join(map(str, inside)) or "∅")
                shown.add_row(Text(name), f"{level:g}", str(len(inside)), names)
        out.print(shown)
    for a, level in enumerate(cal.alpha):
        size = sets.sizes.mean() if len(cal.alpha) == 1 else sets.sizes[a].mean()
        out.print(f"α = {level:g}: mean set size {size:.3f} of {cal.n_classes} labels")
