"""Likelihood ratios w_y = P*(y) / P_cal(y): how much a calibration record of label y counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.checks import Seed
from fedcover.errors import FedcoverError

Float64 = NDArray[np.float64]

LARGEST = 1e100
"""Largest count, and inverse of the smallest share of a label, that ratios are computed for."""


def calibration_mixture(priors: ArrayLike, pi: ArrayLike) -> Float64:
    """P_cal(y) = Σ_i π_i P^i(y): the label distribution of the pooled calibration data.

    priors : (sites, C) label distributions or counts, each row normalised here.
    pi : (sites,) shares of the sites; the paper takes N^i/N. Normalised here.
    """
    rows = _rows(priors, "priors")
    shares = checks.distribution(pi, len(rows), "pi")
    return shares @ rows


def likelihood_ratio(
    counts: ArrayLike, target: int | ArrayLike, sizes: ArrayLike | None = None
) -> Float64:
    """Estimated likelihood ratios ŵ_y of a target, from label counts.

    Without `sizes` this is eq. (10), ŵ_y = M·M*_y / (M*·M_y), which pools the counts of all sites.
    With the calibration sizes N^i it is eq. (7) with π_i = N^i/N, which stays right when a site's
    count total is not in proportion to its calibration data. Both agree when it is. A label that
    no site has counted (M_y = 0) gets ŵ_y = 0.

    Parameters
    ----------
    counts
        (sites, C) label counts M^i_y.
    target
        The row of the target, or its own label counts or distribution, (C,).
    sizes
        (sites,) numbers of calibration records N^i.
    """
    table = _count_table(counts)
    wanted = _target(table, target)
    if sizes is None:
        mixture = table.sum(axis=0) / table.sum()
    else:
        mixture = calibration_mixture(table, sizes)
    return _divide(wanted, mixture)


def oracle_ratio(priors: ArrayLike, sizes: ArrayLike, target: int | ArrayLike) -> Float64:
    """True ratios w_y = P*(y) / Σ_i (N^i/N) P^i(y) from known label distributions, (sites, C)."""
    rows = _rows(priors, "priors")
    return _divide(_target(rows, target), calibration_mixture(rows, sizes))


def effective_size(ratios: ArrayLike, counts: ArrayLike) -> float:
    """(Σ_k w_k)² / Σ_k w_k² over all records: how many equally weighted records they are worth.

    Parameters
    ----------
    ratios
        (C,) weights of a record of each label.
    counts
        (C,) numbers of calibration records of each label.
    """
    w, c = _vector(ratios, "ratios"), _vector(counts, "counts")
    if w.shape != c.shape:
        raise FedcoverError(
            f"{len(w)} ratios for {len(c)} counts", allowed="as many of both", fix="One per class"
        )
    squares = float(c @ w**2)
    return float(c @ w) ** 2 / squares if squares > 0 else 0.0


def subsample_sizes(sizes: ArrayLike, rng: Seed) -> NDArray[np.int64]:
    """N̄^i ∧ N^i with (N̄^i) ~ Multinomial(⌊N/2⌋, N^i/N), the subsample of Theorem 2.2.

    The drawn records are nearly i.i.d. from the calibration mixture, which the proof needs. It
    costs half of the data, so no method here uses it unless asked to.
    """
    n = checks.counts(sizes, None, "sizes")
    if n.sum() < 2:
        raise FedcoverError(
            "one record in all", allowed="at least two records to take half of", fix="No subsample"
        )
    drawn = checks.generator(rng).multinomial(n.sum() // 2, n / n.sum())
    return np.minimum(n, drawn)


def _vector(values: ArrayLike, what: str) -> Float64:
    v = checks.as_float(checks.array(values, what), what).astype(np.float64)
    if v.ndim != 1 or not (np.isfinite(v) & (v >= 0)).all():
        raise FedcoverError(
            f"{what} has shape {v.shape} or an entry that is negative or not finite",
            allowed="a vector of finite numbers ≥ 0",
            fix="Give one number per class",
        )
    return v


def _divide(wanted: Float64, mixture: Float64) -> Float64:
    return np.divide(wanted, mixture, out=np.zeros_like(wanted), where=mixture > 1 / LARGEST)


def _count_table(counts: ArrayLike) -> Float64:
    table = checks.as_float(checks.array(counts, "counts"), "counts").astype(np.float64)
    valid = table.ndim == 2 and table.size and ((table >= 0) & (table <= LARGEST)).all()
    if not valid or not (table.sum(axis=1) > 0).all():
        raise FedcoverError(
            f"counts has shape {table.shape}, or a negative, non-finite or empty row",
            allowed=f"a (sites, classes) table of numbers from 0 to {LARGEST:g}, no row all zero",
            fix="Give the number of records of each label at each site",
        )
    return table


def _rows(priors: ArrayLike, what: str) -> Float64:
    table = _count_table(priors)
    return table / table.sum(axis=1, keepdims=True)


def _target(table: Float64, target: int | ArrayLike) -> Float64:
    if isinstance(target, (int, np.integer)) and not isinstance(target, bool):
        if not -len(table) <= target < len(table):
            raise FedcoverError(
                f"target is row {target}",
                allowed=f"a row from 0 to {len(table) - 1}",
                fix="Or give the target's own label counts",
            )
        return table[target] / table[target].sum()
    return checks.distribution(target, table.shape[1], "target")
