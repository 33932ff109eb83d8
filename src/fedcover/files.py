"""Model outputs from files: probabilities or logits, labels, and the names that go with them.

- ``.npz``: arrays `probs` or `logits` (n, C); `labels` (n,); optional `label_names` (C,),
  `label_counts` (C,) and `ids` (n,). Other arrays are ignored. Pickled objects are refused.
- ``.csv`` and ``.parquet``: one column per class, named after it; optional columns `label` (a class
  name or number) and `id`. The class columns hold probabilities, or logits if told so.
"""

from __future__ import annotations

import csv
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.checks import Floats, Ints
from fedcover.errors import FedcoverError, FileError
from fedcover.site import names, softmax

RESERVED = ("label", "id")


@dataclass(frozen=True)
class ModelOutputs:
    """What a file says about some records: checked probabilities, and labels if it has them."""

    path: Path
    probs: Floats
    labels: Ints | None
    label_names: tuple[str, ...] | None
    label_counts: Ints | None
    ids: tuple[str, ...] | None
    temperature: float

    @property
    def stem(self) -> str:
        return self.path.stem

    def require_labels(self) -> Ints:
        if self.labels is None:
            raise FileError(
                f"{self.path} has no labels",
                allowed="labels for calibration and evaluation",
                fix="Add an array 'labels' (npz) or a column 'label' (csv, parquet)",
            )
        return self.labels


def read_outputs(
    path: str | Path, *, logits: bool = False, temperature: float = 1.0
) -> ModelOutputs:
    """Read and check a file of model outputs.

    Parameters
    ----------
    path
        An .npz, .csv or .parquet file.
    logits
        Whether the class columns of a csv or parquet file are logits; npz says it itself.
    temperature
        What logits are divided by before the softmax.
    """
    path = Path(path)
    readers = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FileError(
            f"{path} ends in {path.suffix!r}",
            allowed=", ".join(readers),
            fix="Save the model's outputs in one of these formats",
        )
    if not path.is_file():
        raise FileError(f"{path} does not exist", allowed="a file", fix="Check the path")
    raw = reader(path)
    raw_logits = raw.pop("logits", None)
    table = raw.pop("probs") if raw_logits is None else raw_logits
    if raw_logits is None and logits:
        raw_logits = table
    if raw_logits is None and temperature != 1.0:
        raise FedcoverError(
            f"temperature is {temperature:g} but {path} holds probabilities",
            allowed="a temperature with logits only",
            fix="Leave it out, or say that the columns are logits",
        )
    what = f"{path}: "
    if raw_logits is not None:
        probs = softmax(raw_logits, temperature, what + "logits")
    else:
        probs = checks.probabilities(table, what + "probs")
    return _checked(path, probs, raw, temperature)


def _checked(path: Path, probs: Floats, raw: dict[str, Any], temperature: float) -> ModelOutputs:
    what = f"{path}: "
    n, c = probs.shape
    label_names = raw.get("label_names")
    if label_names is not None:
        label_names = names([str(x) for x in np.ravel(label_names)], c, what + "label_names")
    labels = raw.get("labels")
    if labels is not None:
        if np.asarray(labels).dtype.kind in "US":
            labels = _named(labels, label_names, what)
        labels = checks.labels(labels, c, what + "labels", n=n)
    counts = raw.get("label_counts")
    if counts is not None:
        counts = checks.counts(counts, c, what + "label_counts")
    ids = raw.get("ids")
    if ids is not None:
        ids = tuple(str(i) for i in np.ravel(ids))
        if len(ids) != n:
            raise FileError(
                f"{what}{len(ids)} ids for {n} records", allowed="one per record", fix="Add them"
            )
    return ModelOutputs(path, probs, labels, label_names, counts, ids, temperature)


def _named(labels: Any, label_names: tuple[str, ...] | None, what: str) -> NDArray[np.int64]:
    """Class numbers of labels given as text: by name, or as numbers where the names are none."""
    index = {name: k for k, name in enumerate(label_names or ())}
    texts = [str(x).strip() for x in np.ravel(labels)]
    if all(t in index for t in texts):
        return np.array([index[t] for t in texts], dtype=np.int64)
    numbered = not any(name.lstrip("-").isdigit() for name in index)
    if numbered and all(t.isdecimal() for t in texts):
        return np.array([int(t) for t in texts], dtype=np.int64)
    strange = next(t for t in texts if t not in index)
    raise FileError(
        f"{what}label {strange!r} is not a class",
        allowed=f"a class name ({', '.join(list(index)[:6])}, …)" if index else "class numbers",
        fix="Name the label as its probability column",
    )


def _npz(path: Path) -> dict[str, Any]:
    wanted = ("probs", "logits", "labels", "label_names", "label_counts", "ids")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            found = {k: file[k] for k in wanted if k in file.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _broken(path, error) from None
    if ("probs" in found) == ("logits" in found):
        raise FileError(
            f"{path} has {'both' if 'probs' in found else 'neither'} 'probs' and 'logits'",
            allowed="one of the two arrays, with one row per record",
            fix="Save it with numpy.savez(path, probs=..., labels=...)",
        )
    return found


def _csv(path: Path) -> dict[str, Any]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = [h.strip() for h in next(csv.reader(file), [])]
        classes, extra = _columns(path, header)
        probs = _csv_columns(path, classes, float)
        texts = {name: _csv_columns(path, [at], str)[:, 0] for name, at in extra.items()}
    except FileError:
        raise
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise _broken(path, error) from None
    return _tabular(probs, [header[k] for k in classes], texts)


def _csv_columns(path: Path, columns: list[int], kind: type) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a file without rows is refused later
        return np.loadtxt(
            path,
            dtype=kind,
            comments=None,
            delimiter=",",
            skiprows=1,
            usecols=columns,
            ndmin=2,
            encoding="utf-8-sig",
            quotechar='"',
        )


def _parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise FileError(
            f"{path} needs pyarrow, which is not installed",
            allowed=".npz and .csv without it",
            fix="pip install 'fedcover[parquet]'",
        ) from None
    try:
        table = parquet.read_table(path)
        classes, extra = _columns(path, list(table.column_names))
        probs = np.column_stack([np.asarray(table.column(k), dtype=np.float64) for k in classes])
        texts = {
            name: np.array([str(v) for v in table.column(at).to_pylist()])
            for name, at in extra.items()
        }
    except FileError:
        raise
    except (OSError, ValueError, TypeError, pyarrow.ArrowException) as error:
        raise _broken(path, error) from None
    return _tabular(probs, [table.column_names[k] for k in classes], texts)


def _columns(path: Path, header: list[str]) -> tuple[list[int], dict[str, int]]:
    """Positions of the class columns, and of `label` and `id` where they exist."""
    classes = [k for k, name in enumerate(header) if name not in RESERVED]
    if len(classes) < 2 or len(set(header)) < len(header):
        raise FileError(
            f"{path} has the columns {', '.join(header[:8]) or 'none'}",
            allowed="one column per class (two or more, all named differently), label, id",
            fix="Add a header row, and remove columns that are not classes",
        )
    return classes, {name: header.index(name) for name in RESERVED if name in header}


def _tabular(
    probs: NDArray[Any], label_names: list[str], texts: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    out: dict[str, Any] = {"probs": probs, "label_names": label_names}
    if "label" in texts:
        out["labels"] = texts["label"]
    if "id" in texts:
        out["ids"] = texts["id"]
    return out


def _broken(path: Path, error: Exception) -> FileError:
    return FileError(
        f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]})",
        allowed=f"a whole {path.suffix} file of model outputs",
        fix="Write it again; see the documentation of fedcover.files for the layout",
    )
