"""A model's outputs on labelled records, from a file or shipped, as the experiments use them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import ranking
from fedcover._io.files import read_outputs
from fedcover.errors import FileError
from fedcover.inputs import Floats
from fedcover.scores import APS

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

PANEL = 5_000_000
"""How many scores are kept for set sizes: all labels of 5000 records, where labels are 1000."""


@dataclass(frozen=True)
class Records:
    """A model's outputs on labelled records, as the two parts of the APS score ρ + U·f̂[y].

    They are computed once; a repetition only draws U. All labels' parts are kept for a panel of
    records, which is enough to measure set sizes.

    Attributes
    ----------
    labels, above, own
        (n,) labels y, ρ(x, y) and f̂(x)[y].
    panel
        (m,) the panel's records, in increasing order.
    panel_above, panel_probs
        (m, C) ρ and f̂ of all labels.
    """

    labels: Int64
    above: Float64
    own: Float64
    panel: Int64
    panel_above: Float32
    panel_probs: Float32

    @classmethod
    def of(cls, parts: Iterable[tuple[Floats, Int64]], n: int, n_classes: int) -> Records:
        """Records from (probabilities, labels) that come in parts, n records in all."""
        kept = np.zeros(n, dtype=bool)
        # A stream of its own: a repetition that split by the same one would test on no panel.
        kept[np.random.default_rng([PANEL, n]).permutation(n)[: PANEL // n_classes]] = True
        found: list[tuple[NDArray[Any], ...]] = []
        at = 0
        for probs, y in parts:
            shown = probs[kept[at : at + len(y)]]
            mass, _, _ = ranking.masses(shown, compiled=False, lower=False)
            own = probs[np.arange(len(y)), y].astype(np.float64)
            above = ranking.Rows(probs, y).above[:, 0]
            found.append((y, above, own, mass.astype(np.float32), shown.astype(np.float32)))
            at += len(y)
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        labels, above, own, panel_above, panel_probs = columns
        return cls(labels, above, own, np.flatnonzero(kept), panel_above, panel_probs)

    @property
    def n_classes(self) -> int:
        return self.panel_probs.shape[1]

    def scores(self, pick: Int64, score: APS, rng: np.random.Generator) -> Float64:
        """Scores of the records' own labels, with fresh U where the score is randomised."""
        return np.minimum(
            1.0, self.above[pick] + random_part(score, len(pick), rng) * self.own[pick]
        )

    def mean_scores(self, u: float) -> Float64:
        """(C,) mean score of every label at this U; infinite for a label without records."""
        count = np.bincount(self.labels, minlength=self.n_classes)
        total = np.bincount(self.labels, self.above + u * self.own, minlength=self.n_classes)
        return np.where(count > 0, total / np.maximum(count, 1), np.inf)


def random_part(score: APS, n: int, rng: np.random.Generator) -> Float64:
    """U of n records: drawn afresh, or the fixed one of a deterministic score."""
    return rng.random(n) if score.u == "uniform" else np.full(n, float(score.u))


@lru_cache(maxsize=2)
def cifar10_records(path: str | None, temperature: float) -> Records:
    """Outputs of a file with ten classes; None for those shipped here."""
    shipped = files("fedcover.experiments") / "data" / "cifar10_resnet56.npz"
    return read_records(path or str(shipped), temperature, 10, 10)


def read_records(path: str, temperature: float, fewest: int, most: int) -> Records:
    """A file of logits and labels, checked to have from `fewest` to `most` classes."""
    table = read_outputs(path, logits=True, temperature=temperature)
    y, (n, classes) = table.require_labels(), table.probs.shape
    if not fewest <= classes <= most or n < 4 * classes:
        wanted = f"{fewest}" if fewest == most else f"at least {fewest}"
        raise FileError(
            f"{path} has {n} records and {classes} classes",
            allowed=f"{wanted} classes here, with at least 4 records per class on average",
            fix="Name the experiment that the file is for: fedcover reproduce NAME --logits FILE",
        )
    parts = ((table.probs[a : a + 1000], y[a : a + 1000]) for a in range(0, n, 1000))
    return Records.of(parts, n, classes)


def n_classes(path: str) -> int:
    """How many classes a file of logits has."""
    return int(read_outputs(path, logits=True).probs.shape[1])


def file_text(path: str) -> str:
    """A user's file in words, with what tells its contents apart."""
    return f"file {Path(path).name}, SHA-256 {sha256(Path(path).read_bytes()).hexdigest()[:12]}"
