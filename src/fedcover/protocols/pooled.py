"""Methods that send raw scores to the server: the paper's reference points, not for production.

- Unweighted Global (`Pooled`): all scores, equal weights; wrong under label shift.
- Oracle Weights: the true label distributions are known.
- Estimated Weights: they are estimated from label counts (eq. 10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.labelshift.exact import weights_at
from fedcover.labelshift.ratios import calibration_mixture, oracle_ratio, subsample_sizes
from fedcover.protocols.base import (
    AtServer,
    Fit,
    Float64,
    Message,
    Published,
    Round,
    ServerHalf,
    Target,
    Task,
    ask_all,
    counts_reply,
    read_counts,
    target_distribution,
    target_ratios,
)
from fedcover.quantile import WeightedSample, conformal_thresholds
from fedcover.site import Site


@dataclass(frozen=True)
class _Pool:
    """Everything the sites sent: scores, labels, and who they came from."""

    scores: Float64
    labels: NDArray[np.int64]
    label_counts: NDArray[np.int64]  # (sites, C), the counts M
    sizes: NDArray[np.int64]  # (sites,)

    def counts(self, n_classes: int) -> NDArray[np.int64]:
        return np.bincount(self.labels, minlength=n_classes).astype(np.int64)


class _ByPooling(AtServer):
    """One round: every site sends its scores, labels and counts."""

    shares_scores: ClassVar[bool] = True
    most_rounds: ClassVar[int] = 1
    reveals: ClassVar[str] = "every raw score and label of every site was sent to the server"

    def server(self, task: Task) -> ServerHalf:
        replies = yield ask_all(task, Message("scores"))
        return self.fit(task, self._pool(task, replies))

    def answer(self, query: Message, site: Site) -> Message:
        sent = counts_reply(site)
        records = {"scores": site.scores, "labels": site.labels}
        return Message("scores", {**sent.arrays, **records}, sent.numbers)

    def fit(self, task: Task, pool: _Pool) -> Published:
        raise AssertionError("each method defines its own")

    def _pool(self, task: Task, replies: Round) -> _Pool:
        label_counts, sizes = read_counts(task, replies)
        scores, labels = [], []
        for name, size in zip(task.sites, sizes, strict=True):
            sent = replies[name].arrays
            what = f"scores sent by site {name!r}"
            if not {"scores", "labels"} <= sent.keys():
                raise FedcoverError(
                    f"{what} are missing", allowed="scores and labels", fix="Leave that site out"
                )
            v = checks.unit_scores(sent["scores"], what)
            if len(v) != size:
                raise FedcoverError(
                    f"{what} are {len(v)}, its stated size is {size}",
                    allowed="as many scores as stated",
                    fix="Check that site's data, or leave it out",
                )
            scores.append(v)
            labels.append(checks.labels(sent["labels"], task.n_classes, what, n=len(v)))
        if getattr(self, "subsample", False):
            rng = checks.generator(task.seed, "subsample")
            for i, keep in enumerate(subsample_sizes(sizes, rng)):
                pick = rng.permutation(len(scores[i]))[:keep]
                scores[i], labels[i] = scores[i][pick], labels[i][pick]
        return _Pool(np.concatenate(scores), np.concatenate(labels), label_counts, sizes)


@dataclass(frozen=True)
class Pooled(_ByPooling):
    """Unweighted Global: the quantile of all sites' scores, each counted once (eq. 2)."""

    label: ClassVar[str] = "Global"
    guarantee: ClassVar[str] = (
        "1-α only if all sites share one label distribution; nothing under label shift"
    )

    def fit(self, task: Task, pool: _Pool) -> Published:
        ones = np.ones(task.n_classes)
        sample = WeightedSample(pool.scores, np.ones(len(pool.scores)))
        mixture = pool.counts(task.n_classes) / len(pool.labels)
        thresholds = conformal_thresholds(sample, task.alphas, ones)
        fit = Fit(thresholds, ones, mixture, len(pool.scores), sample.total)
        return dict.fromkeys((t.name for t in task.targets), fit)


class _Weighted(_ByPooling):
    """Thresholds of the weighted distribution μ̂_y (eq. 8), one per query label."""

    def ratios(self, task: Task, pool: _Pool) -> tuple[Float64, Float64]:
        """Likelihood ratios (targets, C) and the calibration mixture (C,)."""
        raise AssertionError("each method defines its own")

    def fit(self, task: Task, pool: _Pool) -> Published:
        ratios, mixture = self.ratios(task, pool)
        out = {}
        for target, w in zip(task.targets, ratios, strict=True):
            sample = WeightedSample(pool.scores, w[pool.labels])
            thresholds = conformal_thresholds(sample, task.alphas, w)
            out[target.name] = Fit(thresholds, w, mixture, len(pool.scores), sample.total)
        return out


