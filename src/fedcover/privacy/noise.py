"""Noise for what leaves a site, from the operating system's randomness unless a source is given.

Integers are the safe kind: `discrete_gaussian` and `skellam` have exactly the law they name, and no
floating-point number decides anything. Continuous noise exists only for methods that ask for it, as
fine integer noise: see `gaussian`.

Exact integers come from uniform bits by comparisons that cannot be off. NumPy computes with 64-bit
integers and knows how far it may be off; the few draws that lie too close to a boundary (about one
in 10,000, and all that would not fit into 64 bits) are settled by Python integers with as many
further random digits as it takes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.privacy.randomness import SYSTEM, Randomness, randbits

Ints = NDArray[np.int64]
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


@dataclass(frozen=True)
class Law:
    """What `candidates` needs of N_Z(0, σ²): t = 2^s, ρ = σ²/t², and 2^e just above 1/2ρ."""

    variance: Fraction
    s: int
    e: int
    inverse: int  # ⌊2^(24-e) / 2ρ⌋, below 2²⁴
    half: int  # ⌊2¹⁶ ρ/2⌋
    tiny: bool  # σ below 10⁻⁵ or so: left to Python


@lru_cache(maxsize=64)
def law_of(variance: Fraction) -> Law:
    """The law with this σ²; any t is correct, and σ/t in [¾, 1½) keeps 2 of 5 candidates."""
    s = e = 0
    while 4 * variance >= 9 * 4**s:
        s += 1
    rho = variance / 4**s
    while 2 * rho * 2**e <= 1:
        e += 1
    inverse = math.floor(Fraction(2**24, 2**e) / (2 * rho))
    return Law(variance, s, min(e, 36), inverse, math.floor(2**15 * rho), e > 36)


@lru_cache(maxsize=1)
def tables() -> tuple[NDArray[np.uint32], Ints, Ints]:
    """⌊2³² e^{-v}⌋ for v = 23 … 1, ⌊2³¹ e^{-k/2⁸}⌋ and ⌊2³¹ e^{-k/2¹⁶}⌋ for k = 0, 1, …."""

    steps = [exp_bounds(Fraction(v), 64)[0] >> 32 for v in range(23, 0, -1)]
    coarse = [exp_bounds(Fraction(k, 2**8), 63)[0] >> 32 for k in range(22 * 2**8 + 1)]
    fine = [exp_bounds(Fraction(k, 2**16), 63)[0] >> 32 for k in range(2**8)]
    coarse[0] = fine[0] = 2**31
    return np.array(steps, np.uint32), np.array(coarse), np.array(fine)


def candidates(law: Law, count: int, source: Randomness) -> Ints:
    """Those of `count` candidates that are kept."""
    steps, coarse, fine = tables()
    lot = np.frombuffer(source.take(4 * count), np.uint32)
    word = np.frombuffer(source.take(8 * count), np.int64)
    uniform = (word >> 33) & 0x7FFFFFFF
    below = word if law.s <= 32 else np.frombuffer(source.take(8 * count), np.int64)
    rest = below & ((1 << law.s) - 1)

    place = np.searchsorted(steps, lot, side="right")
    turns = len(steps) - place  # V: how many e^{-v} lie above the uniform number
    unclear = (steps[place - 1] == lot) | (turns >= 16) | law.tiny
    # (V + U/t)² with 31 fractional bits, at most 514 units too small, exact where t = 1 (e > 0)
    sum_ = (turns << 27) + (rest << 27 - law.s if law.s <= 27 else rest >> law.s - 27)
    square = (sum_ * sum_) >> 23
    # x in units of 2^-16: between `low` and `low + slack`
    low = ((square * law.inverse) >> (39 - law.e)) - (turns << 16) + law.half
    slack = (square >> (39 - law.e)) + 5
    np.maximum(low, 0, out=low)
    # e^{-x} in units of 2^-31: at most `chance + 4`, at least `chance` less what slack takes
    chance = (coarse[np.minimum(low >> 8, len(coarse) - 1)] * fine[low & 255]) >> 31
    kept = uniform < chance - ((chance * slack) >> 16) - 1
    unclear |= ~kept & (uniform < chance + 4)
    size: Ints = (turns << law.s) + rest
    for k in np.flatnonzero(unclear):
        size[k], kept[k] = settle(law, int(lot[k]), int(rest[k]), int(uniform[k]), source)
    # 0 comes with either sign and would be twice as probable: one of them is rejected.
    negative = (word >> 32) & 1 == 1
    kept &= ~(negative & (size == 0))
    kept_sizes: Ints = np.where(negative, -size, size)[kept]
    return kept_sizes


def settle(law: Law, lot: int, rest: int, uniform: int, source: Randomness) -> tuple[int, bool]:
    """|Z| and whether it is kept, from the digits already drawn and as many more as it takes."""
    number, turns = Uniform(lot, 32, source), 0
    while number.below_exp(Fraction(turns + 1)):
        turns += 1
    size = (turns << law.s) + rest
    x = size**2 / (2 * law.variance) - turns + law.variance / (2 * 4**law.s)
    return size, Uniform(uniform, 31, source).below_exp(x)


class Uniform:
    """A uniform number in [0, 1) whose binary digits are drawn only as far as they are needed."""

    def __init__(self, digits: int, count: int, source: Randomness) -> None:
        self.digits, self.count, self.source = digits, count, source

    def more(self) -> None:
        self.digits = self.digits << 64 | randbits(self.source, 64)
        self.count += 64

    def below_exp(self, x: Fraction) -> bool:
        """Whether it is below e^{-x}; over the digits not yet drawn, that has the right chance."""
        while x > 0:
            # Decided only where every way the digits may go on decides alike.
            low, high = exp_bounds(x, self.count)
            if self.digits + 1 <= low:
                return True
            if self.digits >= high:
                return False
            self.more()
        return True


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers around 2^bits e^{-x} for x ≥ 0, at most 3 apart.

    Taylor series of e^{-x/2^j}, squared j times, in fixed point with 64 + j guard bits: rounding
    costs a unit per term and is doubled by each squaring, far less than the guard bits hold.
    """
    # e^-x < 2^-bits then, as e > 2: between 0 and one unit.
    if x >= bits:
        return 0, 1
    j = math.ceil(x).bit_length() + 4
    one = bits + 64 + j
    small = math.floor(x * 2 ** (one - j))
    total = term = 1 << one
    k = 0
    while term:
        k += 1
        term = (term * small >> one) // k
        total += -term if k % 2 else term
    for _ in range(j):
        total = total * total >> one
    middle = total >> one - bits
    # Rounded down, so the number lies between `middle` and the next integer, but for what the guard
    # bits hide: one unit more on either side is enough.
    return max(middle - 1, 0), middle + 2


