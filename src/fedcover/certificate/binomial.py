"""A site alone: which of its sorted scores is a certified threshold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.certificate.result import Certificate, words
from fedcover.position import TOP


def certified_rank(
    n_records: int, alpha: float | Sequence[float], confidence: float
) -> tuple[int | None, ...]:
    """Where the certified threshold stands among a site's scores in increasing order, per α.

    The k-th smallest of n scores covers less than 1-α with probability ≤ P(Bin(n, 1-α) ≥ k), with
    ties as without. No assumption about label shift. Several α hold together.

    Returns
    -------
    The index from 0, or None where n records are too few: only the full set is certified.
    """
    from scipy.special import betainc  # keeps `import fedcover` light

    n = checks.whole(n_records, "n_records", 0)
    levels = checks.alphas(alpha)
    beta = (1 - checks.real(confidence, "confidence", 0, 1, open_low=True)) / len(levels)
    found: list[int | None] = []
    for a in levels:
        k = np.arange(1, n + 1)
        enough = betainc(k, n - k + 1, 1 - a) <= beta  # P(Bin(n, 1-α) ≥ k)
        found.append(int(np.argmax(enough)) if enough.any() else None)
    return tuple(found)


def certified_alone(
    at: NDArray[np.int64], alphas: tuple[float, ...], confidence: float, spent: float = 0.0
) -> tuple[NDArray[np.int64], Certificate]:
    """Certified thresholds, (A,), of a site's own sorted positions, and what they promise.

    A part `spent` of β has gone into choosing them.
    """
    ranks = certified_rank(len(at), alphas, 1 - (1 - spent) * (1 - confidence))
    found = np.array([TOP if k is None else at[k] for k in ranks], dtype=np.int64)
    over = [f"the {len(at)} calibration records of this site alone"]
    trusted = ["this site's records are independent and like those to come"]
    shows = "is the score of one of this site's records: do not publish it"
    return found, Certificate(confidence, words(alphas, 1 - confidence, over, trusted, shows))
