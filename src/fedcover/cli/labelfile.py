"""A value for every class from a file: groups for `collect`, label counts for `personalise`.

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
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcover import checks
from fedcover.errors import FedcoverError, FileError
from fedcover.inputs import listed, shown

HEADINGS = {"label", "labels", "class", "classes", "name"}
"""First cells of a header row of a csv file."""

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
        self, n_classes: int, label_names: Sequence[str] | None, missing: str | None = None
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
        known = label_names or [str(k) for k in range(n_classes)]
        classes = checks.labels(list(self.values), n_classes, str(self.path), None, known)
        found: dict[int, str] = {}
        for k, (given, value) in zip(classes.tolist(), self.values.items(), strict=True):
            if k in found:
                raise FedcoverError(
                    f"{self.path} names class {known[k]} twice, once as {given!r}",
                    allowed="every class once",
                    fix="Remove one of the two",
                )
            found[k] = value
        if missing is None and len(found) < n_classes:
            left = [known[k] for k in range(n_classes) if k not in found]
            raise FedcoverError(
                f"{self.path} leaves out {len(left)} of {n_classes} classes: {listed(left, 6)}",
                allowed="a value for every class",
                fix="Add them",
            )
        return [found.get(k, missing or "") for k in range(n_classes)]


def read_label_file(path: Path) -> LabelFile:
    """Read the file; which classes it speaks of is checked later."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
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
        found = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FedcoverError):
            raise
        raise _unreadable(path, "is not JSON") from None
    if isinstance(found, dict):
        return {name: _plain(path, value, name) for name, value in found.items()}
    if isinstance(found, list):
        return [_plain(path, value, str(k)) for k, value in enumerate(found)]
    raise _unreadable(path, f"holds {shown(found)}")


def _csv(path: Path, text: str) -> dict[str, str]:
    try:
        lines = csv.reader(io.StringIO(text, newline=""))
        rows = [[cell.strip() for cell in row] for row in lines if any(row)]
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
