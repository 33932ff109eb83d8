"""PredictionSets: the sets of some records, with their sizes, their coverage and their names."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover._io.cells import cell_of
from fedcover._io.writing import replacing
from fedcover.classnames import Names
from fedcover.diagnostics import Coverage, clopper_pearson, coverage_by
from fedcover.errors import FedcoverError
from fedcover.results import Result, numbers

if TYPE_CHECKING:
    import pandas

Labels = list[Any]
"""The labels of a set: names where the classes have names, else whole numbers."""


class PredictionSets(Result):
    """Prediction sets of n records at one or several levels α.

    `sets[k]` is the list of labels in the set of record k (with several levels, one list per
    level), and a loop over the sets goes over the records. Labels are what they were at
    calibration: names where the classes have names, else whole numbers. True labels, where a
    method asks for them, are the same.

    Attributes
    ----------
    alpha
        The levels.
    mask
        (n, C) booleans for one level, (A, n, C) for several: which labels are in which set.
    label_names
        Names of the classes, or None.
    """

    def __init__(
        self,
        mask: NDArray[np.bool_],
        alpha: tuple[float, ...],
        label_names: Names | None = None,
    ) -> None:
        self._mask = mask
        self.alpha = alpha
        self.label_names = label_names

    def named(self, label_names: Names | None) -> PredictionSets:
        """The same sets with other names for the classes."""
        return PredictionSets(self._mask, self.alpha, label_names)

    @property
    def mask(self) -> NDArray[np.bool_]:
        return self._only(self._mask)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many labels each set holds: (n,), or (A, n)."""
        return self._only(np.count_nonzero(self._mask, axis=2).astype(np.int64))

    @property
    def n_classes(self) -> int:
        return self._mask.shape[2]

    def __len__(self) -> int:
        return self._mask.shape[1]

    def __getitem__(self, record: int) -> Labels | list[Labels]:
        """Labels in the set of one record; with several levels, a list for each."""
        k = _position(record, len(self), "record")
        inside = [self._inside(k, a) for a in range(len(self.alpha))]
        return inside[0] if len(self.alpha) == 1 else inside

    def __iter__(self) -> Iterator[Labels | list[Labels]]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        levels = self.alpha[0] if len(self.alpha) == 1 else self.alpha
        n = f"{len(self)} record{'s' * (len(self) != 1)}"
        return f"PredictionSets({n}, alpha={levels}, mean size {self._mean()})"

    def facts(self) -> dict[str, object]:
        return {
            "records": len(self),
            "labels": self.n_classes,
            "α": numbers(self.alpha),
            "mean number of labels in a set": self._mean(),
            "the first sets": "; ".join(
                ", ".join(map(str, self._inside(k, 0))) or "none" for k in range(min(3, len(self)))
            ),
        }

    def _mean(self) -> str:
        """Mean set size by level; there is none of no records."""
        means = np.count_nonzero(self._mask, axis=(1, 2)) / max(1, len(self))
        return ", ".join(f"{mean:.2f}" for mean in means)

    def coverage(self, labels: ArrayLike) -> float | NDArray[np.float64]:
        """Share of records whose label is in its set: a number, or (A,)."""
        hits = self._hits(labels)
        if not len(self):
            raise FedcoverError(
                "the coverage of no records", allowed="at least one record", fix="Give some"
            )
        shares = hits.mean(axis=1)
        return float(shares[0]) if len(self.alpha) == 1 else shares

    def coverage_band(self, labels: ArrayLike, confidence: float = 0.95) -> list[Coverage]:
        """Coverage with its Clopper-Pearson band, one entry per level."""
        hits = self._hits(labels)
        return [clopper_pearson(int(h.sum()), len(h), confidence) for h in hits]

    def coverage_by_class(
        self, labels: ArrayLike, confidence: float = 0.95
    ) -> list[dict[int, Coverage]]:
        """Coverage of the records of each class, one dictionary per level."""
        y = self._labels(labels)
        return [coverage_by(y, h, confidence) for h in self._hits(labels)]

    def coverage_by_size(
        self, labels: ArrayLike, confidence: float = 0.95
    ) -> list[dict[int, Coverage]]:
        """Coverage of the records with each set size, one dictionary per level."""
        sizes = np.count_nonzero(self._mask, axis=2).astype(np.int64)
        hits = self._hits(labels)
        return [coverage_by(s, h, confidence) for s, h in zip(sizes, hits, strict=True)]

    def labels_of(self, record: int, level: int = 0) -> Labels:
        """The labels in one set, at the level of this number."""
        k = _position(record, len(self), "record")
        return self._inside(k, _position(level, len(self.alpha), "level"))

    def _inside(self, record: int, level: int) -> Labels:
        inside = np.flatnonzero(self._mask[level, record]).tolist()
        return [self.label_names[c] for c in inside] if self.label_names else inside

    def rows(self, ids: Sequence[Any] | None = None) -> Iterator[dict[str, Any]]:
        """One dictionary per record and level: id, alpha, size, labels."""
        if ids is not None and len(ids) != len(self):
            raise FedcoverError(
                f"ids has {len(ids)} entries for {len(self)} records",
                allowed="one per record",
                fix="Leave ids out to number the records",
            )
        return self._rows(ids)

    def _rows(self, ids: Sequence[Any] | None) -> Iterator[dict[str, Any]]:
        for a, alpha in enumerate(self.alpha):
            for k in range(len(self)):
                inside = self._inside(k, a)
                yield {
                    "id": k if ids is None else ids[k],
                    "alpha": alpha,
                    "size": len(inside),
                    "labels": inside,
                }

    def to_frame(self, ids: Sequence[Any] | None = None) -> pandas.DataFrame:
        """The rows as a pandas table (needs pandas; `rows` and `to_csv` do not)."""
        try:
            import pandas
        except ImportError:
            raise FedcoverError(
                "pandas is not installed",
                allowed="to_frame with pandas; rows() and to_csv() without",
                fix="pip install 'fedcover[pandas]'",
            ) from None
        return pandas.DataFrame(list(self.rows(ids)))

    def to_csv(self, path: str | Path, ids: Sequence[Any] | None = None) -> None:
        """Write the rows as a csv file; the labels of a set are joined by '|'.

        Replaces the file only when fully written. A text that a spreadsheet would run, such as one
        that begins with '=', gets an apostrophe in front: see `fedcover._io.cells`.
        """
        odd = next((name for name in self.label_names or () if "|" in str(name)), None)
        if odd is not None:
            raise FedcoverError(
                f"the class name {odd!r} contains '|', which separates the labels of a set",
                allowed="class names without '|' in a csv file",
                fix="Rename the class, or use rows() or to_frame(), which give lists of labels",
            )
        rows = self.rows(ids)
        with replacing(path) as file:
            writer = csv.writer(file)
            writer.writerow(["id", "alpha", "size", "labels"])
            for row in rows:
                labels = cell_of("|".join(map(str, row["labels"])))
                writer.writerow([cell_of(str(row["id"])), row["alpha"], row["size"], labels])

    def _only(self, values: NDArray[Any]) -> NDArray[Any]:
        return values[0] if len(self.alpha) == 1 else values

    def _labels(self, labels: ArrayLike) -> NDArray[np.int64]:
        return checks.labels(labels, self.n_classes, n=len(self), names=self.label_names)

    def _hits(self, labels: ArrayLike) -> NDArray[np.bool_]:
        y = self._labels(labels)
        return self._mask[:, np.arange(len(y)), y]


def _position(given: int, n: int, what: str) -> int:
    """An index from the front, or from the back if negative."""
    k = checks.whole(given, what, -n, n - 1)
    return k + n if k < 0 else k
