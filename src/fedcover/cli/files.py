"""Files the commands read: sites, calibrations, sketches, and a value for every class.

A value for every class is a group for `collect` and a label count for `personalise`:

- ``.json``: a list in the order of the classes, or an object from class to value
- ``.csv``: two columns, class and value, with or without a header
- else text: one value per line in the order of the classes, or all on one line with commas

A class is given by its name or its number.
"""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from glob import glob
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

import fedcover as fc
from fedcover import checks
from fedcover._io.cells import text_of
from fedcover._io.files import SUFFIXES, ModelOutputs, open_outputs
from fedcover._io.reading import read_whole
from fedcover._io.writing import output_file
from fedcover.cli.common import score_named
from fedcover.errors import FedcoverError, FileError
from fedcover.inputs import listed, shown


def site_files(files: list[Path]) -> list[Path]:
    """The files given; patterns that the shell left alone are matched here."""
    paths: list[Path] = []
    for path in files:
        text = str(path)
        if path.exists():
            paths.append(path)
        elif any(c in text for c in "*?["):
            matches = sorted(glob(text))
            if not matches:
                raise FileError(
                    f"no file matches {text}", allowed="at least one file", fix="Check the path"
                )
            paths.extend(Path(m) for m in matches)
        elif _is_number(text):
            raise FedcoverError(
                f"{text} stands among the files, and no file has that name",
                allowed="site files: " + ", ".join(SUFFIXES),
                fix="Put commas and no spaces between levels: --alpha 0.1,0.2 (bounds takes one)",
            )
        else:
            paths.append(path)
    return paths


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def site_name(path: Path) -> str:
    """What `Site.from_file` calls the site of a file."""
    return path.stem.removeprefix("site-")


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


def load_calibration(calibration: Path, data: Path, trusted: Path | None = None) -> fc.Calibration:
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
    return fc.Calibration.load(calibration, trusted)


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
    if not made.label_names:
        return table
    return table.in_order(made.label_names, f"the {what}'s")


def load_sketch(path: Path, trusted: Path | None = None) -> fc.SketchResult:
    """The sketch in a file; a site file or a calibration in its place is an easy slip."""
    held = _arrays(path)
    if held & {"probs", "logits"}:
        raise FileError(
            f"{path} holds model outputs",
            allowed="a sketch, written by `fedcover collect` or `fedcover merge`",
            fix="Give the sketch here, and the site's own file with --site",
        )
    if path.suffix.lower() == ".json":
        raise FileError(
            f"{path} is not a sketch",
            allowed="a sketch (.npz), written by `fedcover collect` or `fedcover merge`",
            fix="A calibration (.json) is ready for `fedcover predict`",
        )
    return fc.SketchResult.load(path, trusted)


def no_sketches(files: list[Path]) -> list[Path]:
    """The site files given, after a look that none of them is a sketch."""
    for path in files:
        if _arrays(path) >= {"header", "sha256", "table"}:
            raise FileError(
                f"{path} is a sketch and stands in place of a site file",
                allowed="model outputs of records",
                fix="Repeat the option for every sketch (--merge a.npz --merge b.npz); to add "
                "sketches alone use `fedcover merge`",
            )
    return files


def merged(paths: list[Path], trusted: Path | None = None) -> fc.SketchResult:
    """The sum of the sketches in several files."""
    return reduce(add, [load_sketch(path, trusted) for path in paths])


def check_outputs(places: dict[str, Path | None], read: list[Path]) -> None:
    """Refuse output files of the wrong kind, in a bad place, or in that of a file to be read.

    Parameters
    ----------
    places
        By the ending they must have, the files to write.
    read
        Files that must not be overwritten.
    """
    for ending, path in places.items():
        if path is None:
            continue
        output_file(path)
        if path.suffix.lower() != ending:
            found = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
            raise FileError(
                f"{path} {found}, and it is to be written",
                allowed=ending,
                fix=f"Call it {path.stem}{ending}",
            )
        if any(_same(path, other) for other in read):
            raise FedcoverError(
                f"{path} is to be read and to be written",
                allowed="an output that overwrites no input",
                fix="Choose another name for the output",
            )


def _same(one: Path, two: Path) -> bool:
    return one.exists() and two.exists() and one.samefile(two)


