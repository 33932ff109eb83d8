"""How well sets keep their promise: coverage with a confidence band, by size and by class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover import checks


@dataclass(frozen=True)
class Coverage:
    """A coverage: hits among n records, with a Clopper-Pearson band at `confidence`."""

    value: float
    low: float
    high: float
    hits: int
    n: int
    confidence: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] (n={self.n})"


def clopper_pearson(hits: int, n: int, confidence: float = 0.95) -> Coverage:
    """Exact binomial confidence interval; it covers the true rate at least `confidence` often."""
    from scipy.special import betaincinv

    checks.whole(n, "n", 0)
    checks.whole(hits, "hits", 0, n)
    confidence = checks.real(confidence, "confidence", 0, 1, open_low=True)
    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    value = hits / n if n else float("nan")
    return Coverage(value, low, high, int(hits), n, confidence)


def coverage_tails(hits: int, n: int, alpha: float, effective_size: float) -> tuple[float, float]:
    """Chances of at most and of at least `hits` among n records, if the promise 1-α holds.

    Two things vary: the n test records, and the calibration set, which moves the coverage itself.
    Given a calibration on m records that coverage follows a Beta((1-α)(m+1), α(m+1)) distribution
    (split conformal prediction without ties; Vovk 2012), so the hits are beta-binomial. For
    weighted records m is their effective size, which makes it an approximation.
    """
    from scipy.stats import betabinom

    m = max(1.0, effective_size)
    law = betabinom(n, (1 - alpha) * (m + 1), alpha * (m + 1))
    return float(law.cdf(hits)), float(law.sf(hits - 1))


def coverage_by(
    groups: NDArray[np.int64], hit: NDArray[np.bool_], confidence: float = 0.95
) -> dict[int, Coverage]:
    """Coverage of the records of every group (a class, a set size) that occurs."""
    out = {}
    for g in np.unique(groups):
        mine = hit[groups == g]
        out[int(g)] = clopper_pearson(int(mine.sum()), len(mine), confidence)
    return out
