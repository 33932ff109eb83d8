"""The two ways to a label mix from unlabelled records: EM and a measured confusion matrix (BBSE).

EM gives the likeliest mix if probabilities are right. `maximum_likelihood` is the plain estimate;
`Unlabelled` has a weak prior at the source, tempers the probabilities, and says how well the mix is
known.

BBSE goes by how often each label is predicted. `least_squares` is the plain estimate; `bbse` weighs
labels by what is known of them, with an error.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError, FedcoverWarning

Float64 = NDArray[np.float64]

STEPS = 400
"""Most steps of the splitting; 50 to 150 are usual."""

SETTLED = 1e-7
"""Change of a share below which the splitting stops."""

MOST_STEPS = 10_000
"""Steps after which EM alone gives up, with a warning."""


def _explaining(p: NDArray[np.floating], source: Float64) -> NDArray[np.bool_]:
    """The labels that the source has; refused where they explain no record."""
    seen: NDArray[np.bool_] = source > 0
    if not (p[:, seen] > 0).any():
        raise FedcoverError(
            "every record has probability 0 for all labels of source",
            allowed="predictions that the source's labels can explain",
            fix="Check that probs and source number the classes alike",
        )
    return seen


def _step(likelihood: Float64, q: Float64) -> Float64:
    """One step of EM: the mean posterior under the present mix.

    Each raises the likelihood, which is concave in q, so that the steps end at its maximum.
    """
    return q * ((1 / (likelihood @ q)) @ likelihood) / len(likelihood)


def maximum_likelihood(p: NDArray[np.floating], source: Float64, tolerance: float) -> Float64:
    """The likeliest mix by EM alone, until no share moves by more than the tolerance."""
    seen = _explaining(p, source)
    # Bayes: p(y|x)/s(y) ∝ P(x|y), all that label shift leaves unchanged at the target.
    likelihood = p[:, seen].astype(np.float64) / source[seen]
    # A factor per record cancels in every step, but could underflow. A record that no label can
    # explain says nothing.
    heard = likelihood.max(axis=1)
    likelihood = likelihood[heard > 0] / heard[heard > 0, None]
    q = source[seen] / source[seen].sum()
    for _ in range(MOST_STEPS):
        new = _step(likelihood, q)
        moved = np.abs(new - q).max()
        q = new / new.sum()
        if moved <= tolerance:
            break
    else:
        warnings.warn(
            f"EM has not settled after {MOST_STEPS} steps (last change {moved:.1g}): the records "
            "say little about some labels",
            FedcoverWarning,
            stacklevel=4,
        )
    out = np.zeros(len(source))
    out[seen] = q
    return out


def minimise(form: Float64, pulls: Float64) -> Float64:
    """argmin ½ q'Pq - h'q over distributions q, for each row h of `pulls`, (R, C).

    Alternating direction splitting, all rows at once: one side solves the equations with Σq = 1,
    the other clips at 0. The coordinates are scaled to a form with a unit diagonal, because shares
    near 0 are known far better than large ones.

    Parameters
    ----------
    form
        (C, C) positive definite P.
    pulls
        (R, C) right-hand sides h.
    """
    # One ρ for all coordinates works only if they are of one size.
    scale = 1 / np.sqrt(np.diag(form))
    rho = 0.5
    solve = np.linalg.inv(form * np.outer(scale, scale) + rho * np.eye(len(form)))
    # The way back onto Σ q = 1, in the metric of the form: q in scaled coordinates is scale·z.
    toward = solve @ scale
    toward /= scale @ toward
    fixed = (pulls * scale) @ solve
    z = np.maximum(fixed - np.outer(fixed @ scale - 1, toward), 0)
    u = np.zeros_like(z)
    for _ in range(STEPS):
        x = fixed + rho * (z - u) @ solve
        x -= np.outer(x @ scale - 1, toward)
        x = 1.6 * x - 0.6 * z
        new = np.maximum(x + u, 0)
        u += x - new
        moved = np.abs((new - z) * scale).max()
        off = np.abs((x - new) * scale).max()
        z = new
        if max(moved, off) < SETTLED:
            break
    q = z * scale
    return q / q.sum(axis=1, keepdims=True)


def noise(covariance: Float64, draws: int, rng: np.random.Generator) -> Float64:
    """Normal vectors (draws, C) of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    # Rounding makes zero eigenvalues slightly negative.
    root = vectors * np.sqrt(np.maximum(values, 0))
    return rng.standard_normal((draws, len(values))) @ root.T


@dataclass(frozen=True)
class Fit:
    """EM at one temperature: the mix, the form around it, and each record's likelihood ratios."""

    log_t: float
    q: Float64
    form: Float64
    pull: Float64
    ratios: Float64


