"""Factorised noise: every number of misses, for the noise of about three counts.

A threshold rests on how many records score above it, a sum over all bins from the top. Noise on
single bins would add up along the way. So a site does not send the counts h of a row but D·h, with
D a square root of the sums: D² = L, where L adds up from the top. L·h is then (L·D⁻¹)·(D·h), and
both factors have short rows and columns. With r_0 = 1, r_k = r_{k-1}(2k-1)/(2k) on the
diagonals, a sum has noise σ·‖D's column‖·√Σ r_k² ≈ σ·(1.07 + ln(B)/π): 3.5 σ for 1840 bins
(Fichtenberger, Henzinger and Upadhyay 2023; Henzinger, Upadhyay and Upadhyay 2023).

What is sent are whole numbers: D is rounded to 1/4096, and everything below is computed from the
rounded factor, not from the formula.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

UNIT = 1 << 12
"""What the factor's entries are multiplied by before they are rounded."""

EXACT = 1 << 26
"""Records of one row below which a Fourier transform is off by less than .01: rounding mends it."""


@lru_cache(maxsize=16)
def coefficients(bins: int) -> Int64:
    """D's first column, UNIT·r_k rounded; D is lower triangular and constant along diagonals."""
    # Σ r_k x^k = (1-x)^(-1/2), whose square is 1 + x + x² + …: so D² = L.
    k = np.arange(1, bins)
    r = np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k)))
    # Whole numbers, because only for whole-number noise added to whole numbers is ε exact.
    return np.rint(UNIT * r).astype(np.int64)


@lru_cache(maxsize=16)
def reach(bins: int) -> float:
    """The norm of D's longest column: how far one record moves a row."""
    d = coefficients(bins)
    # A later column is the first one cut off below, so none is longer.
    return float(np.sqrt(np.sum(d.astype(np.float64) ** 2)))


@lru_cache(maxsize=16)
def recovery(bins: int) -> Float64:
    """First column of L·D⁻¹, which turns what was measured into sums from the top."""
    from scipy.signal import lfilter

    # L·D⁻¹ = D⁻¹·L, as both are lower triangular and constant along diagonals; its first column is
    # D⁻¹ of ones, a recursive filter. With the rounded D: sums are then unbiased, although D² is L
    # only nearly.
    ones = np.ones(bins)
    return np.asarray(lfilter([1.0], coefficients(bins).astype(np.float64), ones))


def measured(counts: Int64) -> Int64:
    """D·h for every row of counts, (rows, B) from the top; exact whole numbers."""
    bins = counts.shape[1]
    # A single wrong unit would be a change that the sensitivity does not count.
    if int(counts.sum(axis=1).max(initial=0)) >= EXACT:
        return np.stack([np.convolve(row, coefficients(bins))[:bins] for row in counts])
    from scipy.signal import fftconvolve

    d = coefficients(bins).astype(np.float64)[None]
    return np.rint(fftconvolve(counts.astype(np.float64), d, axes=1)[:, :bins]).astype(np.int64)


def sums(values: NDArray[np.generic]) -> Float64:
    """Sums from the top, (…, B), of what was measured, (…, B)."""
    from scipy.signal import fftconvolve

    v = np.asarray(values, dtype=np.float64)
    c = recovery(v.shape[-1]).reshape((1,) * (v.ndim - 1) + (-1,))
    return np.asarray(fftconvolve(v, c, axes=-1))[..., : v.shape[-1]]


def counts_of(values: NDArray[np.generic]) -> Float64:
    """Single bins, (…, B), of what was measured: noisy, and negative where noise outweighs them."""
    return np.diff(sums(values), axis=-1, prepend=0.0)


def windows(bins: int) -> tuple[int, ...]:
    """Over how many bins on either side sums may be averaged, the widest first: 3.5 % of all."""
    widest = bins * 64 // 1840
    # Halving tries every order of width in a few steps; 0 is the sums as they are.
    return (*(widest >> k for k in range(widest.bit_length())), 0)


@lru_cache(maxsize=64)
def sum_deviation(bins: int, window: int = 0) -> Float64:
    """(B,) deviation of each sum for noise of deviation 1 in what was measured.

    With a window, of the mean of the sums up to `window` bins away, as many on either side.
    """
    c = recovery(bins)
    if window == 0:
        # Sum i is Σ_j c_(i-j) of the measured numbers, whose noise is independent.
        return np.sqrt(np.cumsum(c**2))
    ahead = np.concatenate([[0.0], np.cumsum(c)])
    out = np.empty(bins)
    for i in range(bins):
        # The measured number j has in the mean of neighbouring sums the mean of as many of the c: a
        # difference of their running sums.
        w = min(window, i, bins - 1 - i)
        lag = i - np.arange(i + w + 1)
        part = ahead[lag + w + 1] - ahead[np.maximum(lag - w, 0)]
        out[i] = np.sqrt(part @ part) / (2 * w + 1)
    return out


@lru_cache(maxsize=64)
def ahead_deviation(bins: int, window: int) -> Float64:
    """(B,) deviation of the mean of a sum and the `window` next ones, which are no smaller."""
    c = recovery(bins)
    summed = np.concatenate([[0.0], np.cumsum(c)])
    out = np.empty(bins)
    for i in range(bins):
        # As above, but onward only: a mean over later sums, which hold no fewer misses, can make a
        # certificate weaker but never wrong (docs/certificate.md, step 6a).
        w = min(window, bins - 1 - i)
        lag = i + w - np.arange(i + w + 1)
        part = summed[lag + 1] - summed[np.maximum(lag - w, 0)]
        out[i] = np.sqrt(part @ part) / (w + 1)
    return out


@lru_cache(maxsize=16)
def count_deviation(bins: int) -> float:
    """Deviation of a single bin for noise of deviation 1 in what was measured."""
    # A bin is the difference of two sums; its noise is that of the difference of the c.
    back = np.diff(recovery(bins), prepend=0.0)
    return float(np.sqrt(back @ back))
