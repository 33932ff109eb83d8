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

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
Seed = int | np.random.Generator | None

ROW_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may sum from 1: what half-precision softmax outputs reach."""

MOST_RECORDS = 10**15
"""Counts up to which sums over sites stay exact in 64 bits and in floating point."""

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
                f"alpha is {a!r}", allowed=allowed, fix="alpha is the error rate: 0.1 asks for 90 %"
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
                allowed="rows of non-negative probabilities that sum to 1",
                fix="If these are logits, use from_logits or logits=",
            )
    return p


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


def labels(values: ArrayLike, n_classes: int, what: str = "labels", n: int | None = None) -> Ints:
    """A vector of integer labels in 0..n_classes-1, as long as the data it belongs to."""
    y = array(values, what)
    if y.ndim != 1:
        raise FedcoverError(
            f"{what} has shape {y.shape}", allowed="a vector", fix="Give one label per record"
        )
    if n is not None and len(y) != n:
        raise FedcoverError(
            f"{what} has {len(y)} entries for {n} records",
            allowed="one label per record",
            fix="Check that both come from the same records in the same order",
        )
    allowed = f"integers from 0 to {n_classes - 1}"
    if y.dtype.kind == "f" and len(y) and (np.isfinite(y) & (y == np.floor(y))).all():
        y = np.clip(y, -1, n_classes).astype(np.int64)  # out of range stays out of range
    if y.dtype.kind not in "iu":
        raise FedcoverError(
            f"{what} has type {y.dtype} with values that are not whole numbers",
            allowed=allowed,
            fix="Number the classes from 0 in the order of the probability columns",
        )
    bad = (y < 0) | (y >= n_classes)
    if bad.any():
        k = int(np.argmax(bad))
        raise FedcoverError(
            f"{what}[{k}] is {y[k]}",
            allowed=allowed,
            fix="Number the classes from 0 in the order of the probability columns",
        )
    return y.astype(np.int64, copy=False)


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


def whole(value: Any, what: str, least: int, most: float = sys.maxsize) -> int:
    """A whole number that is at least `least` (and fits into 63 bits)."""
    number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        span = f"≥ {least}" if most == sys.maxsize else f"from {least} to {most}"
        raise FedcoverError(
            f"{what} is {value!r}", allowed=f"a whole number {span}", fix=f"Change {what}"
        )
    return int(value)


def real(value: Any, what: str, low: float, high: float, *, open_low: bool = False) -> float:
    """A finite number in [low, high], or in (low, high] with `open_low`."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    inside = number and (low < value if open_low else low <= value) and value <= high
    try:
        finite = number and math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        finite = False
    if not inside or not finite:
        span = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if high == np.inf else ']'}"
        raise FedcoverError(
            f"{what} is {value!r}", allowed=f"a number in {span}", fix=f"Change {what}"
        )
    return float(value)


def choice(value: Any, what: str, options: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        raise FedcoverError(
            f"{what} is {value!r}",
            allowed=" or ".join(repr(o) for o in options),
            fix="Check the spelling",
        )
    return str(value)


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


def array(values: Any, what: str) -> NDArray[Any]:
    """A regular array of real numbers or text."""
    try:
        result = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise FedcoverError(
            f"{what} is not an array ({type(values).__name__})",
            allowed="numbers in a regular array",
            fix="Check that all rows have the same length",
        ) from error
    if result.dtype.kind not in "biufUS":
        raise FedcoverError(
            f"{what} has type {result.dtype}", allowed="real numbers", fix="Convert it first"
        )
    return result


def as_float(values: NDArray[Any], what: str) -> Floats:
    """The same numbers as float32 or float64, copied only where they were neither."""
    if values.dtype in (np.float32, np.float64):
        return values
    if values.dtype.kind not in "iufb":
        raise FedcoverError(
            f"{what} has type {values.dtype}", allowed="real numbers", fix="Convert it first"
        )
    with np.errstate(over="ignore"):  # extended precision beyond float64 becomes infinite
        return values.astype(np.float32 if values.dtype == np.float16 else np.float64)


def _short(values: Any) -> str:
    text = np.array2string(np.asarray(values), threshold=8, edgeitems=3, precision=4)
    return " ".join(text.split())
