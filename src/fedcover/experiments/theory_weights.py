"""The exact weights of Theorem 2.1 beside their approximations, and the price of a subsample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcover import bounds, labelshift
from fedcover.api import calibrate
from fedcover.experiments.federations import Draw, Simulated
from fedcover.experiments.study import Row
from fedcover.experiments.theory_run import row
from fedcover.labelshift.weights import oracle_ratio
from fedcover.methods import EstimatedWeights, OracleWeights
from fedcover.methods.base import Method
from fedcover.scores import APS

Float64 = NDArray[np.float64]

TOTALS = (21, 42, 105, 210, 420, 1050)
"""N: twenty records at agent 1 for one at agent 2, as in the simulated experiment."""

LARGE = (105, 420, 1050, 4200, 21_000)
"""N of the subsampling part."""


@dataclass(frozen=True)
class Scaled(Simulated):
    """The simulated federation with other numbers of records."""

    sizes: tuple[int, int] = (1000, 50)

    @classmethod
    def of(cls, total: int) -> Scaled:
        """N records in the paper's proportions."""
        small = total // 21
        return cls(APS(), sizes=(total - small, small))


def weight_rows(rng: np.random.Generator, seed: int) -> list[Row]:
    """By N: distance of approximate from exact weights, and the coverage that each gives."""
    out = []
    for total in TOTALS:
        draw = Scaled.of(total).draw(rng)
        out += _distances(draw, total)
        for name, method in _methods(draw).items():
            out.append(row("weights: coverage", name, total, _coverage(draw, method, seed)))
    return out


def _methods(draw: Draw) -> dict[str, Method]:
    return {
        "exact": OracleWeights(draw.priors, weights="exact"),
        "known ratios": OracleWeights(draw.priors),
        "estimated ratios": EstimatedWeights(),
    }


def _distances(draw: Draw, total: int) -> list[Row]:
    """Total variation ½ Σ_k |p_k - p'_k| to the exact weights, for a query of the likeliest label.

    Also the largest exact weight of a record, averaged over the query's label (Theorem 2.1).
    """
    sizes = np.array([len(s) for s in draw.sites])
    counts = np.stack([s.label_counts for s in draw.sites])
    target = draw.priors[1]
    largest = 0.0
    for y, share in enumerate(target):
        seen = counts.sum(axis=0) + (np.arange(len(target)) == y)
        exact = labelshift.exact_weights(draw.priors, sizes, 1, seen)
        largest += share * float(exact[seen > 0].max())
        if y != int(np.argmax(target)):
            continue
        others = {
            "known ratios": oracle_ratio(draw.priors, sizes, 1),
            "estimated ratios": labelshift.likelihood_ratio(counts, 1, sizes),
            "saddlepoint": labelshift.exact_weights(draw.priors, sizes, 1, seen, "saddlepoint"),
        }
        rows = [
            row("weights: distance", name, total, _apart(exact, w, seen))
            for name, w in others.items()
        ]
    return [*rows, row("weights: distance", "largest weight", total, largest)]


def _apart(exact: Float64, weights: Float64, seen: NDArray[np.int64]) -> float:
    return float(seen @ np.abs(exact - weights / (weights @ seen))) / 2


def subsample_rows(rng: np.random.Generator, seed: int) -> list[Row]:
    """By N: coverage with known ratios on all records and on the N̄ = ⌊N/2⌋ of Theorem 2.2."""
    out = []
    for total in LARGE:
        draw = Scaled.of(total).draw(rng)
        sizes = [len(s) for s in draw.sites]
        for name, half in (("all records", False), ("subsample", True)):
            method = OracleWeights(draw.priors, subsample=half)
            out.append(row("subsample", name, total, _coverage(draw, method, seed)))
        largest = float(oracle_ratio(draw.priors, sizes, 1).max())
        promised = bounds.theorem_2_2_subsampled(sizes, largest).total
        out.append(row("subsample", "Theorem 2.2", total, promised))
    return out


def _coverage(draw: Draw, method: Method, seed: int) -> float:
    found = calibrate(draw.sites, 0.1, method, targets=draw.target, seed=seed)
    return draw.coverage(found[draw.target].thresholds[0])
