"""The sites' own quantiles: each for itself, their mean, or one of them.

Local is split conformal prediction on the target's own records; nothing is sent. For the others
every site sends one score for each α.

Mean of quantiles (FCP, Lu et al. 2023): the server averages the sites' own thresholds.

Quantile of quantiles (FedCP-QQ, Humbert et al. 2023 and 2024): site j sends its ℓ_j-th smallest of
n_j scores, the server takes the k-th smallest of the m it gets. With F the common distribution of
the scores, F(ℓ_j-th smallest) is Beta(ℓ_j, n_j-ℓ_j+1), so

    coverage = ∫₀¹ P(fewer than k of m independent events occur) du,

event j of probability I_u(ℓ_j, n_j-ℓ_j+1), the regularised incomplete beta function. That is the
exact formula, for equal sizes (then the count of events is binomial) as for different ones.

Also what the baselines without label shift correction share: one fit for all sites and groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.certificate import certified_alone
from fedcover.errors import FedcoverError
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
from fedcover.methods.queries import read_floats, read_wholes
from fedcover.methods.replies import read_positions, reply_of
from fedcover.position import TOP, Positions, distances_at, positions, scores_at
from fedcover.privacy.events import Event
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.privacy.statement import Privacy, PrivacyStatement
from fedcover.quantile import WeightedSample, conformal_positions
from fedcover.site import Site


@dataclass(frozen=True)
class Local:
    """Each site calibrates alone: always valid, but wide when the site is small."""

    label: ClassVar[str] = "Local"
    shares_scores: ClassVar[bool] = False
    certifies: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "at least 1-α on average over calibration sets and test records, if the site's own "
        "calibration and test records are exchangeable"
    )
    reveals: ClassVar[str] = "nothing leaves a site"
    most_rounds: ClassVar[int] = 0

    def server(self, task: Task) -> ServerHalf:
        for target in task.targets:
            if len(target.members) != 1:
                raise FedcoverError(
                    f"method Local cannot serve target {target.name!r}",
                    allowed="targets that are one site of the federation",
                    fix="Use another method for groups and for label distributions",
                )
        return {}
        yield {}  # makes this a generator; Local needs no round

    def statement(self, task: Task) -> PrivacyStatement | None:
        if task.privacy is None:
            return None
        return PrivacyStatement(**{**vars(task.privacy), "epsilon": 0.0})

    @classmethod
    def charges(cls, query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
        raise AssertionError("Local sends no query")

    @classmethod
    def answer(cls, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        raise AssertionError("Local sends no query")

    def finalise(self, task: Task, published: Published, target: Target, site: Site | None) -> Fit:
        assert site is not None, "server() has refused targets that are not one site"
        ones = np.ones(task.n_classes)
        # Own records and queries are exchangeable: every label has weight 1, and so has the query.
        sample = WeightedSample(site.positions, np.ones(len(site)))
        fit = Fit(
            conformal_positions(sample, task.alphas, ones),
            ones,
            site.calibration_counts,
            sample.total,
            len(site),
            np.zeros(task.n_classes),
            # The coverage given n records is Beta distributed, with the variance (1-α)α/(n+2).
            coverage_error=np.sqrt([a * (1 - a) / (len(site) + 2) for a in task.alphas]),
            own_scores=True,
        )
        if task.certify is None:
            return fit
        limits, certificate = certified_alone(np.sort(site.positions), task.alphas, task.certify)
        thresholds = np.repeat(limits[:, None], task.n_classes, axis=1)
        return replace(fit, positions=thresholds, certificate=certificate, coverage_error=None)


SHOWN = 5
"""Names of sites that one warning lists."""


@dataclass(frozen=True)
class QuantileAverage(ServerMethod):
    """The size-weighted mean of the sites' own conformal thresholds: one number per site and α.

    Site i sends q_i, its ⌈(n_i+1)(1-α)⌉-th smallest score (1 where it has too few records for
    that), and n_i; the threshold is Σ n_i q_i / Σ n_i. A mean of quantiles is not the quantile of
    the mixture, so nothing is proven for it, with or without label shift.
    """

    label: ClassVar[str] = "Quantile average"
    shares_scores: ClassVar[bool] = False
    guarantee: ClassVar[str] = (
        "none that is proven; near 1-α if all sites share one label distribution and have many "
        "records each, nothing under label shift"
    )
    reveals: ClassVar[str] = (
        "every site sent the server its number of records and, for each α, its own threshold, "
        "which is the score of one of its records; no privacy noise"
    )
    most_rounds: ClassVar[int] = 1

    def server(self, task: Task) -> ServerHalf:
        refuse_distributions(task, self.label)
        query = Message("own-quantiles", {"alphas": np.array(task.alphas)})
        replies = yield ask_all(task, query)
        shape = (len(task.alphas),)
        quantiles = [read_positions(replies, name, "quantiles", shape) for name in task.sites]
        sizes = np.array([_size(task, replies, i) for i in range(len(task.sites))])
        # The mean is one of raw scores, as published. It is made of distances as well, so that
        # quantiles of a sure model do not all round to 1.
        mean = positions(
            *(np.average(at(quantiles), axis=0, weights=sizes) for at in (scores_at, distances_at))
        )
        return common_fit(task, mean, int(sizes.sum()), alarms=_too_small(task, sizes))

    @classmethod
    def answer(cls, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        alphas = checks.alphas(read_floats(query, "alphas", None).tolist())
        sample = WeightedSample(site.positions, np.ones(len(site)))
        quantile = conformal_positions(sample, alphas, np.ones(1))[:, 0]
        return Message("own-quantiles", {"quantiles": quantile}, {"size": len(site)})


def refuse_distributions(task: Task, method: str) -> None:
    """Refuse targets given by a label distribution: a method that ignores it must not take it."""
    for target in task.targets:
        if target.distribution is not None:
            raise FedcoverError(
                f"method {method} cannot serve target {target.name!r}, a label distribution",
                allowed="sites and groups of sites, because it does not correct for label shift",
                fix="Use DPFedCP(), Sketch(), EstimatedWeights() or TDigest(per_label=True)",
            )


def common_fit(
    task: Task,
    thresholds: Positions,
    records: int,
    *,
    alarms: tuple[str, ...] = (),
    error: str = "",
) -> Published:
    """One fit for all targets, of one threshold per α, as positions; `records` in all.

    The labels stay at the sites, so the records are entered as if spread evenly over them.
    """
    fit = Fit(
        positions=np.repeat(thresholds[:, None], task.n_classes, axis=1),
        ratios=np.ones(task.n_classes),
        records=np.full(task.n_classes, records / task.n_classes),
        total=float(records),
        available=records,
        unseen=np.zeros(task.n_classes),
        error=error,
        alarms=alarms,
    )
    return dict.fromkeys((t.name for t in task.targets), fit)


def _size(task: Task, replies: Round, i: int) -> int:
    """How many records a site says it has; what it declared before, if it did."""
    size = reply_of(replies, task.sites[i]).numbers.get("size")
    whole = isinstance(size, (int, np.integer)) and 1 <= size <= checks.MOST_RECORDS
    if not whole or (task.sizes is not None and size != task.sizes[i]):
        raise FedcoverError(
            f"site {task.sites[i]!r} answered with a size that cannot be",
            allowed="the number of its records, at least 1",
            fix="Check that site's data, or leave it out",
        )
    return int(size)  # type: ignore[arg-type]


def _too_small(task: Task, sizes: NDArray[np.int64]) -> tuple[str, ...]:
    out = []
    for alpha in task.alphas:
        # ⌈(n+1)(1-α)⌉ > n: no score of its own is high enough. The margin is for rounding.
        small = np.flatnonzero((1 - alpha) * (sizes + 1) > sizes * (1 + 1e-12))
        if len(small):
            named = ", ".join(task.sites[i] for i in small[:SHOWN])
            more = ", …" if len(small) > SHOWN else ""
            out.append(
                f"{len(small)} of {len(sizes)} sites have fewer than the "
                f"{np.ceil((1 - alpha) / alpha - 1e-9):.0f} records that alpha={alpha:g} needs "
                f"({named}{more}): their quantiles count as 1 and widen every set"
            )
    return tuple(out)


MOST_K, MOST_TRIES = 9, 400
"""How many k are tried (fewer with many sites, whose sheer number comes close): those nearest to
the middle, where the quantile of quantiles varies least."""

ROUNDING = 1e-11
"""What the integral may be off by."""


@dataclass(frozen=True)
class QuantileOfQuantiles(ServerMethod):
    """The k-th smallest of the sites' ℓ_j-th smallest scores, in one round.

    Ranks and k depend on sizes and α only. All sites get the same level, ℓ_j = ⌈β(n_j+1)⌉ (at
    most n_j), for each k the lowest that covers at least 1-α by the exact formula. Of these pairs
    the one is taken whose coverage is nearest to 1-α in mean square over calibration sets. (Humbert
    et al. take the lowest mean, which with sites of different sizes may vary wildly.)
    """

    label: ClassVar[str] = "Quantile of quantiles"
    shares_scores: ClassVar[bool] = False
    guarantee: ClassVar[str] = (
        "at least 1-α on average over calibration sets and test records, only if all sites share "
        "one label distribution; nothing under label shift"
    )
    reveals: ClassVar[str] = (
        "every site sent the server its number of records and, for each α, the score of one of its "
        "records; each threshold is one of those; no privacy noise"
    )
    most_rounds: ClassVar[int] = 1

    def server(self, task: Task) -> ServerHalf:
        refuse_distributions(task, self.label)
        if task.sizes is None:
            raise FedcoverError(
                f"method {self.label} without the numbers of records of the sites",
                allowed="sites that say how many records they have",
                fix="Let them, or use QuantileAverage()",
            )
        plans = [ranks_for(task.sizes, alpha) for alpha in task.alphas]
        thresholds = np.full(len(plans), TOP)  # where even the largest of all scores is too small
        some = [a for a, plan in enumerate(plans) if plan is not None]
        if some:
            chosen = [plan for plan in plans if plan is not None]
            queries = {
                name: Message("ranked-scores", {"ranks": np.array([r[j] for r, _ in chosen])})
                for j, name in enumerate(task.sites)
            }
            replies = yield queries
            sent = np.sort(
                [read_positions(replies, name, "scores", (len(some),)) for name in task.sites],
                axis=0,
            )
            thresholds[some] = [sent[k - 1, a] for a, (_, k) in enumerate(chosen)]
        return common_fit(task, thresholds, sum(task.sizes))

    @classmethod
    def answer(cls, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        ranks = read_wholes(query, "ranks", None, least=1, most=len(site))
        return Message("ranked-scores", {"scores": np.sort(site.positions)[ranks - 1]})


@lru_cache(maxsize=256)
def ranks_for(sizes: tuple[int, ...], alpha: float) -> tuple[tuple[int, ...], int] | None:
    """Ranks ℓ_j and k with coverage at least 1-α, and hardly more; None if there are none."""
    most, m, level = max(sizes), len(sizes), 1 - alpha - ROUNDING

    def ranks(b: int) -> tuple[int, ...]:
        return tuple(min(n, -(-b * (n + 1) // (most + 1))) for n in sizes)

    def enough(b: int, k: int) -> bool:
        return coverage(ranks(b), sizes, k) >= level

    # The largest of all scores covers most; if that is not enough, nothing is.
    if not enough(most, m):
        return None
    least_k = _first(1, m, partial(enough, most))
    tries = max(1, min(MOST_K, MOST_TRIES // m))
    first = max(least_k, min((m + 1) // 2 - tries // 2, m - tries + 1))
    pairs = []
    for k in range(first, min(m, first + tries - 1) + 1):
        # Coverage grows with the ranks, so bisection finds the lowest level that is enough.
        b = _first(1, most, partial(enough, k=k))
        mean, square = moments(ranks(b), sizes, k)
        # E(C - (1-α))² without its constant part: nearest to 1-α in mean square.
        pairs.append((square - 2 * (1 - alpha) * mean, ranks(b), k))
    _, chosen, k = min(pairs)
    return chosen, k


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest whole number in [low, high] for which it holds; it does for `high`."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def coverage(ranks: tuple[int, ...], sizes: tuple[int, ...], k: int) -> float:
    """Mean coverage of the k-th smallest of the sites' ranks[j]-th smallest scores."""
    return moments(ranks, sizes, k)[0]


