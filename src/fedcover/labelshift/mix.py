"""A target's label mix from predictions, by the better founded of two ways, with its error.

EM believes the model's probabilities; BBSE believes only that P(prediction | label) is the same
everywhere, and needs a confusion matrix for that. Where there is one, it also tells how far the
probabilities can be believed:

1. The probabilities are taken to the power 1/t for which EM expects as many right predictions as
   the confusion matrix does; how well t is known is a part of EM's error.
2. EM's mix must then reproduce how often each label is predicted, the probabilities the recall of
   each label, and f_y(x)/f(x) must have mean 1 for labels that EM leaves out.

EM is taken if it passes and its error is the smaller one. Without a confusion matrix nothing in
unlabelled records can tell whether probabilities are right: any f(x | y) ∝ p(y | x)/s(y) explains
them equally well. EM's error then holds a doubt of a factor of two in t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.checks import Seed
from fedcover.errors import FedcoverError

Float64 = NDArray[np.float64]

STEPS = 400
"""Most steps of the splitting; 50 to 150 are usual."""

SETTLED = 1e-7
"""Change of a share below which the splitting stops."""


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


DOUBT = float(np.log(2))
"""Prior deviation of log t. Networks are commonly overconfident by t = 1.5 to 3."""

LEANING = 0.3
"""Prior deviation of log p(y) between labels: models favour some labels."""

WIDEST = float(np.log(8))
"""Largest |log t| that is tried."""

CONTRADICTED = 0.05
"""EM is dropped where it passes its test with a smaller probability than this."""


@dataclass(frozen=True)
class MixEstimate:
    """A label mix guessed from unlabelled records.

    Attributes
    ----------
    shares
        (C,) the estimate.
    draws
        (R, C) plausible mixes; their spread around `shares` is the error of the estimate.
    method
        "em" or "bbse".
    why
        Why this method, in one sentence.
    """

    shares: Float64
    draws: Float64
    method: str
    why: str

    def deviation(self, values: ArrayLike) -> Float64:
        """Error (one standard deviation) of Σ_y shares_y values_y; values (..., C), like F_y(q)."""
        off = np.asarray(values, dtype=np.float64) @ (self.draws - self.shares).T
        return np.sqrt((off**2).mean(axis=-1))


def guess_mix(
    probs: ArrayLike,
    *,
    source: ArrayLike | None,
    confusion: ArrayLike | None = None,
    confusion_sd: float = 0.0,
    draws: int = 200,
    seed: Seed = 0,
) -> MixEstimate:
    """Label mix of a target from its unlabelled predictions, with its error.

    Parameters
    ----------
    probs
        (n, C) predicted probabilities of the target's records.
    source
        (C,) label distribution for which the model's probabilities are meant: that of its training
        data. What the records leave open is drawn towards it.
    confusion
        (C, C) counts of predicted × true label on labelled records; with `confusion_sd`, noisy
        ones that may be negative.
    confusion_sd
        Standard deviation of the privacy noise in each cell of `confusion`.
    draws
        Number of plausible mixes to return.
    seed
        Of the draws. It is no privacy noise, so it may be fixed.
    """
    p = checks.probabilities(probs)
    n_classes = p.shape[1]
    if source is None:
        raise FedcoverError(
            "source is missing",
            allowed="the label distribution of the training data",
            fix="Give source=, for example the summed label counts of all sites",
        )
    s = checks.distribution(source, n_classes, "source")
    sd = checks.real(confusion_sd, "confusion_sd", 0, np.inf)
    draws = checks.whole(draws, "draws", 2)
    rng = checks.generator(seed, "guess_mix")
    table = None if confusion is None else _table(confusion, n_classes, sd)
    if table is None and sd > 0:
        raise FedcoverError(
            "confusion_sd is given without confusion", allowed="both or none", fix="Leave it out"
        )
    if n_classes == 1:
        return MixEstimate(np.ones(1), np.ones((draws, 1)), "em", "there is one label")
    view = _View(p, s)
    if table is None:
        fit = view.fit(0.0)
        leaning, wrong = LEANING, _overlooked(view, fit)
        why = (
            "there is no confusion matrix. Whether the probabilities are right cannot be seen from "
            "unlabelled records; the error allows for a factor of two in their temperature and "
            f"of {np.exp(LEANING):.2g} per label"
        )
        # Probabilities are believed less by as much as they contradict themselves.
        if wrong[0] < CONTRADICTED:
            leaning = max(leaning, wrong[1])
            why = (
                f"{why}. They do contradict themselves: some label is far less likely than it says"
            )
        return MixEstimate(fit.q, view.draws(fit, DOUBT, leaning, draws, rng), "em", why)
    rates = _Rates(table, sd)
    bbse, bbse_draws = _bbse(view, rates, draws, rng)
    log_t, doubt = _temperature(view, rates)
    fit = view.fit(log_t)
    chance, leaning = _agreement(view, fit, doubt, rates)
    em_draws = view.draws(fit, doubt, leaning, draws, rng)
    errors = [((d - q) ** 2).sum() for d, q in ((em_draws, fit.q), (bbse_draws, bbse))]
    verdict = f"of the probabilities to the power {np.exp(-log_t):.2g}, chance of a worse fit"
    if chance < CONTRADICTED:
        why = f"the confusion matrix contradicts EM ({verdict} {chance:.2g})"
        return MixEstimate(bbse, bbse_draws, "bbse", why)
    if errors[1] <= errors[0]:
        return MixEstimate(bbse, bbse_draws, "bbse", "it is better known than the probabilities")
    why = f"the confusion matrix agrees with EM ({verdict} {chance:.2g}), which is sharper"
    return MixEstimate(fit.q, em_draws, "em", why)


@dataclass(frozen=True)
class _Fit:
    """EM at one temperature: the mix, the form around it, and each record's likelihood ratios."""

    log_t: float
    q: Float64
    form: Float64
    pull: Float64
    ratios: Float64


