"""PredictionSets: the sets of some records, with their sizes, their coverage and their names."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.diagnostics import Coverage, clopper_pearson, coverage_by
from fedcover.errors import FedcoverError

if TYPE_CHECKING:
    import pandas


class PredictionSets:
    """Prediction sets of n records at one or several levels α.

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
        label_names: tuple[str, ...] | None = None,
    ) -> None:
        self._mask = mask
        self.alpha = alpha
        self.label_names = label_names

    @property
    def mask(self) -> NDArray[np.bool_]:
        return self._only(self._mask)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many labels each set holds: (n,), or (A, n)."""
        return self._only(np.count_nonzero(self._mask, axis=2).astype(np.int64))

    def __len__(self) -> int:
        return self._mask.shape[1]

    def __repr__(self) -> str:
        mean = ", ".join(f"{s:.2f}" for s in np.atleast_1d(self.sizes.mean(axis=-1)))
        return f"PredictionSets({len(self)} records, alpha={self.alpha}, mean size {mean})"

    def coverage(self, labels: ArrayLike) -> float | NDArray[np.float64]:
        """Share of records whose label is in its set: a number, or (A,)."""
        shares = self._hits(labels).mean(axis=1)
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

    def labels_of(self, record: int, level: int = 0) -> list[str]:
        """Names of the labels in one set (class numbers where the classes have no names)."""
        names = self.label_names
        return [names[c] if names else str(c) for c in np.flatnonzero(self._mask[level, record])]

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
                inside = self.labels_of(k, a)
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
        """Write the rows as a csv file; the labels of a set are joined by '|'."""
        rows = self.rows(ids)
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "alpha", "size", "labels"])
            for row in rows:
                writer.writerow([row["id"], row["alpha"], row["size"], "|".join(row["labels"])])

    def _only(self, values: NDArray[Any]) -> NDArray[Any]:
        return values[0] if len(self.alpha) == 1 else values

    def _labels(self, labels: ArrayLike) -> NDArray[np.int64]:
        return checks.labels(labels, self._mask.shape[2], n=len(self))

    def _hits(self, labels: ArrayLike) -> NDArray[np.bool_]:
        y = self._labels(labels)
        return self._mask[:, np.arange(len(y)), y]