@lru_cache(maxsize=16)
def poisson_table(mean: Fraction, bits: int) -> tuple[int, list[int]]:
    """The first value k, and 2^bits P(N ≤ k) from there on, each wrong by less than 2.

    Weights relative to the mode, outwards until they vanish. N roundings of weights that only fall
    cost at most 4N² units in all, which 96 further bits make invisible.
    """
    mode = math.floor(mean)
    weights, k = [1 << bits + 96], mode
    while weights[-1]:
        k += 1
        weights.append(weights[-1] * mean.numerator // (mean.denominator * k))
    down, k = [weights[0]], mode
    while down[-1] and k:
        down.append(down[-1] * mean.denominator * k // mean.numerator)
        k -= 1
    weights = down[:0:-1] + weights
    # Divided by their own sum, so that no constant e^-mean is needed and the last entry is 2^bits
    # exactly.
    total, running, table = sum(weights), 0, []
    for weight in weights:
        running += weight
        table.append((running << bits) // total)
    return k, table


def poisson(mean: Fraction, count: int, source: Randomness) -> Ints:
    """Poisson numbers: where uniform ones of 63 digits, or more as needed, fall in the table."""
    first, table = poisson_table(mean, 63)
    # Tables end in 2⁶³, with which all cuts would be rounded floats. Past the last none is clear.
    cuts = np.array([-4, *(min(cut, 2**63 - 1) for cut in table[:-1]), 2**63 - 1], dtype=np.int64)
    uniform = np.frombuffer(source.take(8 * count), np.uint64).view(np.int64) & (2**63 - 1)
    place = np.minimum(np.searchsorted(cuts[1:], uniform, side="right"), len(cuts) - 2)
    clear = (uniform >= cuts[place] + 2) & (uniform < cuts[place + 1] - 2)
    values = first + place
    for k in np.flatnonzero(~clear):
        values[k] = settle_poisson(mean, Uniform(int(uniform[k]), 63, source))
    return values


def settle_poisson(mean: Fraction, number: Uniform) -> int:
    """The Poisson number in whose place a uniform number lies, once it has digits enough."""
    while True:
        first, table = poisson_table(mean, number.count)
        place = bisect_right(table, number.digits)
        above = place == 0 or number.digits >= table[place - 1] + 2
        if above and place < len(table) and number.digits + 1 <= table[place] - 2:
            return first + place
        number.more()
