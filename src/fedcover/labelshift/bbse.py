"""A label mix from how often each label is predicted, by a measured confusion matrix: BBSE.

`least_squares` is the plain estimate; `bbse` weighs labels by what is known of them, with an error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.labelshift.em import Float64, Unlabelled, minimise, noise


def checked_table(confusion: ArrayLike, n_classes: int, sd: float = 0.0) -> Float64:
    """A confusion matrix as given: counts; with noise of deviation `sd`, any numbers."""
    table = checks.as_float(checks.array(confusion, "confusion"), "confusion").astype(np.float64)
    fits = np.isfinite(table) & (np.abs(table) <= checks.MOST_RECORDS)
    if table.shape != (n_classes, n_classes) or not (fits & ((table >= 0) | (sd > 0))).all():
        raise FedcoverError(
            f"confusion has shape {table.shape}, or an entry that is not finite, too large, or "
            "negative without noise",
            allowed=f"a ({n_classes}, {n_classes}) table of counts, predicted × true",
            fix="Make it with labelshift.confusion; guess_mix takes a noisy one with confusion_sd",
        )
    if table.sum() <= 0:
        raise FedcoverError(
            f"confusion sums to {table.sum():g}",
            allowed="counts of labelled records, more than any noise hides",
            fix="Add labelled records or privacy budget, or use EM without confusion",
        )
    return table


def least_squares(p: NDArray[np.floating], table: Float64) -> Float64:
    """Least squares over distributions: predicted shares = Σ_y P(predicted | y) P*(y)."""
    from scipy.optimize import nnls

    # P(predicted | y) of a label without records is unknown; it gets no share.
    seen = table.sum(axis=0) > 0
    conditional = table[:, seen] / table[:, seen].sum(axis=0)
    predicted = np.bincount(p.argmax(axis=1), minlength=p.shape[1]) / len(p)
    anchor = 1e3  # a heavy row keeps the solution's sum at 1
    left = np.vstack([conditional, np.full(conditional.shape[1], anchor)])
    solution = np.zeros(len(predicted))
    solution[seen] = nnls(left, np.append(predicted, anchor))[0]
    return solution / solution.sum()


class Rates:
    """P(prediction | label) as measured, with the covariance of each label's column."""

    def __init__(self, table: Float64, sd: float) -> None:
        c = len(table)
        totals = table.sum(axis=0)
        clear = totals > max(0.5, 2 * sd * np.sqrt(c))
        # One record's worth of a typical column keeps a rare label's own from being certain. A
        # label whose total is not clearly above its noise is left to that and to the prior.
        overall = np.maximum(table.sum(axis=1), 0.5)
        # However well others are recognised, one that was never seen may not be: at most .9.
        right = float(np.clip(np.trace(table) / table.sum(), 0, 0.9))
        typical = right * np.eye(c) + (1 - right) * (overall / overall.sum())[:, None]
        kept = np.where(clear, table, 0)
        self.n = np.where(clear, totals, 0) + 1
        self.a = (kept + typical) / self.n
        clean = np.maximum(kept, 0) + typical
        self.clean = clean / clean.sum(axis=0)
        self.noise = np.where(clear, sd**2, 0) / self.n**2

    def recall(self) -> tuple[Float64, Float64]:
        """P(prediction = y | y) for each label, and its variance."""
        r, c = np.diag(self.clean), len(self.n)
        return r, r * (1 - r) / (self.n + 1) + self.noise * (1 - 2 * r + c * r**2)

    def spread(self, q: Float64) -> Float64:
        """Covariance (C, C) of Σ_y q_y Â_y for the error in Â."""
        a, c = self.clean, len(q)
        # Covariance of a Dirichlet column: (diag(a) - a a')/(n + 1), weighted with q².
        drawn = q**2 / (self.n + 1)
        added = q**2 * self.noise
        mixed = a @ added
        out = np.diag(a @ drawn + added.sum()) - (a * drawn) @ a.T
        return out - mixed[:, None] - mixed + c * (a * added) @ a.T

    def against(self, inverse: Float64) -> Float64:
        """tr(W⁻¹ Cov Â_y) for each label: by how much Â'W⁻¹Â is too large."""
        a, c = self.clean, len(self.n)
        inner = np.einsum("ay,ab,by->y", a, inverse, a, optimize=True)
        drawn = np.diag(inverse) @ a - inner
        added = np.trace(inverse) - 2 * inverse.sum(axis=0) @ a + c * inner
        return drawn / (self.n + 1) + added * self.noise


def bbse(
    view: Unlabelled, rates: Rates, count: int, rng: np.random.Generator
) -> tuple[Float64, Float64]:
    """Weighted least squares with errors in the confusion matrix (Fuller's corrected equations)."""
    q: Float64 = view.source
    for _ in range(4):
        # Half a record spread over all labels: one that is never predicted would have variance 0
        # and infinite weight.
        share = rates.clean @ q
        share = (view.n * share + 0.5 / len(q)) / (view.n + 0.5)
        chance = np.diag(share) - np.outer(share, share)
        covariance = chance / view.n + rates.spread(q)
        # Shares sum to 1, so the covariance is singular along 1; a term there makes it invertible.
        along = np.trace(covariance) / len(q)
        w = np.asarray(np.linalg.inv(covariance + along), dtype=np.float64)
        w -= 1 / (along * len(q) ** 2)
        seen: Float64 = rates.a.T @ w
        # Errors in Â add to Â'W⁻¹Â on average, which would flatten the solution; their part is
        # taken off. Directions of which nothing is left then are up to the prior.
        plain = seen @ rates.a
        values, vectors = np.linalg.eigh(plain - np.diag(rates.against(w)))
        form = (vectors * np.maximum(values, 0)) @ vectors.T + view.weak
        pull = seen @ view.rates + view.weak @ view.source
        q = minimise(form, pull[None])[0]
    return q, minimise(form, form @ q + noise(plain + view.weak, count, rng))
