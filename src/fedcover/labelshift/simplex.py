"""Label mixes from quadratic forms: the best one, and draws around it, among all distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

STEPS = 400
"""Most steps of the splitting; 50 to 150 are usual."""

SETTLED = 1e-7
"""Change of a share below which the splitting stops."""


def minimise(form: Float64, pulls: Float64) -> Float64:
    """argmin ½ q'Pq - h'q over distributions q, for each row h of `pulls`, (R, C).

    Alternating direction splitting, all rows at once: one side solves the equations with Σq = 1,
    the other clips at 0. The coordinates are scaled to a form with a unit diagonal, because shares
    near 0 are known far better than large ones.

    Parameters
    ----------
    form
        (C, C) positive definite P.
    pulls
        (R, C) right-hand sides h.
    """
    scale = 1 / np.sqrt(np.diag(form))
    rho = 0.5
    solve = np.linalg.inv(form * np.outer(scale, scale) + rho * np.eye(len(form)))
    toward = solve @ scale
    toward /= scale @ toward
    fixed = (pulls * scale) @ solve
    z = np.maximum(fixed - np.outer(fixed @ scale - 1, toward), 0)
    u = np.zeros_like(z)
    for _ in range(STEPS):
        x = fixed + rho * (z - u) @ solve
        x -= np.outer(x @ scale - 1, toward)
        x = 1.6 * x - 0.6 * z
        new = np.maximum(x + u, 0)
        u += x - new
        moved = np.abs((new - z) * scale).max()
        off = np.abs((x - new) * scale).max()
        z = new
        if max(moved, off) < SETTLED:
            break
    q = z * scale
    return q / q.sum(axis=1, keepdims=True)


def noise(covariance: Float64, draws: int, rng: np.random.Generator) -> Float64:
    """Normal vectors (draws, C) of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    return rng.standard_normal((draws, len(values))) @ root.T
