"""A score axis on which every bin of a sketch is as wide as the next, and scores in words.

The bins of a sketch get finer towards both ends, so that an axis even in their number shows a crowd
of scores within 10⁻⁶ of 1 as well as one in the middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover.methods.sketch.table import Layout
from fedcover.position import HALF, TOP, distances_at, positions, scores_at

Float64 = NDArray[np.float64]
Positions = NDArray[np.int64]

NICE = (0.0, 0.5, 0.25, 1e-9, 0.1, 1e-16, 1e-3, 0.4, 0.05, 0.01, 1e-5, 1e-100)
"""Scores, and distances to 1, at which ticks are set, the most welcome first."""

FEW_BINS = 12
"""Bins up to which ticks are at their edges."""

LETTER, GAP = 0.07, 0.06
"""Inches that a letter of a tick takes, and that are left between two ticks."""


def score_text(at: int | np.int64) -> str:
    """A score in words: near 1 by its distance to 1, near 0 by its size."""
    v, d = float(scores_at(at)), float(distances_at(at))
    if min(v, d) >= 1e-3:
        return f"{v:.4f}"
    if v < d:
        return _short(v, 2)
    return f"1 - {_short(d, 2)}" if d else "1"


def _short(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}g}".replace("e-0", "e-")


def span(row: Positions) -> str:
    """The thresholds of one level, which differ a little from label to label."""
    low, high = score_text(row.min()), score_text(row.max())
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class ScoreAxis:
    """An axis from score 0, at place 0, to score 1, at place 1.

    edges : (B + 1,) positions of the edges of the bins, from 0 to 1.
    """

    edges: Positions

    @classmethod
    def of(cls, layout: Layout) -> ScoreAxis:
        """The axis of a sketch's bins."""
        return cls(np.concatenate([[0], layout.cut_array, [TOP]]))

    def places(self, at: Positions) -> Float64:
        """Where positions are on the axis; within a bin even in the score."""
        bins = len(self.edges) - 1
        k = np.clip(np.searchsorted(self.edges, at, side="right") - 1, 0, bins - 1)
        ends = self.edges[k], self.edges[k + 1]
        near = ends[0] >= HALF
        low, high, v = (np.where(near, -distances_at(p), scores_at(p)) for p in (*ends, at))
        return (k + (v - low) / (high - low)) / bins

    def ticks(self, room: float) -> list[tuple[float, str]]:
        """Places and texts of as many ticks as fit, for an axis of so many inches."""
        chosen: list[tuple[float, str]] = []
        for at, text in self._candidates():
            place = float(self.places(np.array([at]))[0])
            apart = [
                abs(place - other) * room - LETTER * (len(text) + len(near)) / 2 - GAP
                for other, near in chosen
            ]
            if min(apart, default=1.0) >= 0:
                chosen.append((place, text))
        return sorted(chosen)

    def _candidates(self) -> list[tuple[int, str]]:
        ends = [(0, "0"), (TOP, "1")]
        if len(self.edges) <= FEW_BINS + 1:
            inner = self.edges[1:-1]
            return [*ends, *((int(p), f"{float(scores_at(p)):.4g}") for p in inner)]
        out = ends
        for v in NICE[1:]:
            low, high = positions([v, 1 - v], [1 - v, v]).tolist()
            upper = f"{1 - v:g}" if v >= 1e-3 else f"1 - {_short(v)}"
            out += [(high, upper), (low, _short(v))]
        return out
