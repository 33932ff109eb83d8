"""Noise for what leaves a site, from the operating system's randomness unless a source is given.

Integers are the safe kind: `discrete_gaussian` and `skellam` have exactly the law they name, and no
floating-point number decides anything: `sampling` has the exact comparisons with uniform bits.
Continuous noise exists only for methods that ask for it, as fine integer noise: see `gaussian`.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.privacy.sampling import Ints, candidates, law_of, poisson
from fedcover.privacy.sampling import exp_bounds as exp_bounds

Shape = int | tuple[int, ...]

MOST_SIGMA = 2**50  # so that 64 bits overflow with probability below e^{-4000}
MOST_SKELLAM = 10**9  # largest variance: the table grows with its square root
GRID_BITS = 30  # continuous noise is a multiple of σ/2³⁰
_CHUNK = 1 << 14  # candidates handled at once: small enough to stay in the cache


def discrete_gaussian(sigma: float | Fraction, shape: Shape, source: Randomness = SYSTEM) -> Ints:
    """Exact discrete Gaussian noise N_Z(0, σ²): integers with P(z) ∝ exp(-z²/2σ²).

    Parameters
    ----------
    sigma
        σ > 0, taken as the exact rational number it is, up to 2⁵⁰.
    shape
        How many, or the shape of the array.
    source
        Where the bytes come from.
    """
    return integer_gaussian(_fraction(sigma, "sigma", MOST_SIGMA) ** 2, shape, source)


def integer_gaussian(variance: float | Fraction, shape: Shape, source: Randomness = SYSTEM) -> Ints:
    """Exact discrete Gaussian noise N_Z(0, σ²), by its rational parameter σ².

    The method of Canonne, Kamath and Steinke (2020, Algorithms 1 to 3), for whole arrays: a
    candidate from the discrete Laplace distribution of scale t, kept with probability e^{-x}. With
    t = 2^s near σ the candidate is ±(Vt + U), V geometric and U uniform on 0..t-1, and its two
    rejections (of U in the Laplace law, and of the candidate) are one with
    x = U/t + (|Z| - σ²/t)²/2σ² = (V + U/t)² t²/2σ² - V + σ²/2t².
    """
    law = law_of(_fraction(variance, "variance", MOST_SIGMA**2))
    size, count = _size(shape)
    out, filled = np.empty(count, dtype=np.int64), 0
    while filled < count:
        # About two of five candidates are kept (see `law_of`), so one round is mostly enough.
        tried = min(_CHUNK, 64 + 5 * (count - filled) // 2)
        kept = candidates(law, tried, source)[: count - filled]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out.reshape(size)


def skellam(variance: float | Fraction, shape: Shape, source: Randomness = SYSTEM) -> Ints:
    """Exact Skellam noise: the difference of two Poisson numbers of mean variance/2 each.

    Sums of Skellam noise are Skellam noise, which discrete Gaussians lack. Each Poisson number is
    the inverse distribution function of a uniform one, its digits drawn as far as needed. The
    variance is taken as the exact rational number it is, up to 10⁹.
    """
    mean = _fraction(variance, "variance", MOST_SKELLAM) / 2
    size, count = _size(shape)
    return (poisson(mean, count, source) - poisson(mean, count, source)).reshape(size)


def gaussian(sigma: float, shape: Shape, source: Randomness = SYSTEM) -> NDArray[np.float64]:
    """Noise close to N(0, σ²), for methods that demand real numbers (the paper's Algorithm 1).

    Exactly a discrete Gaussian on the multiples of σ/2³⁰: its low-order bits carry nothing but the
    grid. But a value off the grid stays readable below it, noise or not (and floating-point sums
    round in ways that depend on the value), so noise from here added to arbitrary floats has its ε
    only in the idealisation of real arithmetic. `add_gaussian` does it right.

    Parameters
    ----------
    sigma
        Standard deviation σ > 0.
    shape
        How many, or the shape of the array.
    source
        Where the bytes come from.
    """
    grid = _grid(sigma)
    return integer_gaussian(Fraction(4**GRID_BITS), shape, source).astype(np.float64) * grid


def add_gaussian(
    values: ArrayLike, sigma: float, source: Randomness = SYSTEM
) -> NDArray[np.float64]:
    """Values plus Gaussian noise, the safe way: both on the grid, added as integers.

    Rounding moves each entry by at most half a grid step γ = σ/2³⁰, so d entries of Euclidean
    sensitivity Δ have the sensitivity Δ + γ√d afterwards: account for that, it is less than 10⁻⁶ σ
    up to a million entries. The sum is exact; turning it into floats touches no data again.
    Entries beyond ±2³¹ σ are cut off there, which moves no two of them apart.
    """
    reals = checks.as_float(checks.array(values, "values"), "values").astype(np.float64)
    if not np.isfinite(reals).all():
        raise FedcoverError(
            "values has a NaN or infinite entry",
            allowed="finite numbers",
            fix="Look at where they come from",
        )
    grid = _grid(sigma)
    with np.errstate(over="ignore"):
        # On the grid before noise is added: in floats the low-order bits of a sum tell the value
        # apart from others, whatever the noise (Mironov 2012).
        steps = np.rint(np.clip(reals / grid, -(2.0**61), 2.0**61)).astype(np.int64)
    steps += integer_gaussian(Fraction(4**GRID_BITS), reals.shape, source)
    return steps.astype(np.float64) * grid


def _grid(sigma: float) -> float:
    """The step of continuous noise; a power of two times σ, hence exact."""
    return math.ldexp(checks.real(sigma, "sigma", 1e-290, math.inf), -GRID_BITS)


def _fraction(value: float | Fraction, what: str, most: int) -> Fraction:
    if isinstance(value, (int, Fraction)) and not isinstance(value, bool) and 0 < value <= most:
        return Fraction(value)
    return Fraction(checks.real(value, what, 0, most, open_low=True))


def _size(shape: Shape) -> tuple[tuple[int, ...], int]:
    size = (shape,) if not isinstance(shape, tuple) else shape
    size = tuple(checks.whole(n, "shape", 0) for n in size)
    return size, math.prod(size)
