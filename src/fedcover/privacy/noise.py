"""Noise for what leaves a site, drawn from the operating system's randomness, never from a seed."""

from __future__ import annotations

import secrets
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def gaussian(sigma: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Gaussian noise N(0, σ²): the inverse distribution function of 53 random bits each."""
    from scipy.special import ndtri

    count = int(np.prod(shape))
    bits = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64) >> np.uint64(11)
    uniform = (bits.astype(np.float64) + 0.5) * 2.0**-53
    return sigma * ndtri(uniform).reshape(shape)


def discrete_gaussian(sigma: float, count: int) -> NDArray[np.int64]:
    """Exact discrete Gaussian noise N_Z(0, σ²): integers with P(z) ∝ exp(-z²/2σ²).

    Rejection from the discrete Laplace distribution in rational arithmetic (Canonne, Kamath,
    Steinke 2020, Algorithm 3): no floating-point number is involved.
    """
    variance = Fraction(sigma) ** 2
    return np.array([_discrete_gaussian(variance) for _ in range(count)], dtype=np.int64)


def _discrete_gaussian(variance: Fraction) -> int:
    scale = int(variance**0.5) + 1  # any positive integer is correct; near σ is fast
    while True:
        z = _discrete_laplace(scale)
        if _bernoulli_exp((abs(z) - variance / scale) ** 2 / (2 * variance)):
            return z


def _discrete_laplace(scale: int) -> int:
    """P(z) ∝ exp(-|z|/scale)."""
    while True:
        rest = secrets.randbelow(scale)
        if not _bernoulli_exp(Fraction(rest, scale)):
            continue
        turns = 0
        while _bernoulli_exp(Fraction(1)):
            turns += 1
        size, negative = rest + scale * turns, secrets.randbelow(2)
        if size or not negative:
            return -size if negative else size


def _bernoulli_exp(x: Fraction) -> bool:
    """True with probability e^{-x}, x ≥ 0."""
    while x > 1:
        if not _bernoulli_exp(Fraction(1)):
            return False
        x -= 1
    k = 1
    while secrets.randbelow(x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1
