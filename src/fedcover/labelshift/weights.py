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
    target_shares = _target(table, target)
    if sizes is None:
        # Eq. (10): pooled counts, which weigh each site by its count total.
        mixture = table.sum(axis=0) / table.sum()
    else:
        # Eq. (7) with π_i = N^i/N: weights are for calibration records, so the denominator must be
        # their label distribution, whatever other data the labels were counted from.
        mixture = calibration_mixture(table, sizes)
    return _divide(target_shares, mixture)


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


def _divide(target_shares: Float64, mixture: Float64) -> Float64:
    # The indicator of eq. (10): a label that nobody counted has weight 0, and its records none.
    return np.divide(
        target_shares, mixture, out=np.zeros_like(target_shares), where=mixture > 1 / LARGEST
    )


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


LARGEST_GRID_BITS = 20
"""Up to 2^20 Fourier points `method="auto"` inverts exactly: a second or so of work."""


def exact_weights(
    priors: ArrayLike,
    sizes: ArrayLike,
    target: int | ArrayLike,
    label_counts: ArrayLike,
    method: str = "auto",
) -> Float64:
    """Exact weight of one record of each label (eq. 3), summing to 1 over all records.

    Parameters
    ----------
    priors
        (sites, C) label distributions P^i.
    sizes
        (sites,) numbers of calibration records N^i.
    target
        Row of the target site, or its label distribution P*, (C,).
    label_counts
        (C,) counts c_y of the calibration labels plus the query's label.
    method
        "fourier" (exact), "saddlepoint" (approximate), or "auto": exact as long as
        the inversion grid is small.

    Returns
    -------
    (C,) weights p_y with Σ_y c_y p_y = 1; zero for labels with c_y = 0.
    """
    rows = _rows(priors, "priors")
    n = checks.counts(sizes, len(rows), "sizes")
    target_shares = _target(rows, target)
    c = checks.counts(label_counts, rows.shape[1], "label_counts")
    checks.choice(method, "method", ["auto", "fourier", "saddlepoint"])
    if c.sum() != n.sum() + 1:
        raise FedcoverError(
            f"label_counts sum to {c.sum()} for {n.sum()} calibration records",
            allowed=f"a total of {n.sum() + 1}: the calibration records and the query",
            fix="Add one to the count of the query's label",
        )
    return weights_at(rows, n, target_shares, c, method)


def weights_at(
    rows: Float64, n: NDArray[np.int64], target_shares: Float64, c: NDArray[np.int64], method: str
) -> Float64:
    """`exact_weights` for checked input."""
    rows, n = rows[n > 0], n[n > 0]  # a site without records says nothing
    rows = np.where(rows > 1e-100, rows, 0.0)  # rounding dust, which would overflow below
    seen = c > 0
    foreign = seen & ~(rows > 0).any(axis=0)  # labels that no site can have: the query's alone
    if foreign.any() and c[foreign].sum() == 1 and target_shares[foreign] > 0:
        return foreign.astype(np.float64)
    if not _possible(rows, n, target_shares, c):
        raise FedcoverError(
            "label_counts are impossible under the given label distributions",
            allowed="counts that the sites and the target can have produced together",
            fix="Check that priors, sizes and label_counts belong to the same federation",
        )
    # Given that no other label occurs, each site draws from what is left of its distribution.
    sub = rows[:, seen] / rows[:, seen].sum(axis=1, keepdims=True)
    theta, shares = _tilt(sub, n, c[seen])
    log_p = theta.copy()  # Pr(S = c - e_y) ∝ e^{θ_y} Pr_tilted(S = c - e_y)
    # The tilted law has its centre at c·N/(N+1), so its probabilities at c - e_y are of one size:
    # small enough differences to leave out (saddlepoint), large enough numbers to compute
    # (Fourier).
    if method != "saddlepoint":
        widths = _grid(shares, n)
        bits = np.log2(widths).sum()
        if method == "fourier" and bits > LARGEST_GRID_BITS + 8:
            raise FedcoverError(
                f"method='fourier' would need 2^{bits:.0f} points",
                allowed=f"up to 2^{LARGEST_GRID_BITS + 8}: few labels",
                fix="Use method='saddlepoint'",
            )
        if method == "fourier" or bits <= LARGEST_GRID_BITS:
            log_p += np.log(np.maximum(_invert(shares, n, c[seen], widths), 1e-300))
    # p_y ∝ P*(y)·Pr(S = c - e_y)/c_y, in logarithms: single factors go beyond the range of floats.
    with np.errstate(divide="ignore"):
        log_w = np.log(target_shares[seen]) + log_p - np.log(c[seen])
    w = np.exp(log_w - log_w.max())
    out = np.zeros(len(c))
    out[seen] = w / (w @ c[seen])
    return out


