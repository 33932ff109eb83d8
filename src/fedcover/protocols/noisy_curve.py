"""A distribution function from noisy histograms, and thresholds from it.

Bins have prior expectations; what noisy histograms say is weighed against them by their noise (a
linear Gaussian posterior), and the result is made monotone. Its deviation is known in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

PRIOR = 0.5
"""Prior variance of a bin's mass per width: loose, it matters only where noise drowns the data."""

MARGIN = {"balanced": 0.0, "guaranteed": 1.0}
"""Deviations of the curve that the level is raised by: noise then costs size, not coverage."""


TOO_MUCH = 1.5
"""A bin with this many times its expected mass, beyond noise, is cut up in the second round."""

HALVINGS = 10
"""Parts of the first or last bin, each half as wide as the one before: down to 1e-4."""


@dataclass(frozen=True)
class Grid:
    """Bins, and how much of the mass each is expected to hold before anything is seen."""

    edges: Float64
    expected: Float64


def first_grid(noise_sd: float, stops: tuple[float, ...]) -> Grid:
    """Even bins, more of them the smaller the noise of a bin, with a cut at 1-α/2 of every stop."""
    bins = int(np.clip(round(1.5 * noise_sd ** (-1 / 3)), 5, 64))
    edges = np.linspace(0, 1, bins + 1)
    edges = np.unique(np.append(edges, [1 - alpha / 2 for alpha in stops]))
    return Grid(edges, np.diff(edges))


@dataclass(frozen=True)
class Histogram:
    """A noisy histogram: shares of the total weight between edges, with the noise of each bin."""

    edges: Float64
    masses: Float64
    sd: float


@dataclass(frozen=True)
class Curve:
    """The distribution function at some scores, and how uncertain the noise leaves it."""

    scores: Float64
    values: Float64
    sd: Float64


def curve_of(grid: Grid, seen: list[Histogram]) -> Curve:
    """Posterior mean and deviation of the distribution function given all histograms.

    The masses of the bins have independent Gaussian priors around what the grid expects; every bin
    of a histogram is the sum of some of them, and all of them sum to 1.
    """
    rows, values, sds = [], [], []
    for s in seen:
        inside = np.searchsorted(s.edges, grid.edges[1:], side="left") - 1
        rows.append(np.eye(len(s.masses))[:, inside])
        values.append(s.masses)
        sds.append(np.full(len(s.masses), s.sd))
    return posterior_curve(
        grid, np.vstack(rows), np.concatenate(values), np.concatenate(sds), total_sd=1e-3
    )


def posterior_curve(
    grid: Grid, design: Float64, values: Float64, sds: Float64, total_sd: float
) -> Curve:
    """Posterior of the distribution function where `design` times the masses was measured.

    Parameters
    ----------
    grid
        Bins, and the prior mean of their masses.
    design
        (measurements, bins) what each measurement is the sum of.
    values, sds
        (measurements,) what was measured, and its noise.
    total_sd
        How far the masses may be from adding up to 1.
    """
    expected = grid.expected
    design = np.vstack([np.ones(len(expected)), design])
    values, sds = np.append(1.0, values), np.append(total_sd, sds)
    prior = PRIOR * expected
    gain = np.linalg.solve(design * prior @ design.T + np.diag(sds**2), design * prior).T
    masses = expected + gain @ (values - design @ expected)
    spread = np.diag(prior) - gain @ (design * prior)
    sums = np.diag(np.cumsum(np.cumsum(spread, axis=0), axis=1))  # of all bins below an edge
    sd = np.sqrt(np.maximum(sums, 0))
    return Curve(grid.edges, np.append(0, _monotone(np.cumsum(masses))), np.append(0, sd))


def _monotone(values: Float64) -> Float64:
    from scipy.optimize import isotonic_regression

    return np.clip(isotonic_regression(values).x, 0, 1)


def zoomed(grid: Grid, curve: Curve, alphas: tuple[float, ...], noise_sd: float) -> Grid:
    """The next grid: the same, but finer inside bins that hold a quantile and far too much mass.

    Scores crowd at the ends of [0, 1], so the first and the last bin are cut geometrically towards
    the end, others evenly. The parts of a bin are expected to share its mass equally.
    """
    bins = len(grid.expected)
    mass = np.diff(curve.values)
    fine = {
        int(np.clip(np.searchsorted(curve.values, 1 - alpha) - 1, 0, bins - 1)) for alpha in alphas
    }
    edges, expected = [np.zeros(1)], []
    for b in range(bins):
        low, high = grid.edges[b], grid.edges[b + 1]
        cuts = np.array([high])
        if b in fine and mass[b] > TOO_MUCH * grid.expected[b] + noise_sd:
            halves = (high - low) * 2.0 ** -np.arange(HALVINGS, 0, -1)
            if b == bins - 1:
                cuts = np.append(high - halves[::-1], high)
            elif b == 0:
                cuts = np.append(low + halves, high)
            else:
                cuts = np.linspace(low, high, bins + 1)[1:]
        edges.append(cuts)
        expected.append(np.full(len(cuts), grid.expected[b] / len(cuts)))
    return Grid(np.concatenate(edges), np.concatenate(expected))


def thresholds_on(
    curve: Curve, alphas: tuple[float, ...], query_share: Float64, mode: str
) -> Float64:
    """Where the curve reaches (1-α)(1 + w_y/W), (A, C).

    Balanced: on the line between two edges. Guaranteed: the first edge at which the curve less one
    standard deviation is there, because nothing is known of what happens between edges.
    """
    level = (1 - np.asarray(alphas)[:, None]) * (1 + query_share)
    lowered = np.maximum.accumulate(curve.values - MARGIN[mode] * curve.sd)
    if mode == "guaranteed":
        return np.append(curve.scores, 1.0)[np.searchsorted(lowered, level)]
    lowered = lowered + 1e-12 * np.arange(len(lowered))  # strictly growing, for the inverse
    return np.where(level > lowered[-1], 1.0, np.interp(level, lowered, curve.scores))