def _arrays(path: Path) -> set[str]:
    """Names of the arrays in an .npz file; none if it is another kind of file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, ValueError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return set()


HEADINGS = {"label", "labels", "class", "classes", "name"}
"""First cells of a header row of a csv file."""

MOST_TEXT = 1 << 28
"""Longest of these files, in bytes."""

FORMS = "a list in class order or an object (.json), two columns class,value (.csv), or lines"


@dataclass(frozen=True)
class LabelFile:
    """What a file says about classes, before it is known which classes there are.

    Attributes
    ----------
    path
        The file.
    values
        Values as text, in class order, or by class.
    """

    path: Path
    values: list[str] | dict[str, str]

    def of_every(
        self, n_classes: int, label_names: Sequence[str | int] | None, missing: str | None = None
    ) -> list[str]:
        """The value of every class in order.

        Parameters
        ----------
        n_classes, label_names
            The classes, and their names if they have any.
        missing
            Value of a class that the file leaves out; None if it may leave out none.
        """
        if isinstance(self.values, list):
            if len(self.values) != n_classes:
                raise FedcoverError(
                    f"{self.path} has {len(self.values)} values",
                    allowed=f"one per class, {n_classes} in all",
                    fix="Add or remove values, or give them by class name",
                )
            return self.values
        known = [str(name) for name in label_names or range(n_classes)]
        classes = checks.labels(list(self.values), n_classes, str(self.path), None, known)
        by_class: dict[int, str] = {}
        for k, (given, value) in zip(classes.tolist(), self.values.items(), strict=True):
            if k in by_class:
                raise FedcoverError(
                    f"{self.path} names class {known[k]} twice, once as {given!r}",
                    allowed="every class once",
                    fix="Remove one of the two",
                )
            by_class[k] = value
        if missing is None and len(by_class) < n_classes:
            left = [known[k] for k in range(n_classes) if k not in by_class]
            raise FedcoverError(
                f"{self.path} leaves out {len(left)} of {n_classes} classes: {listed(left, 6)}",
                allowed="a value for every class",
                fix="Add them",
            )
        return [by_class.get(k, missing or "") for k in range(n_classes)]


def read_label_file(path: Path) -> LabelFile:
    """Read the file; which classes it speaks of is checked later."""
    try:
        text = read_whole(path, MOST_TEXT).decode("utf-8-sig")
    except OSError as error:
        raise _unreadable(path, f"cannot be opened ({error.strerror})") from None
    except UnicodeDecodeError:
        raise _unreadable(path, "is not text") from None
    read = {".json": _json, ".csv": _csv}.get(path.suffix.lower(), _lines)
    values = read(path, text)
    if not values:
        raise _unreadable(path, "is empty")
    return LabelFile(path, values)


def numbers(values: Sequence[str], what: str) -> list[float]:
    """Label counts or shares from their texts."""
    out = []
    for k, text in enumerate(values):
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number < 0:
            raise FedcoverError(
                f"{what}: value {k} is {shown(text)}",
                allowed="numbers ≥ 0 with a point for decimals, one per class",
                fix="Write 10,3,5, for example",
            )
        out.append(number)
    if not np.any(out):
        raise FedcoverError(
            f"{what} has nothing above 0", allowed="at least one label", fix="Count some labels"
        )
    return out


def _json(path: Path, text: str) -> list[str] | dict[str, str]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        name, times = Counter(name for name, _ in pairs).most_common(1)[0] if pairs else ("", 0)
        if times > 1:
            raise _unreadable(path, f"names {shown(name)} twice")
        return dict(pairs)

    try:
        values = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FedcoverError):
            raise
        raise _unreadable(path, "is not JSON") from None
    if isinstance(values, dict):
        return {name: _plain(path, value, name) for name, value in values.items()}
    if isinstance(values, list):
        return [_plain(path, value, str(k)) for k, value in enumerate(values)]
    raise _unreadable(path, f"holds {shown(values)}")


def _csv(path: Path, text: str) -> dict[str, str]:
    try:
        lines = csv.reader(io.StringIO(text, newline=""))
        rows = [[text_of(cell.strip()) for cell in row] for row in lines if any(row)]
    except csv.Error as error:
        raise _unreadable(path, f"is not a csv file ({error})") from None
    if rows and rows[0][0].casefold() in HEADINGS:
        rows = rows[1:]
    out: dict[str, str] = {}
    for number, row in enumerate(rows):
        if len(row) != 2 or not all(row):
            raise _unreadable(path, f"has {shown(','.join(row))} as row {number}")
        if row[0] in out:
            raise _unreadable(path, f"names {row[0]!r} twice")
        out[row[0]] = row[1]
    return out


def _lines(path: Path, text: str) -> list[str]:
    lines = [line.strip() for line in text.strip().splitlines()]
    if len(lines) == 1:
        lines = [part.strip() for part in lines[0].split(",")]
    if lines != [""] and "" in lines:
        raise _unreadable(path, f"has nothing for class {lines.index('')}")
    return [] if lines == [""] else lines


def _plain(path: Path, value: Any, where: str) -> str:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool) or value == "":
        raise _unreadable(path, f"holds {shown(value)} for class {where!r}")
    return str(value)


def _unreadable(path: Path, why: str) -> FileError:
    return FileError(f"{path} {why}", allowed=FORMS, fix="Check the file")
