"""The command line: `fedcover demo`, `calibrate`, `predict`, `evaluate`, `bounds`."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import fedcover as fc
from fedcover import checks
from fedcover.diagnostics import Coverage, coverage_tails
from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.files import ModelOutputs, read_outputs

app = typer.Typer(
    help="Prediction sets that keep their promise at every site of a federation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)

METHODS: dict[str, type[Any]] = {
    "dp-fedcp": fc.methods.DPFedCP,
    "local": fc.methods.Local,
    "pooled": fc.methods.Pooled,
    "estimated-weights": fc.methods.EstimatedWeights,
}

Files = Annotated[list[Path], typer.Argument(help="Site files: .npz, .csv or .parquet.")]
Alpha = Annotated[list[float], typer.Option(help="Error rate α; give it several times for more.")]
Logits = Annotated[bool, typer.Option("--logits", help="Columns of csv/parquet are logits.")]
Temperature = Annotated[float, typer.Option(help="Divide logits by this before the softmax.")]
ScoreName = Annotated[str, typer.Option(help="aps, raps, saps, lac, margin or topk.")]
ScoreOption = Annotated[
    list[str] | None, typer.Option(help="Option of the score, such as u=1 or penalty=0.1.")
]
Seed = Annotated[int | None, typer.Option(help="Seed of every random choice.")]


@app.command()
def demo(
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path(
        "fedcover-demo"
    ),
    alpha: Annotated[float, typer.Option(help="Error rate α.")] = 0.1,
    repetitions: Annotated[int, typer.Option(help="Random splits to average over.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
) -> None:
    """Five hospitals, real data, every method side by side: a table and an HTML report."""
    from fedcover.demo import run

    run(out_dir, alpha=alpha, repetitions=repetitions, seed=seed, console=out)


@app.command()
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
    chosen = _make(METHODS, method, option, "method")
    sites = _sites(files, score, score_option, logits, temperature, seed)
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


@app.command()
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
    table = _outputs(cal, data, logits)
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


@app.command()
def evaluate(
    calibration: Annotated[Path, typer.Argument(help="A .json written by `calibrate`.")],
    data: Annotated[Path, typer.Argument(help="Model outputs of labelled records.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Also write the figures as .json.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the bands.")] = 0.95,
    logits: Logits = False,
    seed: Seed = None,
) -> None:
    """Coverage of the sets on labelled records: overall, by class and by set size."""
    cal = fc.Calibration.load(calibration)
    table = _outputs(cal, data, logits)
    labels = table.require_labels()
    sets = cal.predict_set(table.probs, seed)
    parts: dict[str, Sequence[Mapping[Any, Coverage]]] = {
        "all": [{"all": c} for c in sets.coverage_band(labels, confidence)],
        "class": sets.coverage_by_class(labels, confidence),
        "set size": sets.coverage_by_size(labels, confidence),
    }
    for a, level in enumerate(cal.alpha):
        sizes = sets.sizes if len(cal.alpha) == 1 else sets.sizes[a]
        shown = Table(title=f"{cal.target}, {cal.method}, α = {level:g}: promise {1 - level:g}")
        for heading in ("records", "n", "coverage", f"{confidence:.0%} band"):
            shown.add_column(heading, justify="left" if heading == "records" else "right")
        for part, by_level in parts.items():
            for key, c in by_level[a].items():
                name = _group_name(part, key, cal)
                shown.add_row(name, str(c.n), f"{c.value:.3f}", f"{c.low:.3f} - {c.high:.3f}")
        out.print(shown)
        overall = parts["all"][a]["all"]
        verdict = _verdict(overall, level, cal, confidence)
        out.print(f"mean set size {sizes.mean():.3f} of {cal.n_classes}; {verdict}")
    if out_file is not None:
        figures = {
            part: [{str(k): vars(c) for k, c in level.items()} for level in by_level]
            for part, by_level in parts.items()
        }
        mean_size = sets.sizes.mean(axis=-1).tolist()
        body = {"target": cal.target, "alpha": cal.alpha, "mean_size": mean_size, **figures}
        out_file.write_text(json.dumps(body, indent=1), encoding="utf-8")


@app.command()
def bounds(
    files: Files,
    target: Annotated[str, typer.Option(help="Site whose sets the bounds are about.")],
    alpha: Annotated[float, typer.Option(help="Error rate α.")] = 0.1,
    gamma: Annotated[
        float, typer.Option(help="Moreau parameter γ, or width of the search.")
    ] = 1e-6,
    density: Annotated[
        tuple[float, float] | None,
        typer.Option(help="Smallest and largest density of the scores, for Theorem 4.3."),
    ] = None,
    score: ScoreName = "aps",
    score_option: ScoreOption = None,
    logits: Logits = False,
    temperature: Temperature = 1.0,
) -> None:
    """What the paper's theorems say about a federation, and which term dominates."""
    checks.alphas(alpha)
    sites = _sites(files, score, score_option, logits, temperature, seed=0)
    rows = fc.bounds.federation_bounds(sites, target, alpha, gamma, densities=density)
    n = sum(len(s) for s in sites)
    shown = Table(title=f"{target}: {len(sites)} sites, {n} records, α = {alpha:g}")
    for heading in ("result", "bounds", "value", "largest term", "note"):
        shown.add_column(heading, justify="right" if heading == "value" else "left")
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.3g}"
        note = "; ".join(t for t in ("says nothing (≥ 1)" if row.vacuous else "", row.note) if t)
        shown.add_row(row.result, row.meaning, value, row.dominant, note)
    out.print(shown)
    out.print("Worst-case bounds from label counts; measured coverage: `fedcover evaluate`.")


