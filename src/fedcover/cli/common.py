"""What the commands share: options, consoles, and reading sites and model outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from glob import glob
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

import fedcover as fc
from fedcover import checks
from fedcover._io.files import SUFFIXES, ModelOutputs, open_outputs
from fedcover.checks import GONE, refuse_gone
from fedcover.errors import FedcoverError, FedcoverWarning, FileError
from fedcover.inputs import listed
from fedcover.position import positions
from fedcover.report.score_axis import span

out, err = Console(), Console(stderr=True)

T = TypeVar("T")

Files = Annotated[list[Path], typer.Argument(help="Site files: .npz, .csv or .parquet.")]
Alpha = Annotated[list[float], typer.Option(help="Error rate α; give it several times for more.")]
Logits = Annotated[bool, typer.Option("--logits", help="Columns of csv/parquet are logits.")]
Temperature = Annotated[float, typer.Option(help="Divide logits by this before the softmax.")]
ScoreName = Annotated[str, typer.Option(help="aps, raps, saps, lac, margin or topk.")]
ScoreOption = Annotated[
    list[str] | None, typer.Option(help="Option of the score, such as u=1 or penalty=0.1.")
]
Certify = Annotated[
    float | None,
    typer.Option(
        help="Probability, such as .95, with which the coverage is to be 1-α or more; larger sets."
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of every random choice.")]
PredictSeed = Annotated[
    int,
    typer.Option(
        help="Seed of the random part of the sets. A record's part depends on the record itself, "
        "so the same seed gives it the same set in every run."
    ),
]

Epsilon = Annotated[
    float | None, typer.Option(help="Privacy budget ε of the run; default no privacy.")
]
Delta = Annotated[float | None, typer.Option(help="δ of the privacy budget; default 1e-5.")]
Unit = Annotated[str | None, typer.Option(help="What is protected: record (the default), or site.")]
Relation = Annotated[
    str | None, typer.Option(help="Neighbours: replace (the default), or add-remove.")
]
View = Annotated[str | None, typer.Option(help="Who looks: server (the default), or secure-sum.")]


def privacy_budget(
    epsilon: float | None,
    delta: float | None,
    unit: str | None,
    relation: str | None,
    view: str | None,
) -> fc.Privacy | None:
    """The budget asked for, or None; a part of one without ε would protect nothing."""
    parts = {"delta": delta, "unit": unit, "relation": relation, "view": view}
    given = {name: value for name, value in parts.items() if value is not None}
    if epsilon is None:
        if given:
            raise FedcoverError(
                f"--{next(iter(given))} without --epsilon",
                allowed="the options of privacy with a budget ε",
                fix="Give --epsilon 2, for example; without it nothing is protected",
            )
        return None
    return fc.Privacy(epsilon, **{"delta": 1e-5, **given})  # type: ignore[arg-type]


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


def spans(cal: fc.Calibration) -> list[str]:
    """The thresholds of each level, which may differ a little from label to label."""
    return [span(row) for row in positions(cal.thresholds, cal.distances)]


def coverages(cal: fc.Calibration) -> list[str]:
    """What is said of the coverage at each level: certified, with its deviation, or aimed at."""
    if cal.certificate is not None:
        return [f"≥ {1 - a:g} ({cal.certificate.confidence:.4g})" for a in cal.alpha]
    if cal.coverage_error is None:
        return [f"{1 - a:g}" for a in cal.alpha]
    stated = zip(cal.alpha, cal.coverage_error, strict=True)
    return [f"{1 - a:g} ± {error:.3f}" for a, error in stated]


def coverage_note(cal: fc.Calibration) -> str:
    """How to read what `coverages` says; nothing where it says the aim alone."""
    if cal.certificate is not None:
        return "Coverage ≥ c (p): at least c with probability p, see the certificate."
    if cal.coverage_error is None:
        return ""
    return "Coverage c ± s: s is one standard deviation, with every error that is known."


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
    chosen = score_named(score, score_option)
    return [
        fc.Site.from_file(f, None, chosen, seed, logits=logits, temperature=temperature)
        for f in files
    ]


def score_named(name: str, options: list[str] | None) -> fc.scores.Score:
    """A score function by its name on the command line."""
    kinds = {name.lower(): kind for name, kind in fc.scores.ALL.items()}
    return make(kinds, name, options, "score")


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
        if key in GONE and key not in allowed:
            refuse_gone(**{key: value})
        if not eq or key not in allowed:
            raise FedcoverError(
                f"option {text!r} of {what} {name}",
                allowed=", ".join(f"{k}=…" for k in allowed) or "no option",
                fix="Write it as key=value",
            )
        if key in values:
            raise FedcoverError(
                f"option {key!r} of {what} {name} is given twice",
                allowed="each option once",
                fix="Remove one of them",
            )
        values[key] = _value(value)
    return kind(**values)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if "," in text:
        return [_value(part.strip()) for part in text.split(",")]
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


def shown_once(work: Callable[[], T], notes: Callable[[T], Iterable[str]]) -> T:
    """The result of some work; warnings that come back among its notes are not shown twice."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FedcoverWarning)
        done = work()
    known = set(notes(done))
    for warning in caught:
        if str(warning.message) not in known:
            warnings.warn(warning.message, warning.category, stacklevel=2)
    return done


def load_calibration(calibration: Path, data: Path) -> fc.Calibration:
    """The calibration of `predict` and `evaluate`; the two arguments are easily swapped."""
    if calibration.suffix.lower() in SUFFIXES:
        swapped = data.suffix.lower() == ".json"
        raise FedcoverError(
            f"the first argument is {calibration}",
            allowed="a calibration (.json) first, then the model outputs",
            fix="Swap the two"
            if swapped
            else "Give the .json that `fedcover calibrate` or `personalise` wrote",
        )
    return fc.Calibration.load(calibration)


def outputs_for(
    made: fc.Calibration | fc.SketchResult, path: Path, logits: bool, labels: bool = True
) -> ModelOutputs:
    """Model outputs that fit a calibration or a sketch: logits where it used a temperature."""
    what = "calibration" if isinstance(made, fc.Calibration) else "sketch"
    raw = open_outputs(path, logits=logits, labels=labels)
    if made.temperature != 1 and not raw.holds_logits:
        raise FedcoverError(
            f"{path} holds probabilities, and the {what} divided logits by its temperature "
            f"{made.temperature:g}",
            allowed="logits, from which the same probabilities are made again",
            fix="Save the logits (the array 'logits' in npz, --logits for csv and parquet), or "
            "calibrate with probabilities",
        )
    table = raw.checked(made.temperature, made.label_names)
    if made.label_names and table.label_names and made.label_names != table.label_names:
        raise FedcoverError(
            f"{path} names its classes {listed(table.label_names, 6)}",
            allowed=f"the classes of the {what}: {listed(made.label_names, 6)}",
            fix=f"Order and name the class columns as in the {what}",
        )
    return table
