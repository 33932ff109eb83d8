"""Checks of user input, made before any work starts: each returns the clean value or raises."""

from __future__ import annotations

import math
import numbers
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover.errors import FedcoverError
from fedcover.inputs import Floats as Floats
from fedcover.inputs import Ints as Ints
from fedcover.inputs import array as array
from fedcover.inputs import as_float as as_float
from fedcover.inputs import column_names as column_names
from fedcover.inputs import labels as labels
from fedcover.inputs import shown

Seed = int | np.random.Generator | None

ROW_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may sum from 1: what half-precision softmax outputs reach."""

MOST_RECORDS = 10**15
MIX_ROUNDING = 1e-6  # how far shares of a known label mix may sum from 1
"""Counts up to which sums over sites stay exact in 64 bits and in floating point."""

MOST_CLASSES = 10**6
"""Classes up to which tables of one number per class and site are no burden."""

CLOSE_TO_ONE = 0.05
"""Row sums this far from 1 are probabilities that lost digits, and not logits."""

CHUNK_ELEMENTS = 1 << 15
"""Entries of a probability matrix handled at once: small enough to stay in the cache."""


def row_chunks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices that walk over the rows of a matrix in cache-sized pieces."""
    step = max(1, CHUNK_ELEMENTS // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def alphas(alpha: float | Sequence[float]) -> tuple[float, ...]:
    """One or several miscoverage levels α, each inside (0, 1), as a tuple."""
    given = [alpha] if isinstance(alpha, numbers.Real) else array(alpha, "alpha").ravel().tolist()
    allowed = "one number strictly between 0 and 1, or a list of different ones"
    if not given:
        raise FedcoverError("alpha is empty", allowed=allowed, fix="Give alpha=0.1, for example")
    levels = []
    for a in given:
        number = isinstance(a, numbers.Real) and not isinstance(a, bool)
        try:
            level = float(a) if number else math.nan
        except OverflowError:  # an integer beyond any float
            level = math.nan
        if not 0 < level < 1:
            raise FedcoverError(
                f"alpha is {shown(a)}",
                allowed=allowed,
                fix="alpha is the error rate: 0.1 asks for 90 %",
            )
        levels.append(float(a))
    if len(set(levels)) < len(levels):
        raise FedcoverError(
            f"alpha {levels} repeats a level", allowed=allowed, fix="Give each level once"
        )
    return tuple(levels)


def probabilities(probs: ArrayLike, what: str = "probs") -> Floats:
    """An (n, C) matrix of probabilities, float32 or float64, each row summing to 1; not copied."""
    p = _shaped(probs, what)
    for rows in row_chunks(*p.shape):
        part = p[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = part.sum(axis=1, dtype=np.float64)
        low = part.min(axis=1)
        good = (np.abs(sums - 1) <= ROW_SUM_TOLERANCE) & (low >= 0)
        if not good.all():
            k = int(np.argmin(good))
            row = rows.start + k
            if not np.isfinite(part[k]).all():
                raise _not_finite(what, row)
            if low[k] < 0:
                found = f"{what} row {row} has the negative entry {float(low[k]):.6g}"
            else:
                found = f"{what} row {row} sums to {float(sums[k]):.6g}"
            raise FedcoverError(
                found,
                allowed="rows of non-negative probabilities that sum to 1, "
                f"within {ROW_SUM_TOLERANCE:g}",
                fix="Divide every row by its sum: probs / probs.sum(axis=1, keepdims=True)"
                if _nearly(p)
                else "If these are logits, use from_logits or logits= (--logits at the command "
                "line)",
            )
    return p


def _nearly(p: Floats) -> bool:
    """Whether every row is non-negative and sums to about 1."""
    for rows in row_chunks(*p.shape):
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(p[rows].sum(axis=1, dtype=np.float64) - 1)
        if not (off <= CLOSE_TO_ONE).all() or not (p[rows] >= 0).all():
            return False
    return True


def logits(values: ArrayLike, what: str = "logits") -> Floats:
    """An (n, C) matrix of finite logits."""
    return matrix(values, what)


def matrix(values: ArrayLike, what: str) -> Floats:
    """A finite, non-empty (n, C) float matrix; half precision and integers are widened."""
    p = _shaped(values, what)
    for rows in row_chunks(*p.shape):
        finite = np.isfinite(p[rows]).all(axis=1)
        if not finite.all():
            raise _not_finite(what, rows.start + int(np.argmin(finite)))
    return p


def _shaped(values: ArrayLike, what: str) -> Floats:
    p = array(values, what)
    if p.ndim != 2 or p.shape[0] == 0 or p.shape[1] < 2:
        raise FedcoverError(
            f"{what} has shape {p.shape}",
            allowed="a matrix of shape (records, classes) with at least 1 record and 2 classes",
            fix="Give one row per record and one column per class",
        )
    return as_float(p, what)


def _not_finite(what: str, row: int) -> FedcoverError:
    return FedcoverError(
        f"{what} row {row} has a NaN or infinite entry",
        allowed="finite numbers",
        fix="Look at the model's output for that record",
    )


def unit_scores(scores: ArrayLike, what: str = "scores") -> NDArray[np.float64]:
    """A vector of nonconformity scores V_k in [0, 1], as float64."""
    v = array(scores, what)
    if v.ndim != 1:
        raise FedcoverError(
            f"{what} has shape {v.shape}",
            allowed="a vector with one score per record",
            fix="Use Site.from_probabilities to make scores from probabilities",
        )
    v = as_float(v, what).astype(np.float64, copy=False)
    bad = ~((v >= 0) & (v <= 1))
    if bad.any():
        k = int(np.argmax(bad))
        raise FedcoverError(
            f"{what}[{k}] is {v[k]:.6g}",
            allowed="finite numbers in [0, 1]",
            fix="Map your scores into [0, 1] with an increasing function; the sets stay the same",
        )
    return v


def counts(values: ArrayLike, n_classes: int | None, what: str) -> Ints:
    """A vector of label counts: whole, non-negative, at least one positive."""
    c = array(values, what)
    shape_ok = c.ndim == 1 and (n_classes is None or len(c) == n_classes)
    c = as_float(c, what) if shape_ok else np.empty(0)
    fits = (c >= 0) & (c <= MOST_RECORDS) & (c == np.floor(c))
    if not shape_ok or not fits.all() or c.sum() < 1:
        raise FedcoverError(
            f"{what} is {_short(values)}",
            allowed=f"{n_classes or 'one per class'} whole numbers from 0 to {MOST_RECORDS:.0e}, "
            "at least one positive",
            fix="Give the number of records of each label",
        )
    return c.astype(np.int64)


def distribution(values: ArrayLike, n_classes: int | None, what: str) -> NDArray[np.float64]:
    """Label probabilities or counts of one population, normalised to sum to 1."""
    p = array(values, what)
    shape_ok = p.ndim == 1 and (n_classes is None or len(p) == n_classes)
    p = as_float(p, what).astype(np.float64) if shape_ok else np.empty(0)
    if not shape_ok or not (np.isfinite(p) & (p >= 0)).all() or not (p > 0).any():
        raise FedcoverError(
            f"{what} is {_short(values)}",
            allowed=f"{n_classes or 'one per class'} finite numbers ≥ 0 with a positive sum",
            fix="Give label counts or label probabilities, one per class",
        )
    p = p / p.max()
    return p / p.sum()


def label_mix(
    values: ArrayLike, n_classes: int | None, what: str, *, known: bool = False
) -> tuple[NDArray[np.float64], Ints | None]:
    """Label shares, and the whole numbers they were counted from, if they were.

    With `known`, numbers that are neither whole nor shares that sum to 1 are refused.
    """
    shares = distribution(values, n_classes, what)
    raw = as_float(array(values, what), what)
    if (raw == np.round(raw)).all() and (raw <= MOST_RECORDS).all():
        return shares, raw.astype(np.int64)
    if known and abs(float(raw.sum()) - 1) > MIX_ROUNDING:
        raise FedcoverError(
            f"{what} sums to {float(raw.sum()):.6g} and is not in whole numbers",
            allowed="whole numbers of counted labels, or known shares that sum to 1",
            fix="A certificate must know which of the two they are: give counts as counted",
        )
    return shares, None


def whole(value: Any, what: str, least: int, most: float = sys.maxsize) -> int:
    """A whole number that is at least `least` (and fits into 63 bits)."""
    number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        span = f"≥ {least}" if most >= sys.maxsize else f"from {least} to {most}"
        above = number and value > most
        raise FedcoverError(
            f"{what} is {shown(value)}",
            allowed=f"a whole number, {least} and above"
            if most >= sys.maxsize
            else f"a whole number {span}",
            fix=f"Give a whole number {span}, for example {most if above else least}",
        )
    return int(value)


def real(value: Any, what: str, low: float, high: float, *, open_low: bool = False) -> float:
    """A finite number in [low, high], or in (low, high] with `open_low`."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        x = float(value) if number else math.nan
    except OverflowError:  # an integer beyond any float
        x = math.nan
    if not (low < x if open_low else low <= x) or x > high or not math.isfinite(x):
        above, sign = (f"above {low:g}", ">") if open_low else (f"{low:g} and above", "≥")
        span = f"{'(' if open_low else '['}{low:g}, {high:g}]"
        inner = min(low + 1, (low + high) / 2) if open_low else low
        raise FedcoverError(
            f"{what} is {shown(value)}",
            allowed=f"a finite number, {above}" if high == np.inf else f"a number in {span}",
            fix=f"Give a number {f'{sign} {low:g}' if high == np.inf else f'in {span}'}, "
            f"for example {inner:g}",
        )
    return x


def choice(value: Any, what: str, options: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        raise FedcoverError(
            f"{what} is {value!r}",
            allowed=" or ".join(repr(o) for o in options),
            fix="Check the spelling",
        )
    return str(value)


def flag(value: Any, what: str) -> bool:
    """True or False, and nothing that merely counts as one."""
    if not isinstance(value, (bool, np.bool_)):
        raise FedcoverError(
            f"{what} is {value!r}",
            allowed="True or False",
            fix=f"Write {what}=True or leave it out",
        )
    return bool(value)


def generator(seed: Seed, *purpose: str) -> np.random.Generator:
    """A random generator from a seed, a different stream for every purpose.

    The purposes keep streams apart that a user seeds alike: two sites with `seed=0`, or the
    calibration and the prediction of one site, must not share their random numbers.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is None:
        return np.random.default_rng()
    words = [zlib.crc32(p.encode()) for p in purpose]
    return np.random.default_rng([whole(seed, "seed", 0, np.inf), *words])


def _short(values: Any) -> str:
    text = np.array2string(np.asarray(values), threshold=8, edgeitems=3, precision=4)
    return " ".join(text.split())


GONE = {
    "mode": "Use certify=0.95 in calibrate or personalise: it promises the coverage with a stated "
    "probability",
    "public_counts": "Use Sketch(most_per_site=...) with unit='site', or unit='record'",
    "warp": "Leave it out: the standard bins resolve both ends and the middle of every score",
    "design": "Leave it out: noise is factorised, which suits every number of bins",
}
"""Options of version 0.1, and what takes their place."""


def refuse_gone(**given: object) -> None:
    """One clear error for an option that there is no more."""
    for name, value in given.items():
        if value is not None:
            raise FedcoverError(
                f"{name}={value!r}",
                allowed=f"no option {name}; it went with version 0.1",
                fix=GONE[name],
            )