def _verdict(c: Coverage, level: float, cal: fc.Calibration, confidence: float) -> str:
    """Does the coverage fit the promise, given both the test records and the calibration set?"""
    low, high = coverage_tails(c.hits, c.n, level, cal.effective_size)
    rare = (1 - confidence) / 2
    if low < rare:
        return (
            f"below {1 - level:g} by more than {c.n} test records and a calibration worth "
            f"{cal.effective_size:.0f} records explain (chance {low:.2g}): check that the records "
            "follow the target's own label mix and that a label looks alike at all sites"
        )
    if high < rare:
        return f"above {1 - level:g} beyond chance ({high:.2g}): valid, sets larger than needed"
    return f"coverage agrees with {1 - level:g} (chance of less {low:.2g}, of more {high:.2g})"


def _group_name(part: str, key: Any, cal: fc.Calibration) -> str:
    if part == "class" and cal.label_names:
        return f"class {cal.label_names[key]}"
    return "all" if part == "all" else f"{part} {key}"


def _outputs(cal: fc.Calibration, path: Path, logits: bool) -> ModelOutputs:
    table = read_outputs(path, logits=logits, temperature=cal.temperature)
    if cal.label_names and table.label_names and cal.label_names != table.label_names:
        raise FedcoverError(
            f"{path} names its classes {', '.join(table.label_names[:6])}",
            allowed=f"the classes of the calibration: {', '.join(cal.label_names[:6])}",
            fix="Order and name the class columns as at calibration",
        )
    return table


def _sites(
    files: list[Path],
    score: str,
    score_option: list[str] | None,
    logits: bool,
    temperature: float,
    seed: int | None,
) -> list[fc.Site]:
    kinds = {name.lower(): kind for name, kind in fc.scores.ALL.items()}
    chosen = _make(kinds, score, score_option, "score")
    return [
        fc.Site.from_file(f, None, chosen, seed, logits=logits, temperature=temperature)
        for f in files
    ]


def _make(kinds: dict[str, Any], name: str, options: list[str] | None, what: str) -> Any:
    """An object of a named class, with options given as key=value."""
    kind = kinds.get(name.lower())
    if kind is None:
        raise FedcoverError(
            f"{what} is {name!r}", allowed=", ".join(kinds), fix=f"Choose one with --{what}"
        )
    values = {}
    for text in options or []:
        key, eq, value = text.partition("=")
        if not eq or key not in kind.__dataclass_fields__:
            raise FedcoverError(
                f"option {text!r} of {what} {name}",
                allowed=", ".join(f"{k}=…" for k in kind.__dataclass_fields__) or "no option",
                fix="Write it as key=value",
            )
        values[key] = _value(value)
    return kind(**values)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _levels(alpha: list[float]) -> str:
    return ", ".join(f"{a:g}" for a in alpha)


def _file_name(target: str) -> str:
    return re.sub(r"[^\w.-]+", "_", target).lstrip(".") or "target"


def main() -> None:
    """Run the command line; errors of ours become one clear message and exit status 2."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app()
        except FedcoverError as error:
            text = Text.assemble(
                f"{error.given}.\n",
                ("Allowed: ", "bold"),
                f"{error.allowed}.\n",
                ("What to do: ", "bold"),
                f"{error.fix}.",
            )
            err.print(Panel(text, title="fedcover cannot do that", border_style="red"))
            raise SystemExit(2) from None


def _show_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
    if issubclass(category, FedcoverWarning):
        err.print(Text.assemble(("Warning: ", "yellow"), str(message)))
