"""Coverage and set size of many methods on one draw of a federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcover.experiments.federations import Draw
from fedcover.experiments.study import Row
from fedcover.federation import calibrate
from fedcover.privacy.statement import Privacy
from fedcover.protocols.base import Method


@dataclass(frozen=True)
class Competitor:
    """A method with its budget; `method` may need the draw's true label distributions."""

    method: Method | None
    privacy: Privacy | None = None


def rows_of(
    draw: Draw, competitors: Mapping[str, Competitor], alpha: float, seed: int
) -> list[Row]:
    """One row for each method: coverage and mean set size at the target."""
    out = []
    for name, competitor in competitors.items():
        method = competitor.method
        if method is None:
            from fedcover.methods import OracleWeights

            names = [s.name for s in draw.sites]
            method = OracleWeights(priors=dict(zip(names, draw.priors, strict=True)))
        cal = calibrate(
            draw.sites,
            alpha,
            method,
            targets=draw.target,
            privacy=competitor.privacy,
            seed=seed,
        )[draw.target]
        limits = cal.thresholds[0]
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
