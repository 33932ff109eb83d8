"""Trials of the promise on random worlds, and what a cell of such trials says."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

import fedcover as fc

from .worlds import FAMILIES, World, world

DELTA = 1e-5
BIAS = 0.005
"""How far the mean coverage may be from the attainable one."""
SHARES = (0.91, 0.995)
"""Between what the share within two stated deviations may be."""
VIEWS = ("server", "secure-sum")
Row = dict[str, Any]


def worlds_of(family: str, seed: int, draws: Iterable[int], **options: Any) -> Iterator[World]:
    """The worlds of a seed by their numbers; each can be drawn again by itself."""
    for r in draws:
        yield world(family, np.random.default_rng([seed, FAMILIES.index(family), r]), **options)


def budget(epsilon: float | None, view: str = "secure-sum") -> fc.Privacy | None:
    """The privacy of a cell; None for none."""
    return None if epsilon is None else fc.Privacy(epsilon=epsilon, delta=DELTA, view=view)


def trial(
    w: World,
    privacy: fc.Privacy | None,
    alpha: float = 0.1,
    certify: float | None = None,
    counted: int | None = None,
    parts: int = 1,
) -> Row:
    """Collect a sketch in a world, personalise it for the target, and compare with the truth.

    certify : confidence of a certificate. counted : the mix is known from so many labels only.
    parts : as how many sketches of different sites, which are then added, it is collected.
    """
    more = {} if certify is None else {"certify": certify}
    known = w.mix if counted is None else w.counts(counted)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            sketch = fc.collect(w.sites[::parts], privacy=privacy)
            for i in range(1, parts):
                sketch += fc.collect(w.sites[i::parts], sketch.method, privacy)
        except fc.FedcoverError as error:
            return {"refused": str(error)}
        cal = sketch.personalise(known, alpha=alpha, **more)
    stated = getattr(cal, "coverage_error", None)  # today's calibrations do not have it yet
    people, mix = w.population, w.mix
    oracle = people.oracle(alpha, mix)
    row: Row = {
        "coverage": people.coverage(cal, mix),
        "attainable": oracle.coverage,
        "upper": oracle.upper,
        "stated": None if stated is None else float(np.ravel(stated)[0]),
        "warned": sum(issubclass(s.category, fc.FedcoverWarning) for s in seen),
        "target": 1 - alpha,
    }
    if people.outputs is not None:
        row |= {"size": people.size(cal, mix), "oracle": people.oracle_size(oracle, mix)}
    return row


@dataclass(frozen=True)
class Cell:
    """Trials of one kind.

    Attributes
    ----------
    draws, refused, warned
        How many trials, and in how many of them collecting was refused or a warning was given.
    bias, error, spread
        Mean of coverage less attainable coverage, its standard error, and the deviation. Where a
        crowd is narrower than public bins, all between the attainable value and that one bin
        further on counts as attainable.
    strict
        The mean without this exception.
    crowded
        Trials to which it applies.
    inside, stated
        Trials within two stated deviations of the attainable value itself, of those that state one.
    below
        Trials that cover less than 1-α: a certificate's violations.
    size
        Mean set size over that of the oracle; nan for ready scores.
    """

    draws: int
    refused: int
    warned: int
    bias: float
    error: float
    spread: float
    strict: float
    crowded: int
    inside: int
    stated: int
    below: int
    size: float

    @classmethod
    def of(cls, rows: list[Row]) -> Cell:
        done = [row for row in rows if "refused" not in row]
        strict = np.array([row["coverage"] - row["attainable"] for row in done])
        reach = np.array([row["upper"] - row["attainable"] for row in done])
        off = strict - np.clip(strict, 0, reach)
        spread = float(off.std(ddof=1)) if len(off) > 1 else np.nan
        stated = [(o, row["stated"]) for o, row in zip(strict, done, strict=True) if row["stated"]]
        sized = [row for row in done if "size" in row]
        return cls(
            len(rows),
            len(rows) - len(done),
            sum(row["warned"] > 0 for row in done),
            float(off.mean()) if len(off) else np.nan,
            spread / np.sqrt(max(1, len(off))),
            spread,
            float(strict.mean()) if len(off) else np.nan,
            int((reach > 0).sum()),
            sum(abs(o) <= 2 * s for o, s in stated),
            len(stated),
            sum(row["coverage"] < row["target"] - 1e-9 for row in done),
            sum(r["size"] for r in sized) / sum(r["oracle"] for r in sized) if sized else np.nan,
        )

    @property
    def calibrated(self) -> int:
        return self.draws - self.refused

    def biased(self, errors: float = 3.0) -> bool:
        """Whether the bias is larger than allowed by so many standard errors, or unknown."""
        if self.calibrated < 2:
            return True
        return bool(abs(self.bias) - errors * self.error > BIAS)

    def untrue(self, confidence: float | None = None) -> bool:
        """Whether the share within two stated deviations is outside its bounds.

        With a confidence, whether its whole exact interval is.
        """
        if not self.stated:
            return False
        share = self.inside / self.stated
        low, high = (share, share) if confidence is None else self.interval(confidence)
        return low > SHARES[1] or high < SHARES[0]

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Clopper-Pearson interval of the share within two stated deviations."""
        return _interval(self.inside, self.stated, confidence)

    def violated(self, certify: float, confidence: float = 0.999) -> bool:
        """Whether more than 1 - certify of the trials cover too little, beyond doubt."""
        return _interval(self.below, self.calibrated, confidence)[0] > 1 - certify


def _interval(k: int, n: int, confidence: float) -> tuple[float, float]:
    if not n:
        return 0.0, 1.0
    found = stats.binomtest(k, n).proportion_ci(confidence, "exact")
    return float(found.low), float(found.high)
