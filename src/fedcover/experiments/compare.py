"""Coverage and set size of many methods on one draw of a federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.experiments.federations import Draw
from fedcover.experiments.published import Published
from fedcover.experiments.study import Row
from fedcover.federation import calibrate
from fedcover.methods import OracleWeights
from fedcover.privacy.statement import Privacy
from fedcover.protocols.base import Method

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Competitor:
    """A method with its budget; `method` None: oracle weights, which need the draw's truth."""

    method: Method | None
    privacy: Privacy | None = None

    def thresholds(self, draw: Draw, alpha: float, seed: int) -> Float64:
        """(C,) thresholds of the draw's target."""
        method = self.method
        if method is None:
            names = [s.name for s in draw.sites]
            method = OracleWeights(priors=dict(zip(names, draw.priors, strict=True)))
        found = calibrate(
            draw.sites, alpha, method, targets=draw.target, privacy=self.privacy, seed=seed
        )
        return found[draw.target].thresholds[0]


def rows_of(
    draw: Draw, competitors: Mapping[str, Competitor | Published], alpha: float, seed: int
) -> list[Row]:
    """One row for each method: coverage and mean set size at the target."""
    out = []
    for name, competitor in competitors.items():
        limits = competitor.thresholds(draw, alpha, seed)
        out.append(
            {
                "method": name,
                "coverage": draw.coverage(limits),
                "size": draw.size(limits),
                "threshold": float(limits.max()),
            }
        )
    return out


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON holds them."""
    return {
        k: v if isinstance(v, (int, float, str, bool, list)) else str(v)
        for k, v in settings.items()
    }
