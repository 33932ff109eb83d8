"""Coverage and set size of many methods on one draw of a federation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import methods
from fedcover.api import calibrate
from fedcover.engines.inprocess import InProcess
from fedcover.errors import FedcoverError
from fedcover.experiments.algorithm1 import Published
from fedcover.experiments.federations import Draw, Resampled, Simulated
from fedcover.experiments.study import Row
from fedcover.methods.base import Method
from fedcover.privacy.randomness import SYSTEM, Randomness, SeededBytes
from fedcover.privacy.statement import Privacy
from fedcover.scores import APS

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Competitor:
    """A method with its budget; `method` None: oracle weights, which need the draw's truth.

    certify : probability with which the coverage is to be at least 1-α; None for no certificate.
    """

    method: Method | None
    privacy: Privacy | None = None
    certify: float | None = None

    def thresholds(
        self, draw: Draw, alpha: float, seed: int, source: Randomness = SYSTEM
    ) -> Float64:
        """(C,) thresholds of the draw's target."""
        method = self.method
        if method is None:
            names = [s.name for s in draw.sites]
            method = methods.OracleWeights(priors=dict(zip(names, draw.priors, strict=True)))
        options = (draw.target, self.privacy, InProcess(source=source), seed, self.certify)
        calibrations = calibrate(draw.sites, alpha, method, *options)
        return calibrations[draw.target].thresholds[0]


ALPHA = 0.1
BUDGET = Privacy(2.0, 1e-5, view="secure-sum")

COMPETITORS: dict[str, Competitor | Published] = {
    "Local": Competitor(methods.Local()),
    "Global": Competitor(methods.Pooled()),
    "Oracle": Competitor(None),
    "Estimated": Competitor(methods.EstimatedWeights()),
    "DP-FedCP": Competitor(methods.DPFedCP()),
    "Sketch": Competitor(methods.Sketch()),
    "Sketch, ε = 2": Competitor(methods.Sketch(), BUDGET),
    "published, q₀ = 0": Published(0.0),
    "published, q₀ = 0.5": Published(0.5),
    "published, q₀ = 1": Published(1.0),
}
"""Every method that is compared, by the name that figures and tables give it."""


NUMBERS = ("coverage", "size", "threshold")
"""What is measured."""


def method_seed(seed: int, r: int) -> int:
    """Seed of what a method draws itself in repetition r: its subsample, noise on gradients."""
    return (seed << 32) + r


def rows_of(
    draw: Draw, competitors: Mapping[str, Competitor | Published], source: SeededBytes
) -> list[Row]:
    """One row for each method: coverage and mean set size at the target.

    Where a method refuses, its numbers are NaN. The source is that of the whole repetition, whose
    privacy noise is one stream; its two numbers seed what is drawn otherwise.
    """
    out, seed = [], method_seed(source.seed, source.repetition)
    for name, competitor in competitors.items():
        try:
            if isinstance(competitor, Published):
                limits = competitor.thresholds(draw, ALPHA, seed)
            else:
                limits = competitor.thresholds(draw, ALPHA, seed, source)
        except FedcoverError:
            if isinstance(competitor, Published) or competitor.privacy is None:
                raise
            limits = None  # too small a budget for so few records is refused before it is spent
        measured = (np.nan,) * 3
        if limits is not None:
            measured = draw.coverage(limits), draw.size(limits), float(limits.max())
        out.append({"method": name, **dict(zip(NUMBERS, measured, strict=True))})
    return out


def rows_by_score(
    scores: Mapping[str, APS], federation: Callable[[APS], Simulated | Resampled], seed: int, r: int
) -> list[Row]:
    """The rows of repetition r with each score, which the column u names, on a draw of its own."""
    rows, source = [], SeededBytes(seed, r)
    for s, (name, score) in enumerate(scores.items()):
        draw = federation(score).draw(np.random.default_rng([seed, r, s]))
        rows += [{"u": name, **row} for row in rows_of(draw, COMPETITORS, source)]
    return rows


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON holds them."""
    return {
        k: v if isinstance(v, (int, float, str, bool, list)) else str(v)
        for k, v in settings.items()
    }
