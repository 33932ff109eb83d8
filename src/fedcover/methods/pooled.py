"""Methods that send raw scores to the server: the paper's reference points, not for production.

- Unweighted Global (`Pooled`): all scores, equal weights; wrong under label shift.
- Oracle Weights: the true label distributions are known.
- Estimated Weights: they are estimated from label counts (eq. 7 with π_i = N^i/N).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.labelshift.weights import oracle_ratio, subsample_sizes, weights_at
from fedcover.methods.base import (
    Fit,
    Float64,
    Message,
    Published,
    Round,
    ServerHalf,
    ServerMethod,
    Target,
    Task,
    ask_all,
)
from fedcover.methods.replies import (
    Counts,
    counts_reply,
    estimated_guarantee,
    read_counts,
    read_positions,
    reply_of,
    target_counts,
    target_ratios,
    weighted_fit,
)
from fedcover.position import Positions
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.quantile import WeightedSample, conformal_positions
from fedcover.site import Site


@dataclass(frozen=True)
class _Pool:
    """Everything the sites sent: positions and labels of the records used, and all counts."""

    positions: Positions
    labels: NDArray[np.int64]
    counts: Counts
    used: NDArray[np.int64]  # (sites,) records used of each site


class _ByPooling(ServerMethod):
    """One round: every site sends its scores, labels and counts."""

    subsample: bool = False
    shares_scores: ClassVar[bool] = True
    most_rounds: ClassVar[int] = 1
    reveals: ClassVar[str] = "every raw score and label of every site was sent to the server"

    def server(self, task: Task) -> ServerHalf:
        replies = yield ask_all(task, Message("scores"))
        return self.fit(task, self._pool(task, replies))

    @classmethod
    def answer(cls, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        records = {"positions": site.positions, "labels": site.labels}
        return Message("scores", {**counts_reply(site).arrays, **records})

    def fit(self, task: Task, pool: _Pool) -> Published:
        raise AssertionError("each method defines its own")

    def _pool(self, task: Task, replies: Round) -> _Pool:
        counts = read_counts(task, replies)
        used = counts.sizes
        scores, labels = [], []
        for name, size in zip(task.sites, used, strict=True):
            sent = reply_of(replies, name).arrays
            what = f"scores sent by site {name!r}"
            if "labels" not in sent:
                raise FedcoverError(
                    f"{what} come without labels",
                    allowed="scores and labels",
                    fix="Leave that site out",
                )
            scores.append(read_positions(replies, name, "positions", (int(size),)))
            labels.append(checks.labels(sent["labels"], task.n_classes, what, n=int(size)))
        if self.subsample:
            rng = checks.generator(task.seed, "subsample")
            used = subsample_sizes(used, rng)
            for i, keep in enumerate(used):
                # At random, because nothing is known of the order in which a site holds its
                # records.
                pick = rng.permutation(len(scores[i]))[:keep]
                scores[i], labels[i] = scores[i][pick], labels[i][pick]
        return _Pool(np.concatenate(scores), np.concatenate(labels), counts, used)


@dataclass(frozen=True)
class Pooled(_ByPooling):
    """Unweighted Global: the quantile of all sites' scores, each counted once (eq. 2)."""

    label: ClassVar[str] = "Global"
    guarantee: ClassVar[str] = (
        "1-α only if all sites share one label distribution; nothing under label shift"
    )

    def fit(self, task: Task, pool: _Pool) -> Published:
        # Equal weights and a point mass 1/(N+1) at the score 1: eq. (2).
        ones = np.ones(task.n_classes)
        sample = WeightedSample(pool.positions, np.ones(len(pool.positions)))
        fit = Fit(
            positions=conformal_positions(sample, task.alphas, ones),
            ratios=ones,
            records=pool.counts.records.sum(axis=0),
            total=sample.total,
            available=len(pool.positions),
            unseen=np.zeros(task.n_classes),
        )
        return dict.fromkeys((t.name for t in task.targets), fit)


class _Weighted(_ByPooling):
    """Thresholds of the weighted distribution μ̂_y (eq. 8), one per query label."""

    def ratios(self, task: Task, counts: Counts) -> Float64:
        """Likelihood ratios (targets, C)."""
        raise AssertionError("each method defines its own")

    def fit(self, task: Task, pool: _Pool) -> Published:
        out = {}
        for target, w in zip(task.targets, self.ratios(task, pool.counts), strict=True):
            sample = WeightedSample(pool.positions, w[pool.labels])
            thresholds = conformal_positions(sample, task.alphas, w)
            fit = weighted_fit(task, target, thresholds, w, sample.total, pool.counts, pool.used)
            out[target.name] = fit
        return out


