"""Unweighted Local: split conformal prediction on the target's own records; nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedcover.certificate import certified_rank
from fedcover.errors import FedcoverError
from fedcover.privacy.events import Event
from fedcover.privacy.statement import Privacy, PrivacyStatement
from fedcover.protocols.base import Fit, Message, Published, ServerHalf, Target, Task
from fedcover.quantile import WeightedSample, conformal_thresholds
from fedcover.site import Site


@dataclass(frozen=True)
class Local:
    """Each site calibrates alone: always valid, but wide when the site is small."""

    label: ClassVar[str] = "Local"
    shares_scores: ClassVar[bool] = False
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

    def charges(self, query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
        raise AssertionError("Local sends no query")

    def answer(self, query: Message, site: Site) -> Message:
        raise AssertionError("Local sends no query")

    def conclude(self, task: Task, published: Published, target: Target, site: Site | None) -> Fit:
        assert site is not None, "server() has refused targets that are not one site"
        ones = np.ones(task.n_classes)
        sample = WeightedSample(site.scores, np.ones(len(site)))
        thresholds = conformal_thresholds(sample, task.alphas, ones)
        records = site.calibration_counts
        return Fit(thresholds, ones, records, sample.total, len(site), np.zeros(task.n_classes))


def certified_index(
    sorted_scores: Any, alpha: float | Sequence[float], confidence: float
) -> tuple[int | None, ...]:
    """Which of a site's scores, in increasing order, is the certified threshold of each α.

    Exact for independent records of the site, whatever their labels; None asks for the full set.
    """
    return certified_rank(len(sorted_scores), alpha, confidence)
