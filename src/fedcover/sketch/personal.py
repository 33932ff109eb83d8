"""Thresholds of one target from the table, with every error that is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcover.protocols.base import Fit
from fedcover.sketch.curve import WHOLE_BIN, Mixture, Quantile
from fedcover.sketch.mix import LabelMix
from fedcover.sketch.table import SketchTable

Float64 = NDArray[np.float64]

BARE = 4.0
"""Deviations of a noisy total below which it may as well be zero."""

LARGE_MIX = 0.03
"""Deviation of the coverage by the own label mix from which a warning is due."""


@dataclass(frozen=True)
class Errors:
    """Standard deviations of a target's coverage, (A,) each, by where they come from.

    Attributes
    ----------
    sampling
        The calibration records are a sample.
    noise
        Privacy noise, on the table and on the label totals.
    bins
        Inside the bin of the threshold nothing is known.
    smoothing
        Rows that noise hides are drawn towards all records.
    mix
        The target's own label distribution was estimated: this is R of eq. (9), as a deviation.
    groups
        Labels that share a row are not alike.
    """

    sampling: Float64
    noise: Float64
    bins: Float64
    smoothing: Float64
    mix: Float64
    groups: Float64

    NAMES: ClassVar[dict[str, str]] = {
        "sampling": "calibration sample",
        "noise": "privacy noise",
        "bins": "score bins",
        "smoothing": "smoothing",
        "mix": "own label mix",
        "groups": "unlike labels in a group",
    }

    @property
    def total(self) -> Float64:
        return np.sqrt(np.sum([np.square(getattr(self, name)) for name in self.NAMES], axis=0))

    def parts(self, a: int) -> dict[str, float]:
        """The parts of one level, by their names in plain words."""
        return {words: float(getattr(self, name)[a]) for name, words in self.NAMES.items()}

    def words(self, alphas: tuple[float, ...]) -> str:
        """The largest of the levels in plain words."""
        a = int(np.argmax(self.total))
        parts = ", ".join(f"{what} {sd:.3f}" for what, sd in self.parts(a).items() if sd >= 5e-4)
        return f"coverage {1 - alphas[a]:g} ± {self.total[a]:.3f} (one deviation: {parts})"


@dataclass(frozen=True)
class Personal:
    """A target's thresholds at several levels, and their errors.

    Attributes
    ----------
    table, mix, alphas
        The sketch's table, the target's label mix, the levels.
    """

    table: SketchTable
    mix: LabelMix
    alphas: tuple[float, ...]
    mixed: Mixture = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mixed", Mixture(self.table, self.mix.shares))

    @cached_property
    def quantiles(self) -> tuple[Quantile, ...]:
        """Where the misses reach each level."""
        return tuple(self.mixed.quantile(alpha) for alpha in self.alphas)

    @cached_property
    def errors(self) -> Errors:
        """How far the coverage may be off."""
        found = list(zip(self.quantiles, self.alphas, strict=True))
        return Errors(
            sampling=np.array([self._sampling(q) for q, _ in found]),
            noise=np.array([math.hypot(q.noise, self._totals(q)) for q, _ in found]),
            bins=np.array([self._bins(q, alpha) for q, alpha in found]),
            smoothing=np.array([q.smoothing for q, _ in found]),
            mix=np.array([self._own_mix(q) for q, _ in found]),
            groups=np.array([self._unlike(alpha) for _, alpha in found]),
        )

    def _sampling(self, q: Quantile) -> float:
        """Records are a sample: √Σ_y c_y² n_y g_y (1 - g_y) with miss rates g."""
        g = q.row_misses
        return math.sqrt(float(np.sum(q.shares**2 * self.mixed.totals * g * (1 - g))))

    def _bins(self, q: Quantile, alpha: float) -> float:
        """Inside the threshold's bin nothing is known; and a neighbour may have been the right one.

        Between values that many records share the misses jump. Where α is near the level on one
        side of a jump, error may take the wrong side of it, and then all of that value's mass
        counts: as often as normal error is larger than the distance of the level from α.
        """
        from scipy.special import ndtr

        i, error = q.bin, math.hypot(q.noise, self._sampling(q), 1e-12)
        noise = self.table.cell_deviation * float(np.linalg.norm(q.shares))
        mass = max(float(q.cells[i]), 0.0)
        # Beyond five deviations none of two thousand bins is a value only by noise.
        values = np.flatnonzero(q.cells[: i + 1] > WHOLE_BIN + 5 * noise)
        above = values[values < i]
        next_up = float(q.cells[above[-1]]) if len(above) else 0.0
        level_above = float(q.misses[i - 1]) if i else 0.0
        too_high = float(ndtr(-max(float(q.misses[i]) - alpha, 0.0) / error)) * (i in values)
        too_low = float(ndtr(-max(alpha - level_above, 0.0) / error))
        return math.sqrt(mass**2 * (1 / 12 + too_high) + next_up**2 * too_low)

    def _totals(self, q: Quantile) -> float:
        """The noise of a divisor n_y moves that row's part of the misses in proportion."""
        return float(np.linalg.norm(q.shares * q.row_misses * self.mixed.total_sds))

    def _own_mix(self, q: Quantile) -> float:
        """√(Var_{P̂} g_y / m) for m counted labels; the spread of the guesses for guessed ones."""
        row = self.table.layout.row_of
        if self.mix.draws is not None:
            off = (self.mix.draws - self.mix.shares) @ q.row_misses[row]
            return math.sqrt(float(np.mean(off**2)))
        if self.mix.counted is None:
            return 0.0
        seen = self.mixed.totals > 0
        share = self.mixed.weights[seen] / max(float(self.mixed.weights[seen].sum()), 1e-300)
        apart = q.row_misses[seen] - share @ q.row_misses[seen]
        return math.sqrt(float(share @ apart**2) / self.mix.counted)

    def _unlike(self, alpha: float) -> float:
        """How far labels that share a row can move the coverage: |Σ_y d_y g_y| ≤ ‖d/√q‖·sd(g_y).

        d_y is how much more of label y the target has than its row, q_y the label's share of all
        records (Cauchy and Schwarz); shares of mean α have at most the variance α(1-α).
        """
        if self.table.layout.groups is None:
            return 0.0
        row, records = self.table.layout.row_of, np.maximum(self.mixed.records, 1e-300)
        inside = records / np.bincount(row, records)[row]
        uneven = self.mix.shares - self.mixed.weights[row] * inside
        reach = math.sqrt(float(np.sum(uneven**2 / records)) * float(records.sum()))
        return math.sqrt(alpha * (1 - alpha)) * reach

    def fit(self) -> Fit:
        """The thresholds with what they rest on."""
        row = self.table.layout.row_of
        shares = np.mean([q.shares for q in self.quantiles], axis=0)[row]
        records = float(self.mixed.totals.sum())
        seen = float(1 - self.mixed.unseen.sum())
        return Fit(
            positions=np.stack([q.positions for q in self.quantiles]),
            ratios=shares * records,
            records=self.mixed.records,
            total=seen * records,
            available=round(records),
            unseen=self.mixed.unseen,
            counted=self.mix.counted,
            coverage_error=self.errors.total,
            error=self.errors.words(self.alphas) + self.mix.said,
            alarms=self._alarms(),
        )

    def _alarms(self) -> tuple[str, ...]:
        """What the user should do something about."""
        out = []
        kept = min(q.kept for q in self.quantiles)
        if kept < 0.5:
            out.append(
                f"privacy noise hides {1 - kept:.0%} of what sets its label mix apart: its sets "
                "are nearer to those for the average mix; a larger epsilon or more records of its "
                "labels would help"
            )
        bare = (self.mixed.totals <= BARE * self.mixed.total_sds) & (self.mixed.total_sds > 0)
        if (share := float(self.mixed.weights[bare].sum())) > 0.05:
            out.append(
                f"{share:.0%} of its labels have so few records in the sketch that privacy noise "
                "hides them: their scores are not known, and the coverage may be off by as much"
            )
        worst = float(self.errors.mix.max())
        if self.mix.counted is not None and worst > LARGE_MIX:
            out.append(
                f"its label mix rests on {self.mix.counted} counted labels, which alone moves the "
                f"coverage by ± {worst:.3f}; count more labels, or those of a group of similar "
                "sites"
            )
        return tuple(out)
