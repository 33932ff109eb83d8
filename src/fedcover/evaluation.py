"""What a calibration does on labelled records: coverage by file, class and set size, with bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.calibration import Calibration
from fedcover.diagnostics import Coverage, clopper_pearson, coverage_tails
from fedcover.errors import FedcoverError
from fedcover.prediction import PredictionSets

Ints = NDArray[np.int64]

ALL, FILE, CLASS, SIZE = "all", "file", "class", "set size"


@dataclass(frozen=True)
class Evaluation:
    """Sets of labelled records, and how many of them hold the label.

    Attributes
    ----------
    calibration
        What made the sets.
    files
        By name, the number of records of each file, in the order of the records.
    sets, labels
        The sets, and the labels that they should hold.
    confidence
        Of the bands.
    """

    calibration: Calibration
    files: Mapping[str, int]
    sets: PredictionSets
    labels: Ints
    confidence: float

    @classmethod
    def of(
        cls,
        calibration: Calibration,
        data: Mapping[str, tuple[NDArray[np.floating[Any]], Ints]],
        seed: int = 0,
        confidence: float = 0.95,
    ) -> Evaluation:
        """From the probabilities and labels of every file, in the calibration's class order."""
        files = {name: len(labels) for name, (_, labels) in data.items()}
        if not sum(files.values()):
            raise FedcoverError(
                f"{', '.join(files) or 'no file'} holds no record",
                allowed="labelled records",
                fix="Give records that were kept apart from the calibration",
            )
        probs = np.concatenate([probs for probs, _ in data.values()])
        labels = np.concatenate([labels for _, labels in data.values()])
        return cls(calibration, files, calibration.predict_set(probs, seed), labels, confidence)

    @cached_property
    def parts(self) -> dict[str, list[dict[Any, Coverage]]]:
        """By part ("all", "file", "class", "set size") and level, the coverage of each group."""
        whole = self.sets.coverage_band(self.labels, self.confidence)
        parts: dict[str, list[dict[Any, Coverage]]] = {ALL: [{ALL: c} for c in whole]}
        if len(self.files) > 1:
            parts[FILE] = [self._by_file(a) for a in range(len(whole))]
        by_class = self.sets.coverage_by_class(self.labels, self.confidence)
        by_size = self.sets.coverage_by_size(self.labels, self.confidence)
        return {**parts, CLASS: list(by_class), SIZE: list(by_size)}

    def _by_file(self, a: int) -> dict[Any, Coverage]:
        mask = self.sets.mask if len(self.calibration.alpha) == 1 else self.sets.mask[a]
        hits = mask[np.arange(len(self.labels)), self.labels]
        ends = np.cumsum(list(self.files.values()))[:-1]
        return {
            name: clopper_pearson(int(part.sum()), len(part), self.confidence)
            for name, part in zip(self.files, np.split(hits, ends), strict=True)
        }

    def sizes(self, a: int) -> Ints:
        """How many labels each set holds at a level."""
        return np.atleast_2d(self.sets.sizes)[a]

    def overall(self, a: int) -> Coverage:
        """The coverage of all records at a level."""
        return self.parts[ALL][a][ALL]

    def named(self, part: str, key: Any) -> str:
        """What a group is called."""
        if part == CLASS and self.calibration.label_names:
            return f"class {self.calibration.label_names[key]}"
        return str(key) if part in (ALL, FILE) else f"{part} {key}"

    def tails(self, a: int) -> tuple[float, float]:
        """Chances of as little and of as much coverage at a level, if the promise holds."""
        c = self.overall(a)
        return coverage_tails(c.hits, c.n, self.calibration.alpha[a], self.worth(a))

    def worth(self, a: int) -> float:
        """How many records would leave the coverage as uncertain as noise and all else leave it."""
        cal = self.calibration
        if cal.coverage_error is None:
            return cal.effective_size
        variance = cal.alpha[a] * (1 - cal.alpha[a])
        return min(cal.effective_size, variance / max(float(cal.coverage_error[a]) ** 2, 1e-300))

    def verdict(self, a: int) -> str:
        """Against the promise: "below", "above" or "on"."""
        low, high = self.tails(a)
        rare = (1 - self.confidence) / 2
        return "below" if low < rare else "above" if high < rare else "on"

    def said(self, a: int) -> str:
        """Does the coverage fit the promise, given the test records and the calibration set?"""
        level, (low, high) = self.calibration.alpha[a], self.tails(a)
        verdict = self.verdict(a)
        if verdict == "below":
            return (
                f"below {1 - level:g} by more than {self.overall(a).n} test records and a "
                f"calibration worth {self.worth(a):.0f} records explain (chance {low:.2g}): check "
                "that the records follow the target's own label mix and that a label looks alike "
                "at all sites"
            )
        if verdict == "above":
            return f"above {1 - level:g} beyond chance ({high:.2g}): valid, sets larger than needed"
        return f"coverage agrees with {1 - level:g} (chance of less {low:.2g}, of more {high:.2g})"

    def facts(self) -> dict[str, Any]:
        """All numbers, as they stand in a .json file."""
        parts = {
            part: [{str(k): vars(c) for k, c in level.items()} for level in by_level]
            for part, by_level in self.parts.items()
        }
        cal, mean_size = self.calibration, self.sets.sizes.mean(axis=-1).tolist()
        return {"target": cal.target, "alpha": cal.alpha, "mean_size": mean_size, **parts}
