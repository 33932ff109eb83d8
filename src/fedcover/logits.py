"""From logits to probabilities."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from fedcover import checks
from fedcover.checks import Floats
from fedcover.errors import FedcoverWarning


def softmax(logits: ArrayLike, temperature: float = 1.0, what: str = "logits") -> Floats:
    """Class probabilities from logits, softmax(logits / temperature) row by row.

    Warns where two or more rows are all non-negative and sum to 1: a softmax was taken already.
    """
    temperature = checks.real(temperature, "temperature", 0, np.inf, open_low=True)
    z = checks.logits(logits, what)
    out = np.empty_like(z)
    normal = len(z) > 1
    for rows in checks.row_chunks(*z.shape):
        part = z[rows].astype(np.float64)
        normal = normal and _sums_to_one(part)
        with np.errstate(over="ignore"):  # a gap beyond the largest number is probability 0
            part -= part.max(axis=1, keepdims=True)
            part /= temperature
        np.exp(part, out=part)
        out[rows] = part / part.sum(axis=1, keepdims=True)
    if normal:
        warnings.warn(
            f"{what}: these look like probabilities already, every row is non-negative and sums "
            "to 1; give them as probabilities (without logits=, from_logits or --logits)",
            FedcoverWarning,
            stacklevel=3,
        )
    return out


def _sums_to_one(part: Floats) -> bool:
    if (part < 0).any():
        return False
    with np.errstate(over="ignore"):
        return bool((np.abs(part.sum(axis=1) - 1) <= checks.ROW_SUM_TOLERANCE).all())
