"""t-digests (FCP, Lu et al. 2023): every site sends clusters of scores, the server adds them up.

Clusters are those of Dunning (2019) with scale function k₁: fine at the ends, N·2π√(q(1-q))/δ
records around the q-quantile. Besides mean and count a cluster carries its largest score, so the
server knows exactly how many scores lie below each of these, bounds its own error, and leaves tied
scores tied. Sites' digests are added, not merged into fewer clusters, which would only lose.

Clusters are of raw scores, as published: a mean of positions would be no mean score. Scores that
floating-point numbers cannot tell from 1 are therefore one cluster here.

No library: fastdigest is kept, but a compiled dependency for 20 lines, and it has no largest score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.methods.base import Float64, Message, Round, ServerHalf, ServerMethod, Task, ask_all
from fedcover.methods.queries import read_whole
from fedcover.methods.replies import (
    counts_reply,
    estimated_guarantee,
    read_counts,
    reply_of,
    target_ratios,
    weighted_fit,
)
from fedcover.methods.site_quantiles import common_fit, refuse_distributions
from fedcover.position import Positions, positions, scores_at
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.quantile import WeightedSample, conformal_positions
from fedcover.site import Site

PIECES = 32
"""A cluster of more records than this is spread out as so many equal parts."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Clusters:
    """Clusters of one or several digests.

    Attributes
    ----------
    means, highs, sizes
        Mean score, largest score and number of records of each cluster.
    floors
        Largest score of the cluster before, above which all its scores lie; -1 if it is the first.
    labels
        Label of each cluster; 0 where labels are not told apart.
    """

    means: Float64
    highs: Float64
    sizes: Ints
    floors: Float64
    labels: Ints

    @property
    def tied(self) -> NDArray[np.bool_]:
        """Clusters of one score, single or repeated."""
        return self.means == self.highs

    def spread(self) -> tuple[Float64, Float64, Ints]:
        """Scores as they may have been: half between floor and mean, half up to the largest."""
        pieces = np.minimum(self.sizes, PIECES)
        at = np.repeat(np.arange(len(pieces)), pieces)
        number = np.arange(len(at)) - (np.cumsum(pieces) - pieces)[at] + 1
        u = number / pieces[at]
        start = np.where(self.floors < 0, np.maximum(2 * self.means - self.highs, 0), self.floors)
        low, mean, high = start[at], self.means[at], self.highs[at]
        values = np.where(u < 0.5, low + (mean - low) * 2 * u, mean + (high - mean) * (2 * u - 1))
        # The largest score is known, and ties are ties: there nothing is spread.
        values = np.where((u == 1) | self.tied[at], high, values)
        return values, (self.sizes / pieces)[at], self.labels[at]

    def doubt(self, thresholds: Float64, levels: Float64, weights: Float64) -> tuple[float, float]:
        """At most what share of the weighted scores lies too few, and too many, below a threshold.

        Too few is less than its level asks for; too many, more than below the exact quantile. Each
        count lies between that of all scores at their cluster's upper end and at its lower end.
        """
        w = weights[self.labels]
        sure = np.where(self.tied, self.sizes, 1)  # records known to be at the upper end
        # All scores at their cluster's upper end: fewest lie below any threshold. Then the other
        # extreme.
        least = WeightedSample(self.highs, w * self.sizes)
        lower = np.concatenate([np.nextafter(self.floors, 1), self.highs])
        most = WeightedSample(lower, np.concatenate([w * (self.sizes - sure), w * sure]))
        mass = np.minimum(levels, least.total)
        exact = np.maximum(_upto(least, most.quantile(mass)), mass)
        few = mass - _upto(least, thresholds)
        many = _upto(most, thresholds) - exact
        return max(0.0, few.max() / least.total), max(0.0, many.max() / least.total)


def _upto(sample: WeightedSample, q: Float64) -> Float64:
    return np.append(0.0, sample.cumulative)[np.searchsorted(sample.values, q, side="right")]


