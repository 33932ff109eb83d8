"""Model outputs from files: probabilities or logits, labels, and the names that go with them.

- ``.npz``: arrays `probs` or `logits` (n, C); `labels` (n,); optional `label_names` (C,),
  `label_counts` (C,) and `ids` (n,). Other arrays are ignored. Pickled objects are refused.
- ``.csv`` and ``.parquet``: one column per class, named after it; optional columns `label` (a class
  name or number) and `id`. The class columns hold probabilities, or logits if told so. A csv file
  separates its columns by commas. Save tables of pandas with ``index=False``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcover import checks
from fedcover._io.archives import Archive, BrokenArchive, Member
from fedcover._io.tables import broken, explain, read_csv, read_parquet, refuse_disguised
from fedcover.checks import Floats, Ints
from fedcover.classnames import Names, names, numbers_where_whole, order_of
from fedcover.errors import FedcoverError, FileError
from fedcover.inputs import listed
from fedcover.logits import softmax

SUFFIXES = (".npz", ".csv", ".parquet")


@dataclass(frozen=True)
class ModelOutputs:
    """What a file says about some records: checked probabilities, and labels if it has them."""

    path: Path
    probs: Floats
    labels: Ints | None
    label_names: Names | None
    label_counts: Ints | None
    ids: tuple[str, ...] | None
    temperature: float

    @property
    def stem(self) -> str:
        return self.path.stem

    def in_order(self, known: Names, whose: str) -> ModelOutputs:
        """The same with the classes in the order of known ones."""
        if self.label_names is None or self.label_names == known:
            return self
        order = order_of(self.label_names, known, str(self.path), whose)
        return replace(
            self,
            probs=self.probs[:, order],
            labels=None if self.labels is None else np.argsort(order)[self.labels],
            label_counts=None if self.label_counts is None else self.label_counts[order],
            label_names=known,
        )

    def require_labels(self) -> Ints:
        if self.labels is None:
            raise FileError(
                f"{self.path} has no labels",
                allowed="labels for calibration and evaluation",
                fix="Add an array 'labels' (npz) or a column 'label' (csv, parquet)",
            )
        return self.labels


def read_outputs(
    path: str | Path,
    *,
    logits: bool = False,
    temperature: float = 1.0,
    labels: bool = True,
    label_names: Names | None = None,
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
    labels
        False leaves the labels unread, so that bad ones are no reason to refuse the file.
    label_names
        Names of the classes to read text labels by, where the file has none itself.
    """
    raw = open_outputs(path, logits=logits, labels=labels)
    return raw.checked(temperature, label_names)


@dataclass(frozen=True)
class RawOutputs:
    """A file as it was read, before its numbers are checked."""

    path: Path
    arrays: dict[str, Any]
    tabular: bool

    @property
    def holds_logits(self) -> bool:
        return "logits" in self.arrays

    def checked(self, temperature: float = 1.0, label_names: Names | None = None) -> ModelOutputs:
        """The outputs, after all checks; parameters as in `read_outputs`."""
        if not self.holds_logits and temperature != 1.0:
            raise FedcoverError(
                f"temperature is {temperature:g} but {self.path} holds probabilities",
                allowed="a temperature with logits only",
                fix="Leave it out, or say that the columns are logits (logits=True, --logits)",
            )
        what = f"{self.path}: "
        probs = self._probabilities(temperature, what)
        n, c = probs.shape
        own = self.arrays.get("label_names")
        if own is not None:
            given = np.ravel(own).tolist()
            if self.tabular:  # a header is text, whatever its names are
                given = numbers_where_whole(given)
            own = names(
                [x if isinstance(x, int) else _text(x) for x in given], c, what + "label_names"
            )
        labels = self.arrays.get("labels")
        if labels is not None:
            known = own or label_names
            if known is None and self.tabular:  # a column of text, and classes numbered from 0
                known = tuple(map(str, range(c)))
            labels = checks.labels(labels, c, what + "labels", n, known)
        counts = self.arrays.get("label_counts")
        if counts is not None:
            counts = checks.counts(counts, c, what + "label_counts")
        ids = self.arrays.get("ids")
        if ids is not None:
            ids = tuple(_text(i) for i in (ids if self.tabular else np.ravel(ids)))
            if len(ids) != n:
                raise FileError(
                    f"{what}{len(ids)} ids for {n} records",
                    allowed="one per record",
                    fix="Add them",
                )
        return ModelOutputs(self.path, probs, labels, own, counts, ids, temperature)

    def _probabilities(self, temperature: float, what: str) -> Floats:
        if self.holds_logits:
            if self.tabular:
                refuse_disguised(self.path, self.arrays["label_names"], self.arrays["logits"])
            return softmax(self.arrays["logits"], temperature, what + "logits")
        try:
            return checks.probabilities(self.arrays["probs"], what + "probs")
        except FedcoverError as error:
            if not self.tabular:
                raise
            taken, fix = explain(self.arrays["label_names"], self.arrays["probs"])
            raise FileError(
                f"{error.given}; {taken}", allowed=error.allowed, fix=fix or error.fix
            ) from None


