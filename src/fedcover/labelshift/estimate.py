"""A target's label mix from predictions, for sites with few or no labels; and groups of like sites.

Both estimators rest on the label-shift assumption: P(x | y) is the same everywhere.

- "em", maximum likelihood (Saerens, Latinne, Decaestecker 2002; Garg et al. 2020): re-weights the
  probabilities until they agree with their own mean. Sharper, but trusts the probabilities.
- "bbse", black-box shift estimation (Lipton, Wang, Smola 2018): how often the model predicts
  each class, un-mixed through its confusion matrix. Needs no calibrated probabilities.

`from_unlabelled` is either of them, without an error. `guess_mix` is the better founded of the two,
with its error. Where there is a confusion matrix, it also tells how far the probabilities can be
believed:

1. The probabilities are taken to the power 1/t for which EM expects as many right predictions as
   the confusion matrix does; how well t is known is a part of EM's error.
2. EM's mix must then reproduce how often each label is predicted, the probabilities the recall of
   each label, and f_y(x)/f(x) must have mean 1 for labels that EM leaves out.

EM is taken if it passes and its error is the smaller one. Without a confusion matrix nothing in
unlabelled records can tell whether probabilities are right: any f(x | y) ∝ p(y | x)/s(y) explains
them equally well. EM's error then holds a doubt of a factor of two in t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.checks import Seed
from fedcover.errors import FedcoverError
from fedcover.labelshift.estimators import (
    Fit,
    Float64,
    Rates,
    Unlabelled,
    bbse,
    checked_table,
    least_squares,
    maximum_likelihood,
)
from fedcover.members import checked_federation
from fedcover.site import Site

DOUBT = float(np.log(2))
"""Prior deviation of log t. Networks are commonly overconfident by t = 1.5 to 3."""

LEANING = 0.3
"""Prior deviation of log p(y) between labels: models favour some labels."""

WIDEST = float(np.log(8))
"""Largest |log t| that is tried."""

CONTRADICTED = 0.05
"""EM is dropped where it passes its test with a smaller probability than this."""


def confusion(probs: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Counts (C, C) of predicted class × true label; those of several sites add up."""
    p = checks.probabilities(probs)
    y = checks.labels(labels, p.shape[1], n=len(p))
    c = p.shape[1]
    cells = np.bincount(p.argmax(axis=1) * c + y, minlength=c * c)
    return cells.reshape(c, c).astype(np.int64)


def from_unlabelled(
    probs: ArrayLike,
    method: str = "em",
    *,
    source: ArrayLike | None = None,
    confusion: ArrayLike | None = None,
    tolerance: float = 1e-8,
) -> Float64:
    """Label distribution P* of a target, (C,), from its unlabelled predictions.

    Use it as a target: ``fc.calibrate(sites, targets={"clinic": from_unlabelled(...)})``.

    Parameters
    ----------
    probs
        (n, C) predicted probabilities of the target's records.
    method
        "em" (needs `source`) or "bbse" (needs `confusion`).
    source
        (C,) label distribution for which the model's probabilities are right: that of its training
        data.
    confusion
        (C, C) counts of predicted × true label on labelled data, summed over sites.
    tolerance
        "em" stops when no probability moves by more.
    """
    p = checks.probabilities(probs)
    checks.choice(method, "method", ["em", "bbse"])
    tolerance = checks.real(tolerance, "tolerance", 0, 1)
    if method == "em":
        if source is None:
            raise _missing("source", "the label distribution of the training data")
        return maximum_likelihood(p, checks.distribution(source, p.shape[1], "source"), tolerance)
    if confusion is None:
        raise _missing("confusion", "counts from labelshift.confusion, summed over sites")
    return least_squares(p, checked_table(confusion, p.shape[1]))


def _missing(name: str, meaning: str) -> FedcoverError:
    return FedcoverError(f"{name} is missing", allowed=meaning, fix=f"Give {name}=")


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
    table = None if confusion is None else checked_table(confusion, n_classes, sd)
    if table is None and sd > 0:
        raise FedcoverError(
            "confusion_sd is given without confusion", allowed="both or none", fix="Leave it out"
        )
    if n_classes == 1:
        return MixEstimate(np.ones(1), np.ones((draws, 1)), "em", "there is one label")
    view = Unlabelled(p, s)
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
    rates = Rates(table, sd)
    other, other_draws = bbse(view, rates, draws, rng)
    log_t, doubt = _temperature(view, rates)
    fit = view.fit(log_t)
    chance, leaning = _agreement(view, fit, doubt, rates)
    em_draws = view.draws(fit, doubt, leaning, draws, rng)
    errors = [((d - q) ** 2).sum() for d, q in ((em_draws, fit.q), (other_draws, other))]
    verdict = f"of the probabilities to the power {np.exp(-log_t):.2g}, chance of a worse fit"
    if chance < CONTRADICTED:
        why = f"the confusion matrix contradicts EM ({verdict} {chance:.2g})"
        return MixEstimate(other, other_draws, "bbse", why)
    if errors[1] <= errors[0]:
        return MixEstimate(other, other_draws, "bbse", "it is better known than the probabilities")
    why = f"the confusion matrix agrees with EM ({verdict} {chance:.2g}), which is sharper"
    return MixEstimate(fit.q, em_draws, "em", why)


def _temperature(view: Unlabelled, rates: Rates) -> tuple[float, float]:
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


def _agreement(view: Unlabelled, fit: Fit, doubt: float, rates: Rates) -> tuple[float, float]:
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


def _overlooked(view: Unlabelled, fit: Fit) -> tuple[float, float]:
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


def _implied_recall(view: Unlabelled, fit: Fit) -> tuple[Float64, Float64]:
    """P(prediction = y | y) as the probabilities have it, and how many records say so."""
    sums = np.maximum(fit.ratios.sum(axis=0), 1e-300)
    at = view.predicted
    hits = np.bincount(at, fit.ratios[np.arange(view.n), at], len(fit.q))
    return hits / sums, sums**2 / np.maximum((fit.ratios**2).sum(axis=0), 1e-300)


def group_sites(sites: Sequence[Site], groups: int) -> dict[str, list[str]]:
    """Put sites into at most `groups` clusters by total-variation distance of their label mixes.

    Returns group name -> names of its sites, ready as ``fc.calibrate(sites, targets=...)``. The
    clustering is agglomerative with average linkage; a group is named after its largest site.
    """
    sites = checked_federation(sites)
    if not 1 <= checks.whole(groups, "groups", 1) <= len(sites):
        raise FedcoverError(
            f"groups is {groups} for {len(sites)} sites",
            allowed=f"a whole number from 1 to {len(sites)}",
            fix="Ask for fewer groups",
        )
    if groups == len(sites):
        return {f"like {s.name}": [s.name] for s in sites}
    from scipy.cluster.hierarchy import fcluster, linkage

    # cityblock is twice the total variation distance, the measure in which R of eq. (9) counts what
    # a wrong mix costs.
    mixes = np.array([s.label_counts / s.label_counts.sum() for s in sites])
    tree = linkage(mixes, method="average", metric="cityblock")
    member = fcluster(tree, t=groups, criterion="maxclust")
    out: dict[str, list[str]] = {}
    for g in np.unique(member):
        inside = [s for s, m in zip(sites, member, strict=True) if m == g]
        largest = max(inside, key=lambda s: int(s.label_counts.sum()))
        out[f"like {largest.name}"] = [s.name for s in inside]
    return out
