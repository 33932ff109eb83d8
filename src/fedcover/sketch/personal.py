"""Thresholds of one target from the table, with every error that is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover.position import positions
from fedcover.protocols.base import Fit
from fedcover.sketch.groups import within_groups
from fedcover.sketch.mixture import Mixture, mixture, thresholds
from fedcover.sketch.table import SketchTable

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Errors:
    """Standard deviations of a target's coverage, (A,) each, by where they come from.

    Attributes
    ----------
    sampling
        The calibration records are a sample.
    noise
        Privacy noise.
    mix
        The target's own label distribution was estimated: this is R of eq. (9), as a deviation.
    groups
        Labels that share a row are not alike.
    """

    sampling: Float64
    noise: Float64
    mix: Float64
    groups: Float64

    @property
    def total(self) -> Float64:
        parts = (self.sampling, self.noise, self.mix, self.groups)
        return np.sqrt(np.sum(np.square(parts), axis=0))

    @property
    def systematic(self) -> Float64:
        """All but sampling, which conformal prediction already allows for."""
        return np.sqrt(self.noise**2 + self.mix**2 + self.groups**2)

    def words(self, alphas: tuple[float, ...]) -> str:
        """The largest of the levels in plain words."""
        a = int(np.argmax(self.total))
        named = {
            "calibration sample": self.sampling[a],
            "privacy noise": self.noise[a],
            "own label mix": self.mix[a],
            "unlike labels in a group": self.groups[a],
        }
        parts = ", ".join(f"{what} {sd:.3f}" for what, sd in named.items() if sd >= 5e-4)
        return f"coverage {1 - alphas[a]:g} ± {self.total[a]:.3f} (one deviation: {parts})"


def errors_of(
    table: SketchTable,
    mixed: Mixture,
    wanted: Float64,
    mix_variance: Float64,
    alphas: tuple[float, ...],
) -> Errors:
    """What is known about the error of a target's coverage."""
    return Errors(
        sampling=np.sqrt([mixed.sampling_variance(a) for a in alphas]),
        noise=np.sqrt([mixed.noise_variance(a) for a in alphas]),
        mix=np.sqrt(mix_variance),
        groups=np.array([_unlike(table, mixed, wanted, a) for a in alphas]),
    )


def _unlike(table: SketchTable, mixed: Mixture, wanted: Float64, alpha: float) -> float:
    """How far labels that share a row can move the coverage: |Σ_y d_y F_y| ≤ ‖d/√q‖·sd(F_y).

    d_y is how much more of label y the target has than its row, q_y the label's share of all
    records (Cauchy and Schwarz); the deviation of F_y is measured at the cut and carried to 1-α as
    that of a share, by √(F(1-F)).
    """
    if table.layout.groups is None:
        return 0.0
    row, records = table.layout.row_of, np.maximum(mixed.records, 1e-300)
    within, above = within_groups(table)
    inside = records / np.bincount(row, records)[row]
    uneven = wanted - mixed.weights[row] * inside
    reach = math.sqrt(float(np.sum(uneven**2 / records)) * float(records.sum()))
    carried = math.sqrt(alpha * (1 - alpha) / (above * (1 - above)))
    return math.sqrt(within) * carried * reach


def counted_variance(
    table: SketchTable, mixed: Mixture, counted: int | None, alphas: tuple[float, ...]
) -> Float64:
    """Variance of Σ_y P̂(y) F_y(q) where P̂ are shares of `counted` labels: Var_{P̂} F_y(q) / m."""
    if counted is None:
        return np.zeros(len(alphas))
    spread = [mixed.between_labels(a, table.table_sd) for a in alphas]
    return np.array(spread) / counted


def known_of(
    table: SketchTable,
    wanted: Float64,
    counted: int | None,
    alphas: tuple[float, ...],
    mix_variance: Float64 | None = None,
) -> tuple[Mixture, Errors]:
    """The mixture of label distribution `wanted`, counted from `counted` labels, and its errors."""
    mixed = mixture(table, wanted)
    if mix_variance is None:
        mix_variance = counted_variance(table, mixed, counted, alphas)
    return mixed, errors_of(table, mixed, wanted, mix_variance, alphas)


def fit_of(
    table: SketchTable,
    mixed: Mixture,
    errors: Errors,
    counted: int | None,
    alphas: tuple[float, ...],
    mode: str,
) -> Fit:
    """The fit of a target, from what `known_of` says of it."""
    found, crowded = thresholds(table, mixed, alphas, mode, errors.systematic)
    records = float(mixed.totals.sum())
    return Fit(
        positions=positions(found),
        ratios=mixed.shares * records,
        records=mixed.records,
        total=float(mixed.curve.values[-1]) * records,
        available=round(records),
        unseen=mixed.unseen,
        counted=counted,
        error=errors.words(alphas),
        alarms=_alarms(table, mixed, errors, found, crowded, counted, alphas),
    )


def _alarms(
    table: SketchTable,
    mixed: Mixture,
    errors: Errors,
    found: Float64,
    crowded: NDArray[np.bool_],
    counted: int | None,
    alphas: tuple[float, ...],
) -> tuple[str, ...]:
    """What the user should do something about."""
    out = []
    if crowded.any():
        where = ", ".join(f"{alphas[a]:g}" for a in np.flatnonzero(crowded))
        out.append(
            f"the scores crowd in one bin, which is taken whole for alpha={where}: sets are larger "
            f"than they need be; collect with {_finer(table, found[crowded])}"
        )
    if mixed.kept < 0.5:
        out.append(
            f"privacy noise hides {1 - mixed.kept:.0%} of what sets its label mix apart: its sets "
            "are nearer to those for the average mix; a larger epsilon or more records of its "
            "labels would help"
        )
    bare = (mixed.totals <= BARE * mixed.total_sds) & (mixed.total_sds > 0)
    if (share := float(mixed.weights[bare].sum())) > 0.05:
        out.append(
            f"{share:.0%} of its labels have so few records in the sketch that privacy noise hides "
            "them: their scores are not known, and the coverage may be off by as much"
        )
    worst = float(errors.mix.max())
    if counted is not None and worst > LARGE_MIX:
        out.append(
            f"its label mix rests on {counted} counted labels, which alone moves the coverage by "
            f"± {worst:.3f}; count more labels, or those of a group of similar sites"
        )
    return tuple(out)


def _finer(table: SketchTable, found: Float64) -> str:
    """What spreads scores that crowd below these thresholds."""
    end = "upper" if float(found.max()) > 0.5 else "lower"
    if not table.layout.warp.startswith(end):
        return f"warp={end!r}"
    return f"edges of your own near {float(found.max()):.4g}: bins=[0, …, 1]"


BARE = 4.0
"""Deviations of a noisy total below which it may as well be zero."""

LARGE_MIX = 0.03
"""Deviation of the coverage by the own label mix from which a warning is due."""
