"""Lines of the table of agreement."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedcover.experiments.readings import PUBLISHED
from fedcover.experiments.study import Agreement


def signed(difference: float) -> str:
    """A difference with its sign, unless it rounds to nothing."""
    text = f"{difference:+.3f}"
    return "0.000" if text in ("+0.000", "-0.000") else text


def number(
    figure: str, what: str, paper: float, ours: NDArray[np.float64], band: float
) -> Agreement:
    """A mean over repetitions beside a value read off a figure."""
    mean = float(ours.mean())
    return Agreement(
        figure,
        what,
        f"{paper:.3f}",
        f"{mean:.3f} ± {ours.std():.3f}",
        signed(mean - paper),
        abs(mean - paper) <= band,
        f"within {band:g}",
    )


def claim(
    figure: str,
    what: str,
    paper: str,
    ours: str,
    band: str,
    *,
    agrees: bool,
    difference: str = "",
) -> Agreement:
    """A claim in words beside what was found."""
    return Agreement(figure, what, paper, ours, difference, agrees, band)


def ordered(figure: str, low: NDArray[np.float64], high: NDArray[np.float64]) -> Agreement:
    """That Global covers less than DP-FedCP on average; says how often, too."""
    return claim(
        figure,
        "Global covers less than DP-FedCP",
        "yes",
        f"by {(high - low).mean():.3f}, in {100 * (low < high).mean():.0f} % of repetitions",
        "by at least 0.01",
        agrees=bool((high - low).mean() >= 0.01),
    )


def published(figure: str, coverage: Mapping[str, NDArray[np.float64]]) -> list[Agreement]:
    """What the paper shows of DP-FedCP beside its published settings; coverage by start q₀."""
    means = {q: float(v.mean()) for q, v in coverage.items()}
    best = min(means, key=lambda q: abs(means[q] - PUBLISHED))
    spread = max(means.values()) - min(means.values())
    return [
        claim(
            figure,
            "DP-FedCP as published, at the best q₀ tried",
            f"{PUBLISHED:.3f}",
            f"{means[best]:.3f} with q₀ = {best}",
            "within 0.02",
            agrees=abs(means[best] - PUBLISHED) <= 0.02,
            difference=signed(means[best] - PUBLISHED),
        ),
        claim(
            figure,
            "DP-FedCP as published, whatever q₀",
            "not stated, so any",
            "; ".join(f"q₀ = {q}: {mean:.3f}" for q, mean in means.items()),
            "means within 0.02 of each other",
            agrees=spread <= 0.02,
        ),
    ]