def _possible(
    rows: Float64, n: NDArray[np.int64], target_shares: Float64, c: NDArray[np.int64]
) -> bool:
    """Whether sites and query can have the label counts c: a flow from each to its labels."""
    owners = np.vstack([rows, target_shares])
    if (owners > 0).all() or c.sum() >= 2**31:  # beyond the flow solver's integers: not checked
        return True
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    # Source → owners (N^i records, one for the query) → labels they can have → sink (c_y): the
    # counts are possible if all c records get through.
    supply, (k, m) = np.append(n, 1), owners.shape
    site, label = np.nonzero(owners)
    start = np.concatenate([np.zeros(k, int), 1 + site, 1 + k + np.arange(m)])
    end = np.concatenate([1 + np.arange(k), 1 + k + label, np.full(m, 1 + k + m)])
    room = np.concatenate([supply, supply[site], c]).astype(np.int32)
    graph = coo_array((room, (start, end)), shape=(k + m + 2, k + m + 2)).tocsr()
    return int(maximum_flow(graph, 0, k + m + 1).flow_value) == int(c.sum())


def _tilt(rows: Float64, n: NDArray[np.int64], c: NDArray[np.int64]) -> tuple[Float64, Float64]:
    """θ and the tilted rows P^i(y) e^{θ_y} / Z_i whose expected counts are c·N/(N+1).

    Alternating scaling of rows and columns (iterative proportional fitting) on the sites × labels
    table; the tilt exists whenever c can occur.
    """
    aim = c * (n.sum() / c.sum())
    tilt = np.ones(len(c))
    shares = rows
    for _ in range(10_000):
        expected = n @ shares
        # A tilt without end means that some labels' counts are forced; they then are certain.
        if np.abs(expected - aim).max() <= 1e-10 * aim.max() or tilt.min() < 1e-100:
            break
        tilt *= aim / expected
        # A common factor changes no row, but would grow without end.
        tilt /= tilt.max()
        shares = rows * tilt
        shares /= shares.sum(axis=1, keepdims=True)
    return np.log(tilt), shares


def _grid(shares: Float64, n: NDArray[np.int64]) -> NDArray[np.int64]:
    """Points per label (the largest left out) at which the inversion has no visible aliasing.

    A count stays within 13 standard deviations plus 40 of its mean up to probabilities far
    below rounding error, and never exceeds the records that can carry the label.
    """
    spread = np.sqrt(n @ (shares * (1 - shares)))
    most = (n @ (shares > 0)) + 1
    widths = np.minimum(most, np.ceil(26 * spread + 80)).astype(np.int64)
    return np.delete(widths, _dropped(shares, n))


def _dropped(shares: Float64, n: NDArray[np.int64]) -> int:
    """The label whose count follows from the others: the one with the widest spread."""
    return int(np.argmax(n @ (shares * (1 - shares))))


def _invert(
    shares: Float64, n: NDArray[np.int64], c: NDArray[np.int64], widths: NDArray[np.int64]
) -> Float64:
    """Pr_tilted(S = c - e_y) for every y, by summing the characteristic function on a grid."""
    drop = _dropped(shares, n)
    others = np.delete(np.arange(len(c)), drop)
    if not len(others):
        return np.ones(1)
    total = np.zeros(len(c))
    points = int(np.prod(widths))
    step = max(1, (1 << 20) // len(n))
    for start in range(0, points, step):
        index = np.unravel_index(np.arange(start, min(start + step, points)), widths)
        angle = np.stack([2 * np.pi * k / m for k, m in zip(index, widths, strict=True)])
        turn = np.exp(1j * angle)
        phi = np.ones(angle.shape[1], dtype=complex)
        for row, size in zip(shares, n, strict=True):
            # Records of a site are independent: its characteristic function is a power of one
            # record's. The count of the label left out follows from the others, so it needs no axis
            # of its own.
            phi *= (row[drop] + row[others] @ turn) ** int(size)
        base = phi * np.exp(-1j * (c[others] @ angle))  # the dropped label gives up one record
        total[drop] += base.real.sum()
        total[others] += (turn @ base).real
    return total / points