@dataclass(frozen=True)
class EstimatedWeights(_Weighted):
    """Weighted quantile of pooled scores, with ratios ŵ estimated from label counts.

    Parameters
    ----------
    subsample
        Use only N̄^i ∧ N^i records of each site, as in Theorem 2.4. Off by default: it serves the
        proof and costs half of the data.
    """

    subsample: bool = False
    label: ClassVar[str] = "Estimated weights"

    def __post_init__(self) -> None:
        checks.flag(self.subsample, "subsample")

    @property
    def guarantee(self) -> str:
        return estimated_guarantee(self.subsample)

    def ratios(self, task: Task, counts: Counts) -> Float64:
        return target_ratios(task, counts, counts.sizes)


@dataclass(frozen=True)
class OracleWeights(_Weighted):
    """Weighted quantile of pooled scores, with the true label distributions.

    Parameters
    ----------
    priors
        The true P^i, as {site name: (C,)} or a (sites, C) array in the order of the sites.
    weights
        "ratio" for w_y = P*(y)/P_cal(y) (eq. 5), "exact" for the weights of Theorem 2.1.
    subsample
        Use only N̄^i ∧ N^i records of each site, as in Theorem 2.2; with "ratio" only.
    """

    priors: Mapping[str, ArrayLike] | ArrayLike
    weights: str = "ratio"
    subsample: bool = False
    label: ClassVar[str] = "Oracle weights"

    def __post_init__(self) -> None:
        checks.choice(self.weights, "weights", ["ratio", "exact"])
        checks.flag(self.subsample, "subsample")
        if self.subsample and self.weights == "exact":
            raise FedcoverError(
                "weights='exact' with subsample=True",
                allowed="subsampling with weights='ratio' only",
                fix="Exact weights need no subsample",
            )

    @property
    def guarantee(self) -> str:
        if_true = (
            "if the label distributions are as given and records of one label look alike "
            "at all sites"
        )
        if self.weights == "exact":
            return (
                f"at least 1-α (Theorem 2.1) {if_true}; with many labels the weights are a "
                "saddlepoint approximation and the promise is approximate"
            )
        proof = "Theorem 2.2" if self.subsample else "Theorem 2.2 proves it for subsample=True"
        return f"approximately 1-α ({proof}) {if_true}"

    def fit(self, task: Task, pool: _Pool) -> Published:
        fits = super().fit(task, pool)
        if self.weights == "ratio":
            return fits
        table = self._table(task)
        ordered = np.argsort(pool.positions, kind="stable")
        values, labels = pool.positions[ordered], pool.labels[ordered]
        counted = np.bincount(labels, minlength=task.n_classes)
        out = {}
        for target in task.targets:
            target_shares = self._target_shares(task, target, table, pool.counts)
            thresholds = fits[target.name].positions.copy()
            for y in np.flatnonzero(target_shares > 0):  # others cannot be the query's label
                # Theorem 2.1 conditions on the labels of all records and the query: each query
                # label has weights of its own.
                seen = counted + (np.arange(task.n_classes) == y)
                p = weights_at(table, pool.counts.sizes, target_shares, seen, "auto")
                sample = WeightedSample(values, p[labels])
                # Weights sum to 1 with the query's own, which is the point mass at 1.
                thresholds[:, y] = conformal_positions(sample, task.alphas, p[[y]])[:, 0]
            out[target.name] = replace(fits[target.name], positions=thresholds)
        return out

    def ratios(self, task: Task, counts: Counts) -> Float64:
        table = self._table(task)
        shares = [self._target_shares(task, t, table, counts) for t in task.targets]
        return np.array([oracle_ratio(table, counts.sizes, s) for s in shares])

    def _target_shares(self, task: Task, target: Target, table: Float64, counts: Counts) -> Float64:
        """P* of the target; of a group, the mixture of its sites by their label counts."""
        # A group draws from its sites in proportion to their counts, each by its true distribution.
        total = target_counts(task, target, table * counts.labels.sum(axis=1, keepdims=True))
        return total / total.sum()

    def _table(self, task: Task) -> Float64:
        priors = self.priors
        if isinstance(priors, Mapping):
            missing = [s for s in task.sites if s not in priors]
            if missing:
                raise FedcoverError(
                    f"priors has no entry for site {missing[0]!r}",
                    allowed="one label distribution per site",
                    fix="Add it, or use EstimatedWeights",
                )
            rows = [priors[s] for s in task.sites]
        else:
            rows = list(np.atleast_1d(checks.array(priors, "priors")))
        if len(rows) != len(task.sites):
            raise FedcoverError(
                f"priors has {len(rows)} rows for {len(task.sites)} sites",
                allowed="one row per site, in the order of the sites",
                fix="Or give a dictionary by site name",
            )
        return np.array([checks.distribution(r, task.n_classes, "priors") for r in rows])
