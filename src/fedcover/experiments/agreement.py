"""What the paper shows, and lines of the table that sets our results beside it.

The paper's values are read by eye off its figures; its text gives no numbers for them. (Plassier et
al., ICML 2023, Figures 1 to 3 and the violin plots of its appendix. Target .90.)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedcover.experiments.study import Agreement

Float64 = NDArray[np.float64]

SIMULATED = {"Global": 0.80, "Oracle": 0.90, "DP-FedCP": 0.90}
"""Figure 1: centres of the coverage histograms."""

CIFAR10 = {"Global": 0.845, "DP-FedCP": 0.90, "DP-FedCP sd": 0.015, "Local low": 0.78}
"""Figure 2, target agent 4."""

IMAGENET = {"Global": 0.825, "DP-FedCP": 0.90, "DP-FedCP sd": 0.008}
"""Figure 3a."""

SHIFT = {50: 0.90, 60: 0.885, 70: 0.866, 80: 0.846, 90: 0.825, 95: 0.815}
"""Figure 3c: coverage of Global by shift in per cent; DP-FedCP stays at .90."""

NOISE_SPREAD = {10: 0.01, 100: 0.04}
"""Figure 3b: spread of the coverage of DP-FedCP by σ_g, skewed to over-coverage."""

PUBLISHED = 0.90
"""Coverage of DP-FedCP in Figures 1 to 3, whose settings lack the start q₀."""


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
