"""What models give, checked: tables of probabilities and logits, and vectors of scores.

What single precision or a few decimals do to them is mended here, and more is refused.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.inputs import Floats, array, as_float

ROW_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may sum from 1: what half-precision softmax outputs reach."""

LOST_DIGITS = 0.01
"""How far a row may sum from 1 where its probabilities were rounded; it is then divided by it."""

CLOSE_TO_ONE = 0.05
"""The same where the rounding of so many entries explains it, and no row may be further off."""

TINY = 1e-6
"""How far below 0, and scores above 1, the arithmetic of single precision may lead."""

CHUNK_ELEMENTS = 1 << 15
"""Entries of a probability matrix handled at once: small enough to stay in the cache."""


def row_chunks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices that walk over the rows of a matrix in cache-sized pieces."""
    step = max(1, CHUNK_ELEMENTS // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def probabilities(probs: ArrayLike, what: str = "probs") -> Floats:
    """An (n, C) matrix of probabilities, float32 or float64, each row summing to 1.

    It is copied only where something is mended: negative entries within rounding become 0, and
    rows that lost digits are divided by their sum, with a warning.
    """
    p = _shaped(probs, what)
    divided, furthest, mended = 0, 0.0, p
    for rows in row_chunks(*p.shape):
        part = p[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = part.sum(axis=1, dtype=np.float64)
        low, off = part.min(axis=1), np.abs(sums - 1)
        good = (off <= ROW_SUM_TOLERANCE) & (low >= 0)
        if good.all():
            continue
        for k in np.flatnonzero(~good):
            if not (low[k] >= -TINY and off[k] <= _rounding(part[k])):
                raise _no_probabilities(p, rows.start + int(k), what)
        if mended is p:
            mended = p.copy()
        part = np.maximum(mended[rows], 0)
        lost = off > ROW_SUM_TOLERANCE
        part[lost] /= part[lost].sum(axis=1, keepdims=True)
        mended[rows] = part
        divided, furthest = divided + int(lost.sum()), max(furthest, float(off.max()))
    if divided:
        warnings.warn(
            f"{what}: {divided:,} of {len(p):,} rows sum to 1 only within {furthest:.2g}, as "
            "rounded probabilities do; each was divided by its sum. Save more digits: rounding "
            "makes different records look alike, and sets a little larger",
            FedcoverWarning,
            stacklevel=3,
        )
    return mended


def _rounding(row: Floats) -> float:
    """How far from 1 the sum of a row may be that was rounded to the decimals seen in it."""
    row = row.astype(np.float64)
    if not np.abs(row).max() < 2:  # no probabilities at all
        return LOST_DIGITS
    exact = 1e-9 + 4 * float(np.finfo(np.float32).eps)  # decimals in single precision
    for decimals in range(1, 7):
        if np.abs(row - np.round(row, decimals)).max() <= exact:
            return min(CLOSE_TO_ONE, max(LOST_DIGITS, 0.5 * 10.0**-decimals * len(row)))
    return LOST_DIGITS


def _no_probabilities(p: Floats, row: int, what: str) -> FedcoverError:
    """The error for a row that is not one of probabilities, with what the table looks like."""
    entries = p[row]
    if not np.isfinite(entries).all():
        return _not_finite(what, row)
    with np.errstate(over="ignore"):
        total, low = float(entries.sum(dtype=np.float64)), float(entries.min())
    if low < -TINY:
        found = f"{what} row {row} has the negative entry {low:.6g}"
    else:
        found = f"{what} row {row} sums to {total:.6g}"
    if low < -TINY or entries.max() > 1 + CLOSE_TO_ONE:
        fix = (
            "These look like percentages: divide them by 100"
            if low >= 0 and abs(total - 100) < 100 * CLOSE_TO_ONE
            else "If these are logits, use from_logits or logits="
        )
    elif abs(total - 1) <= CLOSE_TO_ONE:
        fix = "Divide every row by its sum: probs / probs.sum(axis=1, keepdims=True)"
    elif total < 1:
        fix = "Check that every class has a column, and that not too many digits were cut off"
    else:
        fix = "Each column must be a class, and the classes must exclude each other"
    return FedcoverError(
        found,
        allowed=f"rows of non-negative probabilities that sum to 1, within {LOST_DIGITS:g}",
        fix=fix,
    )


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


def rows_of(values: ArrayLike, n_classes: int, what: str) -> NDArray[Any]:
    """New records as a matrix: one row alone is a batch of one, and a batch may be empty."""
    p = array(values, what)
    if p.ndim == 1 and len(p) == n_classes:
        return p[np.newaxis]
    if p.shape == (0,):
        return np.empty((0, n_classes))
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
    """A vector of nonconformity scores V_k in [0, 1], as float64; never out of it by rounding."""
    v = array(scores, what)
    if v.ndim == 2 and v.shape[1] == 1:
        v = v[:, 0]
    if v.ndim != 1:
        raise FedcoverError(
            f"{what} has shape {v.shape}",
            allowed="a vector with one score per record",
            fix="Use Site.from_probabilities to make scores from probabilities",
        )
    v = as_float(v, what).astype(np.float64, copy=False)
    bad = ~((v >= -TINY) & (v <= 1 + TINY))
    if bad.any():
        k = int(np.argmax(bad))
        high = np.isfinite(v).all() and v.min() >= 0
        raise FedcoverError(
            f"{what}[{k}] is {float(v[k])!r}",
            allowed="numbers from 0 to 1",
            fix=f"Divide the scores by a number that none can exceed, such as {_above(v.max())}, "
            "the same at every site; the sets stay the same"
            if high
            else "Map your scores into [0, 1] with an increasing function, the same at every "
            "site; the sets stay the same",
        )
    return np.clip(v, 0, 1) if ((v < 0) | (v > 1)).any() else v


def _above(value: float) -> str:
    """A round number above a value, which says no more of it than its size."""
    return f"{10.0 ** math.ceil(math.log10(value)):g}"