def open_outputs(path: str | Path, *, logits: bool = False, labels: bool = True) -> RawOutputs:
    """Read a file of model outputs without checking its numbers; see `read_outputs`."""
    path = Path(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        inside = sorted({p.suffix for p in path.iterdir() if p.suffix.lower() in SUFFIXES})
        raise FileError(
            f"{path} is a folder",
            allowed="a file: " + ", ".join(SUFFIXES),
            fix=f"Give the files in it, such as {path / f'*{inside[0]}'}"
            if inside
            else "Give a file; no file of model outputs lies in this folder",
        )
    if not suffix:
        raise FileError(
            f"{path} has no ending that says what kind of file it is",
            allowed=", ".join(SUFFIXES),
            fix="Give the whole name of the file, with its ending",
        )
    if suffix not in SUFFIXES:
        raise FileError(
            f"{path} ends in {path.suffix!r}",
            allowed=", ".join(SUFFIXES),
            fix="Save the model's outputs in one of these formats",
        )
    if not path.is_file():
        raise FileError(f"{path} does not exist", allowed="a file", fix="Check the path")
    if suffix == ".npz":
        arrays = _npz(path, labels)
        if logits and "probs" in arrays:
            raise FileError(
                f"{path} holds the array 'probs', and logits are asked for",
                allowed="an array 'logits'",
                fix="Leave logits=True (--logits) out, or save the array under the name logits",
            )
        return RawOutputs(path, arrays, tabular=False)
    read = read_csv if suffix == ".csv" else read_parquet
    arrays = read(path, ("label", "id") if labels else ("id",))
    if logits:
        arrays["logits"] = arrays.pop("probs")
    return RawOutputs(path, arrays, tabular=True)


def _npz(path: Path, labels: bool) -> dict[str, Any]:
    wanted = ("probs", "logits", "label_names", "label_counts", "ids", *["labels"] * labels)
    found: dict[str, Any] = {}
    try:
        with Archive(path) as file:
            present = file.names
            members = {key: file.member(key) for key in wanted if key in present}
            for key, member in members.items():
                _no_objects(path, member, key)
            size = sum(member.nbytes for member in members.values())
            if size > file.room:
                raise BrokenArchive(f"its arrays have {size} bytes, more than {file.room}")
            found = {key: file.read(member) for key, member in members.items()}
    except OSError as error:
        raise broken(path, error) from None
    except BrokenArchive as error:
        raise broken(path, error.__cause__ or error) from None
    if ("probs" in found) == ("logits" in found):
        both = "both 'probs' and 'logits'"
        none = f"neither 'probs' nor 'logits', but {listed(present, 8) or 'no array'}"
        raise FileError(
            f"{path} has {both if 'probs' in found else none}",
            allowed="one of the two arrays, with one row per record",
            fix="Save it with numpy.savez(path, probs=..., labels=...)",
        )
    return found


def _no_objects(path: Path, member: Member, key: str) -> None:
    if not member.dtype.hasobject:
        return
    plain = {
        "labels": "labels.astype(int), or labels.astype(str) together with label_names",
        "label_names": "label_names.astype(str)",
        "ids": "ids.astype(str)",
    }
    raise FileError(
        f"{path} cannot be read: its array {key!r} holds Python objects",
        allowed="arrays of numbers or text",
        fix=f"Save {plain.get(key, f'{key}.astype(float)')}",
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
