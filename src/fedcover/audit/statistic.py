"""What tells two data sets apart, learned on runs of its own; and numbers that need no learning.

A number that takes one value in every run on one data set and another on the other has no noise;
nor has the difference of two numbers with the same noise. `without_noise` finds both, however many
numbers there are. Everything else is left to a linear discriminant: the differences of the means,
whitened by the covariance within the data sets, so that numbers with little noise, or combinations
with little, count for much. Several discriminants are made, from bold to careful; other runs choose
among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

Statistic = Callable[[Float64], Float64]
"""From runs, (n, d), to a number for each."""

MOST_JOINT = 600
"""Numbers whose covariance is learned: the pilot picks those that differ most."""

SHRINKING = (1e-9, 1e-2)
"""What is added to the diagonal of the correlations: hardly anything finds combinations of numbers
with hardly any noise, more is better where numbers are many and runs are few."""

CLEAR = 4.0
"""Standard errors by which a mean differs clearly."""

MOST_VALUES = 400
"""Different runs up to which a table of their frequencies is learned."""


@dataclass(frozen=True)
class Exact:
    """A number, or the difference of two, that seems to have no noise.

    Attributes
    ----------
    what
        What it is, in words.
    number, other, factor
        The number less `factor` times the other one; the factor is 0 where there is no other.
    first, second
        What it was on either data set.
    """

    what: str
    number: int
    other: int
    factor: float
    first: float
    second: float

    def errors(self, runs: Float64, on_second: bool) -> int:
        """In how many other runs it is not what it was."""
        values = runs[:, self.number] - self.factor * runs[:, self.other]
        wanted = self.second if on_second else self.first
        # Differences of numbers with noise are rounded; what is moved is far more.
        return int((np.abs(values - wanted) > 1e-3 * abs(self.second - self.first)).sum())


def without_noise(first: Float64, second: Float64, names: Sequence[str]) -> list[Exact]:
    """Numbers, and differences of two, that are constant on either data set and differ.

    Parameters
    ----------
    first, second
        (n, d) runs on either data set.
    names
        (d,) how the numbers are called.
    """
    pair = (first, second)
    centred = [x - x[0] for x in pair]
    apart = second[0] - first[0]
    constant = np.all([(x == 0).all(axis=0) for x in centred], axis=0)
    found = [
        Exact(names[k], k, k, 0.0, float(first[0, k]), float(second[0, k]))
        for k in np.flatnonzero(constant & (apart != 0)).tolist()
    ]

    # Two numbers with the same noise, up to a factor, have the same standardised residuals.
    rest = np.flatnonzero(~constant)
    residuals = np.concatenate([x[:, rest] - x[:, rest].mean(axis=0) for x in centred])
    scale = np.linalg.norm(residuals, axis=0)
    # The sign is fixed by the run that is farthest from the mean: a small one could be rounding.
    far = residuals[np.abs(residuals).argmax(axis=0), np.arange(len(rest))]
    scale = np.where(far < 0, -scale, scale)
    shapes = np.rint(residuals / scale * 1e8).astype(np.int64)
    keys: dict[bytes, int] = {}
    for n, k in enumerate(rest.tolist()):
        one = keys.setdefault(shapes[:, n].tobytes(), n)
        if one == n:
            continue
        other, factor = int(rest[one]), float(scale[n] / scale[one])
        a, b = (float((x[:, k] - factor * x[:, other]).mean()) for x in pair)
        # Rounding is far smaller, and what is moved by less hides in it anyway.
        if abs(b - a) > 1e-6 * abs(scale[n]):
            what = f"{names[k]} less {factor:.4g} times {names[other]}"
            found.append(Exact(what, k, other, factor, a, b))
    return found


@dataclass
class Moments:
    """Mean and covariance of runs that arrive in batches.

    Attributes
    ----------
    origin
        (d,) subtracted first: a run, so that a constant number is exactly 0 and large ones keep
        their digits.
    """

    origin: Float64
    count: int = 0
    total: Float64 = field(init=False)
    products: Float64 = field(init=False)

    def __post_init__(self) -> None:
        d = len(self.origin)
        self.total, self.products = np.zeros(d), np.zeros((d, d))

    def add(self, runs: Float64) -> None:
        """More runs, (n, d)."""
        x = runs - self.origin
        self.count += len(x)
        self.total += x.sum(axis=0)
        self.products += x.T @ x

    @property
    def mean(self) -> Float64:
        return self.total / self.count

    @property
    def covariance(self) -> Float64:
        return self.products / self.count - np.outer(self.mean, self.mean)


def largest_differences(first: Float64, second: Float64) -> NDArray[np.int64]:
    """The numbers worth learning from: all, or those whose means differ most in some runs."""
    if first.shape[1] <= MOST_JOINT:
        return np.arange(first.shape[1])
    apart = np.abs(second.mean(axis=0) - first.mean(axis=0))
    spread = first.std(axis=0) + second.std(axis=0)
    clear = np.divide(apart, spread, out=np.where(apart > 0, np.inf, 0.0), where=spread > 0)
    return np.sort(np.argsort(-clear, kind="stable")[:MOST_JOINT])


def discriminants(first: Moments, second: Moments) -> list[Statistic]:
    """Linear statistics, from the boldest to the most careful."""
    apart = second.mean - first.mean
    within = (first.covariance + second.covariance) / 2
    spread = np.sqrt(np.maximum(np.diag(within), 0.0))
    moves = (spread > 0) | (apart != 0)
    if not moves.any():
        return []
    # A number without noise that differs must outweigh all others, not divide by zero.
    spread = np.where(spread > 0, spread, np.where(moves, np.abs(apart) * 1e-6, 1.0))
    difference, correlations = apart / spread, within / np.outer(spread, spread)
    standard_error = np.sqrt(1 / first.count + 1 / second.count)
    clear = moves & (np.abs(difference) > CLEAR * standard_error)

    weights = [np.where(moves, difference, 0.0)]
    for used in (moves, clear):
        k = np.flatnonzero(used)
        for shrinking in SHRINKING if len(k) else ():
            w = np.zeros(len(apart))
            joint = correlations[np.ix_(k, k)] + shrinking * np.eye(len(k))
            w[k] = np.linalg.solve(joint, difference[k])
            weights.append(w)
    return [_linear(first.origin, w / spread) for w in weights]


def _linear(origin: Float64, weights: Float64) -> Statistic:
    return lambda runs: (runs - origin) @ weights


def frequencies(first: Float64, second: Float64) -> Statistic | None:
    """The log-likelihood ratio of what is seen, where few different things are seen; else None."""
    head = np.concatenate([first[: 2 * MOST_VALUES], second[: 2 * MOST_VALUES]])
    if len(np.unique(head, axis=0)) > MOST_VALUES:
        return None
    values, inverse = np.unique(np.concatenate([first, second]), axis=0, return_inverse=True)
    if len(values) > MOST_VALUES:
        return None
    place = np.split(inverse.ravel(), [len(first)])
    counts = [np.bincount(p, minlength=len(values)) for p in place]
    ratio = np.log((counts[1] + 0.5) / (counts[0] + 0.5))
    known = {row.tobytes(): float(r) for row, r in zip(values, ratio, strict=True)}

    def statistic(runs: Float64) -> Float64:
        # What was never seen while learning says nothing.
        return np.array([known.get(row.tobytes(), 0.0) for row in np.ascontiguousarray(runs)])

    return statistic