def moments(ranks: tuple[int, ...], sizes: tuple[int, ...], k: int) -> tuple[float, float]:
    """Mean and mean square of that coverage over calibration sets, ∫ P(u) du and ∫ 2u P(u) du.

    Exact for scores without ties and exchangeable over all sites, more with ties. The integrand
    falls from 1 to 0; three refinements find where, Gauss-Legendre nodes do the rest.
    """
    a = np.array(ranks, dtype=np.float64)
    b = np.array(sizes, dtype=np.float64) - a + 1
    low, high = 0.0, 1.0
    for _ in range(3):
        u = np.linspace(low, high, 17)
        above = _fewer(a, b, u, k)
        # Nodes are spent only where the integrand is neither 0 nor 1.
        ones, zeros = np.sum(above >= 1 - 1e-15), np.sum(above <= 1e-15)
        low, high = float(u[np.maximum(ones - 1, 0)]), float(u[np.minimum(17 - zeros, 16)])
    nodes, weights = _gauss()
    u, weights = low + (high - low) * nodes, (high - low) * weights
    inside = weights * _fewer(a, b, u, k)
    # Left of `low` it is 1: ∫ du = low, and ∫ 2u du = low².
    return low + float(inside.sum()), low**2 + 2 * float(u @ inside)


@lru_cache(maxsize=1)
def _gauss() -> tuple[Float64, Float64]:
    nodes, weights = np.polynomial.legendre.leggauss(96)
    return (nodes + 1) / 2, weights / 2


def _fewer(a: Float64, b: Float64, u: Float64, k: int) -> NDArray[np.float64]:
    """P(fewer than k sites have their score below the u-quantile), for each u."""
    from scipy.special import betainc

    count = np.zeros((k, len(u)))  # P(exactly c of the sites so far), c below k
    count[0] = 1
    for p in betainc(a[:, None], b[:, None], u):
        # One more site either has its score below u, or not: a Poisson binomial law, exact for
        # unequal sites too.
        count[1:] += (count[:-1] - count[1:]) * p
        count[0] *= 1 - p
    return count.sum(axis=0)
