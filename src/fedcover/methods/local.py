"""Unweighted Local: split conformal prediction on the target's own records; nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedcover.certificate import certified_alone
from fedcover.errors import FedcoverError
from fedcover.methods.base import Fit, Message, Published, ServerHalf, Target, Task
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
