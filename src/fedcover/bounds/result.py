"""What a bound returns: its named terms, or a range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """An error bound as the sum of its named terms, so that one sees what dominates."""

    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """The bound itself."""
        return math.fsum(self.terms.values())

    @property
    def dominant(self) -> str:
        """The name of the largest term."""
        return max(self.terms, key=lambda name: self.terms[name])

    @property
    def vacuous(self) -> bool:
        """Whether the bound is at least 1, which says nothing about a probability."""
        return self.total >= 1

    def __float__(self) -> float:
        return self.total

    def __str__(self) -> str:
        parts = sorted(self.terms.items(), key=lambda item: -item[1])
        return f"{self.total:.4g} = " + " + ".join(f"{v:.3g} ({name})" for name, v in parts)


@dataclass(frozen=True)
class CoverageRange:
    """A coverage probability lies in [low, high]."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}]"