class Unlabelled:
    """What is known of the target: predictions, probabilities, and a weak prior at the source."""

    def __init__(self, p: NDArray[np.floating], source: Float64) -> None:
        self.source = source
        self.seen = _explaining(p, source)
        keep = p[:, self.seen].max(axis=1) > 0
        self.predicted = p.argmax(axis=1)[keep]
        self.n = len(self.predicted)
        self.p = p[keep].astype(np.float64)
        self.rates = np.bincount(self.predicted, minlength=len(source)) / self.n
        # As wide as a Dirichlet of one record in all. A label that the source hardly has may still
        # be common here, so its share in the prior's width is at least half of even.
        c = len(source)
        middle = (source + 1 / c) / 2
        self.weak = np.diag(2 / (middle * (1 - middle)))

    def fit(self, log_t: float, start: Float64 | None = None) -> Fit:
        """The most likely mix for probabilities to the power 1/t, with the weak prior."""
        c = len(self.source)
        like = np.zeros_like(self.p)
        with np.errstate(divide="ignore"):
            # p(y|x)/s(y) ∝ P(x|y). Only the probabilities are tempered: what they are divided by is
            # the mix they are meant for.
            logs = np.log(self.p[:, self.seen]) * np.exp(-log_t) - np.log(self.source[self.seen])
        like[:, self.seen] = np.exp(logs - logs.max(axis=1, keepdims=True))
        weak, base = self.weak[np.ix_(self.seen, self.seen)], self.source[self.seen]
        like = like[:, self.seen]
        q = base.copy() if start is None else np.maximum(start[self.seen], 1e-6)
        q /= q.sum()

        def value(at: Float64) -> float:
            return float(
                np.log(np.maximum(like @ at, 1e-300)).sum() - (at - base) @ weak @ (at - base) / 2
            )

        # EM cannot leave the simplex or overshoot, but its last digits take thousands of steps;
        # Newton needs a good start, and a handful.
        for _ in range(20):
            q = _step(like, q)
            # A share of exactly 0 stays 0 for ever.
            q = np.maximum(q, 1e-9)
            q /= q.sum()
        best = value(q)
        for _ in range(25):  # Newton steps, shortened where they overshoot
            form, pull, ratios = _expand(like, q, weak, base)
            step = minimise(form, pull[None])[0] - q
            size = 1.0
            while size > 1e-4 and (new := value(q + size * step)) < best:
                size /= 2
            if size <= 1e-4:
                break
            q, gain, best = q + size * step, new - best, new
            if gain < 1e-4:
                break
        form, pull, ratios = _expand(like, q, weak, base)
        full, wide = np.zeros(c), np.zeros((self.n, c))
        full[self.seen], wide[:, self.seen] = q, ratios
        return Fit(log_t, full, form, pull, wide)

    def draws(
        self, fit: Fit, doubt: float, leaning: float, count: int, rng: np.random.Generator
    ) -> Float64:
        """Mixes around a fit: chance of the records, the prior, and doubt about probabilities."""
        z = rng.standard_normal((count, 1))
        # At two deviations, because the mix bends with t and the caller states two.
        down, up = (self.fit(fit.log_t + sign * 2 * doubt, fit.q).q for sign in (-1, 1))
        moved = np.where(z < 0, -z * (down - fit.q), z * (up - fit.q)) / 2
        _, lean = self.leverage(fit)
        # Errors in log p(y) are taken as independent between labels.
        moved[:, self.seen] += leaning * rng.standard_normal((count, len(lean))) @ lean.T
        # The form is the information of the records and the prior: noise of that covariance on the
        # right side gives solutions with its inverse, cut off at the edges of the simplex as they
        # should be.
        pulls = noise(fit.form, count, rng) + (fit.q + moved)[:, self.seen] @ fit.form
        out = np.zeros((count, len(self.source)))
        out[:, self.seen] = minimise(fit.form, pulls)
        return out

    def leverage(self, fit: Fit) -> tuple[Float64, Float64]:
        """How the seen labels' shares move with the records' scores, and with log p(y)."""
        inner: Float64 = np.asarray(np.linalg.inv(fit.form), dtype=np.float64)
        # Shares sum to 1: the direction along which they all grow is taken out of the inverse.
        inner -= np.outer(inner.sum(axis=0), inner.sum(axis=0)) / inner.sum()
        ratios = fit.ratios[:, self.seen]
        # The derivative of the likelihood's gradient Σ_x r_k(x) in log p(y).
        moved = np.diag(ratios.sum(axis=0)) - ratios.T @ ratios * fit.q[self.seen]
        return inner, inner @ moved


def _expand(
    like: Float64, q: Float64, weak: Float64, base: Float64
) -> tuple[Float64, Float64, Float64]:
    """The penalised log-likelihood around q as -½ x'Px + h'x, and the ratios f_y(x)/f(x)."""
    # Second order of Σ log(like @ q): gradient Σ r, curvature -Σ r r'. A quadratic form, so that
    # bounds at 0 and Σ q = 1 can be kept exactly.
    ratios = like / (like @ q)[:, None]
    form = ratios.T @ ratios
    pull = ratios.sum(axis=0) + form @ q + weak @ base
    return form + weak, pull, ratios


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
