"""Mean of quantiles (FCP, Lu et al. 2023): every site sends its own threshold, the server averages.

Also what the baselines without label shift correction share: one fit for all sites and groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.methods.base import (
    Fit,
    Message,
    Published,
    Round,
    ServerHalf,
    ServerMethod,
    Task,
    ask_all,
)
from fedcover.methods.queries import read_floats
from fedcover.methods.replies import read_positions, reply_of
from fedcover.position import Positions, distances_at, positions, scores_at
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.quantile import WeightedSample, conformal_positions
from fedcover.site import Site

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