class _View:
    """What is known of the target: predictions, probabilities, and a weak prior at the source."""

    def __init__(self, p: NDArray[np.floating], source: Float64) -> None:
        self.source = source
        self.seen = source > 0
        if not (p[:, self.seen] > 0).any():
            raise FedcoverError(
                "every record has probability 0 for all labels of source",
                allowed="predictions that the source's labels can explain",
                fix="Check that probs and source number the classes alike",
            )
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

    def fit(self, log_t: float, start: Float64 | None = None) -> _Fit:
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
            q = q * ((1 / (like @ q)) @ like) / self.n
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
        return _Fit(log_t, full, form, pull, wide)

    def draws(
        self, fit: _Fit, doubt: float, leaning: float, count: int, rng: np.random.Generator
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

    def leverage(self, fit: _Fit) -> tuple[Float64, Float64]:
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


class _Rates:
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


def _bbse(
    view: _View, rates: _Rates, count: int, rng: np.random.Generator
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


def _temperature(view: _View, rates: _Rates) -> tuple[float, float]:
    """log t with as many right predictions as the confusion matrix expects, and its error."""
    recall, variance = np.diag(rates.a), rates.recall()[1]

    def excess(log_t: float, start: Float64 | None) -> tuple[float, float, Float64]:
        fit = view.fit(log_t, start)
        at = view.predicted
        # Posterior of the predicted label: how often EM expects the prediction to be right.
        sure = fit.q[at] * fit.ratios[np.arange(view.n), at]
        error = sure.var() / view.n + fit.q**2 @ variance
        return float(sure.mean() - fit.q @ recall), float(np.sqrt(error)), fit.q

    low, high = -WIDEST, WIDEST
    middle, start = 0.0, None
    # Sharper probabilities (small t) expect more right predictions, so the sign says which way to
    # go; five halvings find the neighbourhood, a straight line does the rest.
    for _ in range(5):
        over, error, start = excess(middle, start)
        low, high = (middle, high) if over > 0 else (low, middle)
        middle = (low + high) / 2
    ends = [excess(middle + h, start)[0] for h in (-0.2, 0.2)]
    slope = max((ends[0] - ends[1]) / 0.4, 1e-9)
    middle += float(np.clip((ends[0] + ends[1]) / 2 / slope, low - middle, high - middle))
    doubt = error / slope
    # Two normal sources about log t, the prior around 0 and the confusion matrix: weights by their
    # precision.
    kept = DOUBT**2 / (DOUBT**2 + doubt**2)
    return middle * kept, float(doubt * np.sqrt(kept))


def _agreement(view: _View, fit: _Fit, doubt: float, rates: _Rates) -> tuple[float, float]:
    """How well EM's mix reproduces the predictions, and how far p(y) leans from label to label.

    Returns the chance of a worse fit, and the deviation of log p(y) over the labels: its prior is
    half Cauchy, and what EM's mix leaves unexplained decides.
    """
    from scipy.stats import chi2

    inner, lean = view.leverage(fit)
    a = rates.a[:, view.seen]
    # What one record moves of "observed minus explained" predictions: by its own prediction, and by
    # its pull on EM's mix. Both come from the same record, so they are not independent.
    each = -fit.ratios[:, view.seen] @ (inner @ a.T)
    each[np.arange(view.n), view.predicted] += 1 / view.n
    each -= each.mean(axis=0)
    other = view.fit(fit.log_t + doubt, fit.q)
    moved = rates.a @ (other.q - fit.q)
    spread = each.T @ each + rates.spread(fit.q) + np.outer(moved, moved)
    spread += np.eye(len(fit.q)) * 0.5 / view.n**2  # keeps labels never predicted finite
    # Whitened: then the squared distance is χ², with one degree less as shares sum to 1.
    root = np.linalg.inv(np.linalg.cholesky(spread))
    off = root @ (view.rates - rates.a @ fit.q)
    sizes, vectors = np.linalg.eigh(root @ a @ lean @ lean.T @ a.T @ root.T)
    off = vectors.T @ off
    scale = LEANING * np.exp(-fit.log_t)  # the doubt is about the probabilities as given
    tried = scale * np.geomspace(0.02, 20, 60)
    # Leaning of deviation τ stretches each principal direction to 1 + τ²·size.
    wide = 1 + np.outer(tried**2, np.maximum(sizes, 0))
    weight = (
        np.log(tried) - np.log1p((tried / scale) ** 2) - (np.log(wide) + off**2 / wide).sum(1) / 2
    )
    weight = np.exp(weight - weight.max())
    leaning = float(np.sqrt(weight @ tried**2 / weight.sum()))
    mix = chi2.sf(off @ off, len(off) - 1)
    # The recall of each label, by f_y(x)/f(x) over the target's records: it sees labels that EM
    # overlooked altogether.
    recall, worth = _implied_recall(view, fit)
    shift = _implied_recall(view, other)[0] - recall
    measured, variance = rates.recall()
    judged = view.seen & (worth >= 5)
    chosen = (measured * (1 - measured))[judged] / worth[judged]
    # Three sources of error: the recall as measured, the target's own records, the temperature.
    z = (recall - measured)[judged] ** 2 / (variance[judged] + chosen + shift[judged] ** 2 + 1e-12)
    chances = [mix, chi2.sf(z.sum(), judged.sum()), _overlooked(view, fit)[0]]
    # The smallest of three chances must be multiplied by three (Bonferroni).
    return min(1.0, len(chances) * float(min(chances))), leaning


def _overlooked(view: _View, fit: _Fit) -> tuple[float, float]:
    """Whether a label EM leaves out gets too little likelihood: its chance, and by how much.

    With right probabilities f_y(x)/f(x) has mean 1 over the target for every label y, present or
    not. Labels told by few records are left out: theirs is the mean of a heavy tail.
    """
    from scipy.stats import norm

    judged = view.seen & (_implied_recall(view, fit)[1] >= view.n / 10)
    if not judged.any():
        return 1.0, 0.0
    mean = fit.ratios[:, judged].mean(axis=0)
    error = np.maximum(fit.ratios[:, judged].std(axis=0), 1e-9) / np.sqrt(view.n)
    # Only too little counts against EM, and the worst of all labels was picked (Bonferroni).
    chance = judged.sum() * norm.sf((1 - mean) / error).min()
    return min(1.0, float(chance)), float(np.sqrt((np.log(np.maximum(mean, 1e-9)) ** 2).mean()))


def _implied_recall(view: _View, fit: _Fit) -> tuple[Float64, Float64]:
    """P(prediction = y | y) as the probabilities have it, and how many records say so."""
    sums = np.maximum(fit.ratios.sum(axis=0), 1e-300)
    at = view.predicted
    hits = np.bincount(at, fit.ratios[np.arange(view.n), at], len(fit.q))
    return hits / sums, sums**2 / np.maximum((fit.ratios**2).sum(axis=0), 1e-300)


def _table(confusion: ArrayLike, n_classes: int, sd: float) -> Float64:
    table = checks.as_float(checks.array(confusion, "confusion"), "confusion").astype(np.float64)
    fits = np.isfinite(table) & (np.abs(table) <= checks.MOST_RECORDS)
    if table.shape != (n_classes, n_classes) or not (fits & ((table >= 0) | (sd > 0))).all():
        raise FedcoverError(
            f"confusion has shape {table.shape}, or an entry that is not finite, too large, or "
            "negative without confusion_sd",
            allowed=f"a ({n_classes}, {n_classes}) table of counts, predicted × true",
            fix="Make it with labelshift.confusion; for a noisy one give confusion_sd",
        )
    if table.sum() <= 0:
        raise FedcoverError(
            f"confusion sums to {table.sum():g}",
            allowed="counts of labelled records, more than the noise hides",
            fix="Add labelled records or privacy budget, or leave confusion out",
        )
    return table
