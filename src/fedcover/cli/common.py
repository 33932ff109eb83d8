"""What the commands share: options, consoles, and reading sites and model outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import fedcover as fc
from fedcover.errors import FedcoverError
from fedcover.files import ModelOutputs, read_outputs

out, err = Console(), Console(stderr=True)

Files = Annotated[list[Path], typer.Argument(help="Site files: .npz, .csv or .parquet.")]
Alpha = Annotated[list[float], typer.Option(help="Error rate α; give it several times for more.")]
Logits = Annotated[bool, typer.Option("--logits", help="Columns of csv/parquet are logits.")]
Temperature = Annotated[float, typer.Option(help="Divide logits by this before the softmax.")]
ScoreName = Annotated[str, typer.Option(help="aps, raps, saps, lac, margin or topk.")]
ScoreOption = Annotated[
    list[str] | None, typer.Option(help="Option of the score, such as u=1 or penalty=0.1.")
]
Seed = Annotated[int | None, typer.Option(help="Seed of every random choice.")]


def read_sites(
    files: list[Path],
    score: str,
    score_option: list[str] | None,
    logits: bool,
    temperature: float,
    seed: int | None,
) -> list[fc.Site]:
    kinds = {name.lower(): kind for name, kind in fc.scores.ALL.items()}
    chosen = make(kinds, score, score_option, "score")
    return [
        fc.Site.from_file(f, None, chosen, seed, logits=logits, temperature=temperature)
        for f in files
    ]


def make(kinds: dict[str, Any], name: str, options: list[str] | None, what: str) -> Any:
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


def outputs_for(cal: fc.Calibration, path: Path, logits: bool) -> ModelOutputs:
    table = read_outputs(path, logits=logits, temperature=cal.temperature)
    if cal.label_names and table.label_names and cal.label_names != table.label_names:
        raise FedcoverError(
            f"{path} names its classes {', '.join(table.label_names[:6])}",
            allowed=f"the classes of the calibration: {', '.join(cal.label_names[:6])}",
            fix="Order and name the class columns as at calibration",
        )
    return table
