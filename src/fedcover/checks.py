"""Checks of user input, made before any work starts: each returns the clean value or raises."""

from __future__ import annotations

import math
import numbers
import sys
import warnings
import zlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover.errors import FedcoverError, FedcoverWarning
from fedcover.inputs import Floats as Floats
from fedcover.inputs import Ints as Ints
from fedcover.inputs import array as array
from fedcover.inputs import as_float as as_float
from fedcover.inputs import labels as labels
from fedcover.inputs import shown
from fedcover.outputs import ROW_SUM_TOLERANCE as ROW_SUM_TOLERANCE
from fedcover.outputs import logits as logits
from fedcover.outputs import matrix as matrix
from fedcover.outputs import probabilities as probabilities
from fedcover.outputs import row_chunks as row_chunks
from fedcover.outputs import rows_of as rows_of
from fedcover.outputs import unit_scores as unit_scores

Seed = int | np.random.Generator | None

MOST_RECORDS = 10**15
MIX_ROUNDING = 1e-6  # how far shares of a known label mix may sum from 1
"""Counts up to which sums over sites stay exact in 64 bits and in floating point."""

MOST_CLASSES = 10**6
"""Classes up to which tables of one number per class and site are no burden."""


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
            raise FedcoverError(f"alpha is {shown(a)}", allowed=allowed, fix=_meant(a, level))
        levels.append(float(a))
    if len(set(levels)) < len(levels):
        raise FedcoverError(
            f"alpha {levels} repeats a level", allowed=allowed, fix="Give each level once"
        )
    return tuple(levels)


def _meant(given: Any, level: float) -> str:
    """What somebody may have meant by an α that cannot be."""
    rule = "alpha is the error rate: 0.1 asks for 90 %"
    if isinstance(given, str):
        return f"Give a number, without quotation marks; {rule}"
    if 2 <= level < 100:
        percent = level if level <= 50 else 100 - level
        return f"Give a share and no percentage: alpha={percent / 100:g}; {rule}"
    return rule


def asked_alphas(alpha: float | Sequence[float]) -> tuple[float, ...]:
    """The levels that a user asks for; a warning where the coverage may have been meant."""
    levels = alphas(alpha)
    for level in levels:
        if level > 0.5:
            warnings.warn(
                f"alpha={level:g} asks for sets that hold the true label in only "
                f"{100 * (1 - level):.3g} % of cases: did you mean alpha={1 - level:.3g}? "
                f"alpha is the error rate, 1 - the coverage",
                FedcoverWarning,
                stacklevel=3,
            )
    return levels


COVERAGES = ("confidence_level", "confidence", "coverage", "coverage_level", "target_coverage")
SAME_AS_ALPHA = ("significance", "significance_level", "error_rate", "miscoverage", "alphas")


def refuse_foreign(function: str, given: Mapping[str, object]) -> None:
    """One clear error for an argument that other libraries have; Python's own for the rest."""
    for name, value in given.items():
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if name in COVERAGES:
            share = float(value) / (100 if float(value) > 1 else 1) if number else 0.9  # type: ignore[arg-type]
            fix = f"alpha is 1 - that: write alpha={1 - share:.6g}"
        elif name in SAME_AS_ALPHA:
            fix = f"alpha is the same: write alpha={shown(value)}"
        else:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        raise FedcoverError(f"{name}={shown(value)}", allowed="alpha, the error rate", fix=fix)


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
            fix="Give label counts or label probabilities, one per class; of the labels of "
            "records, give numpy.bincount(labels, minlength=n_classes)",
        )
    p = p / p.max()
    return p / p.sum()


def refuse_level(given: Mapping[str, object]) -> None:
    """One clear error where somebody asks for another level when the thresholds are fixed."""
    if given.keys() & {"alpha", "level", *COVERAGES, *SAME_AS_ALPHA}:
        raise FedcoverError(
            f"{next(iter(given))} is given to predict_set",
            allowed="the levels that were calibrated: calibration.alpha",
            fix="Give alpha to calibrate or personalise; several levels at once cost no more",
        )
    refuse_foreign("predict_set", given)


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
            fix=nearest(value, options) if isinstance(value, str) else "Give one of these words",
        )
    return str(value)


def nearest(given: str, options: Sequence[str]) -> str:
    """What somebody may have meant by a word that is none of a few."""
    close = get_close_matches(given, options, n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?" if close else "Check the spelling"


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
