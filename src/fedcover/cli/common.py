"""What the commands share: options, consoles, and reading sites and model outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from glob import glob
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

import fedcover as fc
from fedcover import checks
from fedcover.errors import FedcoverError, FileError
from fedcover.files import SUFFIXES, ModelOutputs, open_outputs
from fedcover.inputs import listed

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
PredictSeed = Annotated[
    int,
    typer.Option(
        help="Seed of the random part of the sets. A record's part depends on the record itself, "
        "so the same seed gives it the same set in every run."
    ),
]


def error_rates(alpha: float | Sequence[float]) -> tuple[float, ...]:
    """Checked levels; a hint where somebody may have meant the coverage."""
    levels = checks.alphas(alpha)
    for level in levels:
        if level > 0.5:
            hint = (
                f"alpha is the error rate: {level:g} asks for sets that hold the label in "
                f"{1 - level:.3g} of the cases; for coverage {level:g} give --alpha {1 - level:.3g}"
            )
            err.print(Text.assemble(("Hint: ", "yellow"), hint))
    return levels


def site_files(files: list[Path]) -> list[Path]:
    """The files given; patterns that the shell left alone are matched here."""
    found: list[Path] = []
    for path in files:
        text = str(path)
        if path.exists():
            found.append(path)
        elif any(c in text for c in "*?["):
            matches = sorted(glob(text))
            if not matches:
                raise FileError(
                    f"no file matches {text}", allowed="at least one file", fix="Check the path"
                )
            found.extend(Path(m) for m in matches)
        elif _is_number(text):
            raise FedcoverError(
                f"{text} stands among the files, and no file has that name",
                allowed="site files: " + ", ".join(SUFFIXES),
                fix="Repeat the option for every level: --alpha 0.1 --alpha 0.2 (bounds takes one)",
            )
        else:
            found.append(path)
    return found


def site_name(path: Path) -> str:
    """What `Site.from_file` calls the site of a file."""
    return path.stem.removeprefix("site-")


def known_target(target: str, known: Sequence[str]) -> str:
    """The name of a site."""
    if target not in known:
        raise FedcoverError(
            f"target {target!r} is not a site",
            allowed=f"a site: {listed(known)}",
            fix="Choose one with --target; site-mercy.npz is the site mercy",
        )
    return target


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
    allowed = [f.name for f in fields(kind) if f.init]
    values = {}
    for text in options or []:
        key, eq, value = text.partition("=")
        if not eq or key not in allowed:
            raise FedcoverError(
                f"option {text!r} of {what} {name}",
                allowed=", ".join(f"{k}=…" for k in allowed) or "no option",
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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def load_calibration(calibration: Path, data: Path) -> fc.Calibration:
    """The calibration of `predict` and `evaluate`; the two arguments are easily swapped."""
    if calibration.suffix.lower() in SUFFIXES:
        swapped = data.suffix.lower() == ".json"
        raise FedcoverError(
            f"the first argument is {calibration}",
            allowed="a calibration (.json) first, then the model outputs",
            fix="Swap the two" if swapped else "Give the .json that `fedcover calibrate` wrote",
        )
    return fc.Calibration.load(calibration)


def outputs_for(cal: fc.Calibration, path: Path, logits: bool, labels: bool = True) -> ModelOutputs:
    """Model outputs that fit a calibration: logits where it used a temperature, its classes."""
    raw = open_outputs(path, logits=logits, labels=labels)
    if cal.temperature != 1 and not raw.holds_logits:
        raise FedcoverError(
            f"{path} holds probabilities, and the calibration divided logits by its temperature "
            f"{cal.temperature:g}",
            allowed="logits, from which the same probabilities are made again",
            fix="Save the logits (the array 'logits' in npz, --logits for csv and parquet), or "
            "calibrate with probabilities",
        )
    table = raw.checked(cal.temperature, cal.label_names)
    if cal.label_names and table.label_names and cal.label_names != table.label_names:
        raise FedcoverError(
            f"{path} names its classes {listed(table.label_names, 6)}",
            allowed=f"the classes of the calibration: {listed(cal.label_names, 6)}",
            fix="Order and name the class columns as at calibration",
        )
    return table
