"""A quantity averaged over repetitions: mean, confidence interval of the mean, spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcover.errors import FedcoverError

CONFIDENCE = 0.95
SPREAD = 0.9
MARGIN = 0.1
"""A coverage within this share of α from its target counts as on target: a point at α = 0.1."""


@dataclass(frozen=True)
class Estimate:
    """Mean over repetitions.

    Attributes
    ----------
    mean
        The mean.
    low, high
        95% confidence interval of the mean (Student's t over repetitions).
    least, most
        The middle 90% of the repetitions: what a single run may give.
    n
        Number of repetitions.
    """

    mean: float
    low: float
    high: float
    least: float
    most: float
    n: int

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def keeps(self, target: float) -> bool:
        """Whether the mean coverage reaches the target 1-α, or misses it by less than α/10."""
        return self.mean >= target - MARGIN * (1 - target)

    def verdict(self, target: float) -> str:
        """Against a coverage target 1-α: "below", "above" or "on".

        Below and above mean both beyond chance (the interval excludes the target) and by more
        than α/10, so that many repetitions do not make a hair's breadth a failure.
        """
        if self.high < target and not self.keeps(target):
            return "below"
        if self.low > target and self.mean > target + MARGIN * (1 - target):
            return "above"
        return "on"


def over_repetitions(values: ArrayLike) -> Estimate:
    """The estimate from one value per repetition; needs at least two."""
    from scipy.special import stdtrit

    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 1 or len(v) < 2:
        raise FedcoverError(
            f"values has shape {v.shape}",
            allowed="one number per repetition, at least two repetitions",
            fix="Run more repetitions",
        )
    mean = float(v.mean())
    error = float(v.std(ddof=1) / np.sqrt(len(v)))
    half = float(stdtrit(len(v) - 1, (1 + CONFIDENCE) / 2)) * error
    least, most = np.quantile(v, [(1 - SPREAD) / 2, (1 + SPREAD) / 2])
    return Estimate(mean, mean - half, mean + half, float(least), float(most), len(v))
