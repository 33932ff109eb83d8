"""`fedcover calibrate`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import fedcover as fc
from fedcover import checks
from fedcover.cli.common import (
    Alpha,
    Files,
    Logits,
    ScoreName,
    ScoreOption,
    Seed,
    Temperature,
    make,
    out,
    read_sites,
)

METHODS: dict[str, type[Any]] = {
    "dp-fedcp": fc.methods.DPFedCP,
    "local": fc.methods.Local,
    "pooled": fc.methods.Pooled,
    "estimated-weights": fc.methods.EstimatedWeights,
}


def calibrate(
    files: Files,
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the calibrations.")],
    alpha: Alpha = [0.1],  # noqa: B006 (typer copies it)
    method: Annotated[str, typer.Option(help=" or ".join(METHODS))] = "dp-fedcp",
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the method, such as rounds=50.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Site to calibrate for; default every site.")
    ] = None,
    score: ScoreName = "aps",
    score_option: ScoreOption = None,
    logits: Logits = False,
    temperature: Temperature = 1.0,
    seed: Seed = None,
) -> None:
    """Calibrate every site of a federation from files; writes one .json per target."""
    checks.alphas(alpha)
    chosen = make(METHODS, method, option, "method")
    sites = read_sites(files, score, score_option, logits, temperature, seed)
    engine = fc.engines.InProcess(progress=sys.stderr.isatty())
    cals = fc.calibrate(sites, alpha, chosen, target or None, engine=engine, seed=seed)
    out_dir.mkdir(parents=True, exist_ok=True)
    table = Table(title=f"{chosen.label}: {len(sites)} sites, α = {_levels(alpha)}")
    for heading in ("target", "records", "worth", "thresholds", "rounds", "sent", "received"):
        justify: Any = "left" if heading == "target" else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    for name, cal in cals.items():
        cal.save(out_dir / f"{_file_name(name)}.json")
        low, high = float(cal.thresholds.min()), float(cal.thresholds.max())
        span = f"{low:.3f}" if low == high else f"{low:.3f}-{high:.3f}"
        table.add_row(
            name,
            str(cal.n_records),
            f"{cal.effective_size:.0f}",
            span,
            str(cal.cost.rounds),
            f"{cal.cost.bytes_up:,} B",
            f"{cal.cost.bytes_down:,} B",
        )
    out.print(table)
    out.print(f"One calibration file per target is in {out_dir}.")
    out.print(f"Promise: {chosen.guarantee}.")
    out.print(f"What left the sites: {chosen.reveals}. Differential privacy: none.")


def _levels(alpha: list[float]) -> str:
    return ", ".join(f"{a:g}" for a in alpha)


def _file_name(target: str) -> str:
    return re.sub(r"[^\w.-]+", "_", target).lstrip(".") or "target"
