"""Bounds that hold with a stated probability: by betting, and by the binomial law.

Steps are those of the proof in docs/certificate.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.certificate.result import Certificate, Float64, describe
from fedcover.position import TOP

TILTS = np.geomspace(0.01, 8, 16)
"""The λ among which an upper bound for a noisy count is the lowest."""


def surely_present(totals: Float64, sd: float, beta: float) -> Float64:
    """n_low ≤ n_y for all labels together with probability 1-β, from sub-Gaussian totals."""
    if sd == 0:
        return totals
    # Sub-Gaussian tail e^(-t²/2σ²), shared evenly among the labels: all bounds hold together. Too
    # low a bound is safe, as fewer records only weaken the test (steps 4, 10).
    return totals - sd * math.sqrt(2 * math.log(len(totals) / beta))


def weights(mass: Float64, present: Float64, variance: Float64, alpha: float) -> Float64:
    """The weight φ_y of one miss of label y, about mass_y/n_y: it may be anything ≥ 0.

    The best for labels that miss α/2 of their records: smaller where noise is large against n_y,
    zero where no record is sure.

    Parameters
    ----------
    mass
        λ·π_y, or λ·m_y/m: what a miss rate of one would cost, any shape that broadcasts.
    present
        Lower bounds of the records per label.
    """
    # Any φ ≥ 0 is valid (step 5): what follows decides how sharp the test is, not whether it is
    # right.
    g = alpha / 2
    n = np.maximum(present, 1)
    x = mass / n
    with np.errstate(divide="ignore"):
        # To leading order the expected wealth is highest where (τ²/n)b² + (1/x + g)b = 1, with b =
        # 1 - e^-φ; the root in the form that loses no digits for small τ.
        a = 1 / x + g
    b = 2 / (a + np.sqrt(a**2 + 4 * variance / n))
    # Where one miss costs much that order overshoots: b would reach 1 and φ infinity. The two caps
    # are the limits for large x and for noise that outweighs all n records.
    b = np.minimum(b, 1 - g / (1 + x))
    with np.errstate(divide="ignore"):
        phi = np.minimum(-np.log1p(-b), n * (1 - g) / variance)
    # A label of which no record is sure is not measured at all: it counts as missed (step 6).
    return np.where((present >= 1) & (mass > 0), phi, 0.0)


def shortfall(mass: Float64, present: Float64, phi: Float64, most: Float64 | float) -> Float64:
    """max over g in [0, most] of n·log(1 - g(1-e^-φ)) + mass·g, per label: what φ leaves open.

    The function is concave in g, so the maximum is where its slope is 0, or at an end.
    """
    # φ is about mass/n, so 1 - e^-φ by subtraction would have few digits left.
    b = -np.expm1(-phi)
    n = np.maximum(present, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Slope zero: n b/(1 - g b) = mass. In closed form, because a search that stopped short of
        # the maximum would understate it, and the certificate would promise too much.
        at = np.where(phi > 0, 1 / b - n / mass, np.inf)
    g = np.clip(np.where(mass > 0, at, 0.0), 0, most)
    return n * np.log1p(-g * b) + mass * g


def upper_rates(misses: Float64, variance: Float64, present: Float64, beta: float) -> Float64:
    """Upper bounds of the miss rates g_y, each wrong with probability ≤ β; 1 without records.

    Clopper and Pearson for exact counts. With noise, inverted from P(M + Z ≤ s) ≤
    e^{λs + λ²τ²/2}(1 - g(1-e^-λ))^n, whose lowest bound over λ is valid since all fall with s.
    """
    from scipy.special import betaincinv  # keeps `import fedcover` light

    n = np.maximum(present, 1)
    if not variance.any():
        seen = np.clip(misses, 0, n)
        rest = np.maximum(n - seen, 1e-300)
        # The g at which P(Bin(n, g) ≤ M) = β; where all records are misses, that is 1.
        rates = np.where(seen < n, betaincinv(seen + 1, rest, 1 - beta), 1.0)
    else:
        rates = np.ones(misses.shape)
        for tilt in TILTS:
            # The bound on P(M + Z ≤ s), set equal to β and solved for g.
            log = (math.log(beta) - tilt * misses - tilt**2 * variance / 2) / n
            rate = -np.expm1(np.minimum(log, 0.0)) / -math.expm1(-tilt)
            # Each bound is wrong only for s below a limit of its own, so the lowest is wrong below
            # the largest limit: one of these events, not their union (step 13).
            rates = np.minimum(rates, rate)
    return np.where(present >= 1, rates, 1.0)


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
    # A union bound over the levels, so that all hold together.
    beta = (1 - checks.real(confidence, "confidence", 0, 1, open_low=True)) / len(levels)
    ranks: list[int | None] = []
    for a in levels:
        k = np.arange(1, n + 1)
        enough = betainc(k, n - k + 1, 1 - a) <= beta  # P(Bin(n, 1-α) ≥ k)
        ranks.append(int(np.argmax(enough)) if enough.any() else None)
    return tuple(ranks)


def certified_alone(
    at: NDArray[np.int64], alphas: tuple[float, ...], confidence: float, spent: float = 0.0
) -> tuple[NDArray[np.int64], Certificate]:
    """Certified thresholds, (A,), of a site's own sorted positions, and what they promise.

    A part `spent` of β has gone into choosing them.
    """
    ranks = certified_rank(len(at), alphas, 1 - (1 - spent) * (1 - confidence))
    thresholds = np.array([TOP if k is None else at[k] for k in ranks], dtype=np.int64)
    over = [f"the {len(at)} calibration records of this site alone"]
    trusted = ["this site's records are independent and like those to come"]
    shows = "is the score of one of this site's records: do not publish it"
    statement = describe(alphas, 1 - confidence, over, trusted, shows)
    return thresholds, Certificate(confidence, statement)