@dataclass(frozen=True)
class EstimatedWeights(_Weighted):
    """Weighted quantile of pooled scores, with ratios ŵ estimated from label counts.

    subsample : use only N̄^i ∧ N^i records of each site, as in Theorem 2.4. Off by default: it
        serves the proof and costs half of the data.
    """

    subsample: bool = False
    label: ClassVar[str] = "Estimated weights"
    guarantee: ClassVar[str] = (
        "1-α up to the error of the estimated label distributions (Theorem 2.4), if records of one "
        "label look alike at all sites (label shift)"
    )

    def ratios(self, task: Task, pool: _Pool) -> tuple[Float64, Float64]:
        mixture = calibration_mixture(pool.label_counts, pool.sizes)
        return target_ratios(task, pool.label_counts, pool.sizes), mixture


@dataclass(frozen=True)
class OracleWeights(_Weighted):
    """Weighted quantile of pooled scores, with the true label distributions.

    priors : the true P^i, as {site name: (C,)} or a (sites, C) array in the order of the sites.
    weights : "ratio" for w_y = P*(y)/P_cal(y) (eq. 5), "exact" for the weights of Theorem 2.1.
    subsample : use only N̄^i ∧ N^i records of each site, as in Theorem 2.2; with "ratio" only.
    """

    priors: Mapping[str, ArrayLike] | ArrayLike
    weights: str = "ratio"
    subsample: bool = False
    label: ClassVar[str] = "Oracle weights"

    def __post_init__(self) -> None:
        checks.choice(self.weights, "weights", ["ratio", "exact"])
        if self.subsample and self.weights == "exact":
            raise FedcoverError(
                "weights='exact' with subsample=True",
                allowed="subsampling with weights='ratio' only",
                fix="Exact weights need no subsample",
            )

    @property
    def guarantee(self) -> str:
        if self.weights == "exact":
            return (
                "at least 1-α (Theorem 2.1) if the label distributions are as given and records "
                "of one label look alike at all sites"
            )
        return (
            "1-α up to O(log N / N) (Theorem 2.2) if the label distributions are as given and "
            "records of one label look alike at all sites"
        )

    def fit(self, task: Task, pool: _Pool) -> Published:
        fits = super().fit(task, pool)
        if self.weights == "ratio":
            return fits
        table = self._table(task)
        ordered = np.argsort(pool.scores, kind="stable")
        scores, labels = pool.scores[ordered], pool.labels[ordered]
        out = {}
        for target in task.targets:
            fit = fits[target.name]
            wanted = self._wanted(task, target, table, pool)
            thresholds = fit.thresholds.copy()
            for y in np.flatnonzero(wanted > 0):  # others cannot be the query's label
                seen = pool.counts(task.n_classes)
                seen[y] += 1
                p = weights_at(table, pool.sizes, wanted, seen, "auto")
                sample = WeightedSample(scores, p[labels])
                thresholds[:, y] = conformal_thresholds(sample, task.alphas, p[[y]])[:, 0]
            out[target.name] = replace(fit, thresholds=thresholds)
        return out

    def ratios(self, task: Task, pool: _Pool) -> tuple[Float64, Float64]:
        table = self._table(task)
        wanted = [self._wanted(task, t, table, pool) for t in task.targets]
        ratios = np.array([oracle_ratio(table, pool.sizes, w) for w in wanted])
        return ratios, calibration_mixture(table, pool.sizes)

    def _wanted(self, task: Task, target: Target, table: Float64, pool: _Pool) -> Float64:
        """P* of the target; of a group, the mixture of its sites by their label counts."""
        known = table * pool.label_counts.sum(axis=1, keepdims=True)
        total = target_distribution(task, target, known)
        return total / total.sum()

    def _table(self, task: Task) -> Float64:
        given = self.priors
        if isinstance(given, Mapping):
            missing = [s for s in task.sites if s not in given]
            if missing:
                raise FedcoverError(
                    f"priors has no entry for site {missing[0]!r}",
                    allowed="one label distribution per site",
                    fix="Add it, or use EstimatedWeights",
                )
            rows = [given[s] for s in task.sites]
        else:
            rows = list(np.atleast_1d(checks.array(given, "priors")))
        if len(rows) != len(task.sites):
            raise FedcoverError(
                f"priors has {len(rows)} rows for {len(task.sites)} sites",
                allowed="one row per site, in the order of the sites",
                fix="Or give a dictionary by site name",
            )
        return np.array([checks.distribution(r, task.n_classes, "priors") for r in rows])