@dataclass(frozen=True)
class TDigest(ServerMethod):
    """The quantile of all sites' t-digests together, in one round.

    Parameters
    ----------
    compression
        δ: a digest has at most δ clusters, with many records half of that. At 100 the coverage
        is off by less than .002 as a rule ("balanced"); the bound that each result states is
        about .03 then.
    per_label
        One digest per label, from which the ratios ŵ correct for label shift. Without it the
        threshold is that of the pooled scores, as in FCP.
    mode
        "balanced" reads scores inside a cluster as spread out, "guaranteed" takes them all for its
        largest: thresholds are then never below those of `Pooled` or `EstimatedWeights`.
    """

    compression: int = 100
    per_label: bool = False
    mode: str = "balanced"

    label: ClassVar[str] = "t-digest"
    shares_scores: ClassVar[bool] = True
    most_rounds: ClassVar[int] = 1

    def __post_init__(self) -> None:
        checks.whole(self.compression, "compression", 10, 10_000)
        checks.flag(self.per_label, "per_label")
        checks.choice(self.mode, "mode", ["balanced", "guaranteed"])

    @property
    def guarantee(self) -> str:
        """What holds apart from the error of the digests, which each fit states."""
        if self.per_label:
            return estimated_guarantee(False)
        return "1-α only if all sites share one label distribution; nothing under label shift"

    @property
    def reveals(self) -> str:
        each = "each label of each site" if self.per_label else "each site"
        return (
            f"for {each} up to {self.compression} clusters of scores, each with its mean, its size "
            "and its largest score, were sent to the server; where there are few records that is "
            f"every raw score{' and the label counts' if self.per_label else ''}; no privacy noise"
        )

    def server(self, task: Task) -> ServerHalf:
        if not self.per_label:
            refuse_distributions(task, self.label)
        numbers = {"compression": int(self.compression), "per_label": int(self.per_label)}
        replies = yield ask_all(task, Message("t-digest", numbers=numbers))
        counts = read_counts(task, replies) if self.per_label else None
        parts = []
        for i, name in enumerate(task.sites):
            size = None if task.sizes is None else np.array([task.sizes[i]])
            parts.append(_read(replies, name, size if counts is None else counts.records[i]))
        all_ = Clusters(*(np.concatenate(list(p)) for p in zip(*map(_fields, parts), strict=True)))
        if self.mode == "guaranteed":
            values, masses, labels = all_.highs, all_.sizes.astype(np.float64), all_.labels
        else:
            values, masses, labels = all_.spread()
        if counts is None:
            ones = np.ones(1)
            sample = WeightedSample(positions(values), masses)
            thresholds = conformal_positions(sample, task.alphas, ones)
            error = _error(task, all_, sample.total, thresholds, ones)
            return common_fit(task, thresholds[:, 0], int(all_.sizes.sum()), error=error)
        out = {}
        for target, w in zip(task.targets, target_ratios(task, counts, counts.sizes), strict=True):
            sample = WeightedSample(positions(values), masses * w[labels])
            thresholds = conformal_positions(sample, task.alphas, w)
            fit = weighted_fit(task, target, thresholds, w, sample.total, counts, counts.sizes)
            if sample.total > 0:
                fit = replace(fit, error=_error(task, all_, sample.total, thresholds, w))
            out[target.name] = fit
        return out

    @classmethod
    def answer(cls, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        delta = read_whole(query, "compression", 10, 10_000)
        groups, extra = [site.scores], {}
        if read_whole(query, "per_label", 0, 1):
            groups = [site.scores[site.labels == y] for y in range(site.n_classes)]
            extra = dict(counts_reply(site).arrays)
        digests = [digest(scores, delta) for scores in groups]
        means, highs, sizes = (np.concatenate(list(p)) for p in zip(*digests, strict=True))
        ends = np.cumsum([len(d[0]) for d in digests])
        clusters = {"means": means, "highs": highs, "sizes": sizes, "ends": ends}
        return Message("t-digest", {**clusters, **extra})


def digest(scores: Float64, compression: float) -> tuple[Float64, Float64, Ints]:
    """Means, largest scores and sizes of the clusters of a t-digest, in one pass over the scores.

    A cluster from quantile q₀ to q₁ has k₁(q₁) - k₁(q₀) ≤ 1 with k₁(q) = δ/2π·arcsin(2q-1); a
    score that occurs more often than that allows is a cluster of its own.
    """
    values, repeats = np.unique(scores, return_counts=True)
    upto, turn = np.cumsum(repeats), 2 * np.pi / compression
    starts, start, done = [], 0, 0
    while start < len(values):
        starts.append(start)
        # k₁ may grow by 1 in a cluster, hence the angle arcsin(2q-1) by 2π/δ: narrow clusters at
        # the ends, where quantiles of small α are.
        angle = min(np.arcsin(2 * done / len(scores) - 1) + turn, np.pi / 2)
        most = (np.sin(angle) + 1) / 2 * len(scores)
        # A cluster ends between different scores, and has at least one.
        start = max(start + 1, int(np.searchsorted(upto, most * (1 + 1e-12), side="right")))
        done = int(upto[start - 1])
    if not starts:
        return np.empty(0), np.empty(0), np.empty(0, dtype=np.int64)
    ends = np.array([*starts[1:], len(values)]) - 1
    sizes = np.add.reduceat(repeats, starts)
    # Rounding may put a mean outside of its own cluster, which the server would take for a lie.
    means = np.clip(np.add.reduceat(values * repeats, starts) / sizes, values[starts], values[ends])
    return means, values[ends], sizes


def _error(
    task: Task, clusters: Clusters, total: float, thresholds: Positions, weights: Float64
) -> str:
    levels = (1 - np.asarray(task.alphas)[:, None]) * (total + weights)
    few, many = clusters.doubt(scores_at(thresholds), levels, weights)
    return (
        f"the digests take at most {few:.2%} off the coverage of the calibration records, and add "
        f"at most {many:.2%}"
    )


def _fields(clusters: Clusters) -> tuple[NDArray[np.float64] | Ints, ...]:
    return (clusters.means, clusters.highs, clusters.sizes, clusters.floors, clusters.labels)


def _read(replies: Round, site: str, records: Ints | None) -> Clusters:
    """The digests of one site, checked; `records` in each of them, where that is known."""
    sent = reply_of(replies, site).arrays
    empty = np.empty(0)
    means, highs, sizes, ends = (sent.get(k, empty) for k in ("means", "highs", "sizes", "ends"))
    n, count = len(records) if records is not None else 1, means.size
    valid = means.dtype == highs.dtype == np.float64 and sizes.dtype == ends.dtype == np.int64
    valid = valid and means.shape == highs.shape == sizes.shape == (count,) and ends.shape == (n,)
    valid = (
        valid and count > 0 and ends[-1] == count and bool((np.diff(ends, prepend=0) >= 0).all())
    )
    valid = valid and bool(((sizes >= 1) & (sizes <= checks.MOST_RECORDS)).all())
    if valid:
        starts = np.concatenate([[0], ends[:-1]])[np.diff(ends, prepend=0) > 0]
        floors = np.concatenate([[-1.0], highs[:-1]])
        floors[starts] = -1.0
        labels = np.searchsorted(ends, np.arange(count), side="right")
        valid = bool(((floors < means) & (means <= highs) & (means >= 0) & (highs <= 1)).all())
        held = np.bincount(labels, sizes, minlength=n)
        valid = valid and (records is None or np.array_equal(held, records))
        if valid:
            return Clusters(means, highs, sizes, floors, labels)
    raise FedcoverError(
        f"site {site!r} answered with a digest that cannot be",
        allowed="clusters in order, with scores in [0, 1], that hold as many records as it has",
        fix="Check that site's data, or leave it out",
    )
