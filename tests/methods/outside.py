"""Two methods that are not of the package, as somebody else would write them.

It imports nothing of the tests: a deployment sends this file to the sites in its app.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

import fedcover as fc
from fedcover.methods.base import Message, ServerMethod, SumRound, ask_all
from fedcover.methods.replies import read_positions
from fedcover.methods.site_quantiles import common_fit, refuse_distributions
from fedcover.position import positions
from fedcover.privacy import accounting, noise
from fedcover.privacy.events import ExactRelease, GaussianRelease
from fedcover.privacy.randomness import SYSTEM
from fedcover.privacy.statement import PrivacyStatement
from fedcover.quantile import WeightedSample, conformal_positions


@dataclass(frozen=True)
class LargeQuantile(ServerMethod):
    """The `rank`-th largest of the thresholds that the sites would take alone."""

    rank: int = 1

    label: ClassVar[str] = "Large quantile"
    shares_scores: ClassVar[bool] = False
    guarantee: ClassVar[str] = "none that is proven"
    reveals: ClassVar[str] = "every site sent its own threshold"
    most_rounds: ClassVar[int] = 1

    def server(self, task):
        refuse_distributions(task, self.label)
        replies = yield ask_all(task, Message("alone", {"alphas": np.array(task.alphas)}))
        shape = (len(task.alphas),)
        sent = np.sort([read_positions(replies, n, "limits", shape) for n in task.sites], axis=0)
        error = f"{len(sent)} sites were asked"
        return common_fit(task, sent[-self.rank], sum(task.sizes), error=error, alarms=("a test",))

    @classmethod
    def answer(cls, query, site, source=SYSTEM):
        alphas = tuple(query.arrays["alphas"].tolist())
        sample = WeightedSample(site.positions, np.ones(len(site)))
        return Message("alone", {"limits": conformal_positions(sample, alphas, np.ones(1))[:, 0]})


SCALE = 1024
"""Counts are multiplied by it before whole-number noise, which is then as good as continuous."""


@dataclass(frozen=True)
class CoarseHistogram(ServerMethod):
    """The quantile of one histogram of all sites' scores, with noise under a budget."""

    bins: int = 32

    label: ClassVar[str] = "Coarse histogram"
    shares_scores: ClassVar[bool] = False
    guarantee: ClassVar[str] = "1-α up to the noise, if all sites share one label distribution"
    reveals: ClassVar[str] = "every site sent a histogram of its scores"
    most_rounds: ClassVar[int] = 1

    def server(self, task):
        refuse_distributions(task, self.label)
        numbers = {"bins": self.bins, "sigma": _sigma(task)}
        query = Message("score-histogram", numbers=numbers)
        replies = yield SumRound(ask_all(task, query), {"counts": (self.bins,)})
        upto = np.cumsum(replies["sum"].arrays["counts"]) / SCALE
        levels = (1 - np.array(task.alphas)) * (upto[-1] + 1)
        first = np.searchsorted(np.maximum.accumulate(upto), levels)
        limits = np.minimum((first + 1) / self.bins, 1.0)
        return common_fit(task, positions(limits), max(1, round(upto[-1])))

    @classmethod
    def answer(cls, query, site, source=SYSTEM):
        bins, sigma = query.numbers["bins"], query.numbers["sigma"]
        at = np.clip(np.ceil(site.scores * bins).astype(int) - 1, 0, bins - 1)
        counts = np.bincount(at, minlength=bins) * SCALE
        if sigma:
            counts = counts + noise.discrete_gaussian(Fraction(sigma), bins, source)
        return Message("score-histogram", {"counts": counts})

    def statement(self, task):
        if task.privacy is None:
            return None
        query = Message("score-histogram", numbers={"sigma": _sigma(task)})
        events = self.charges(query, task.privacy, task.noise_sites)
        spent = accounting.epsilon(events, task.privacy.delta)
        public = () if task.sizes is None else ("the number of records of each site",)
        said = {**vars(task.privacy), "epsilon": spent, "events": events, "public": public}
        made = PrivacyStatement(**said, effect="noise moves the coverage up and down")
        return made.with_seeded_noise() if task.seeded else made

    @classmethod
    def charges(cls, query, privacy, n_sites):
        sigma = query.numbers["sigma"]
        if not sigma or privacy.unit == "site":
            return (ExactRelease("score histogram"),)
        seen = sigma * math.sqrt(_unknown(privacy, n_sites))
        return (GaussianRelease("score histogram", seen, _moved(privacy)),)


def _sigma(task):
    """Deviation of one site's noise, in scaled units."""
    if task.privacy is None:
        return 0.0
    enough = accounting.noise_multiplier(task.privacy.epsilon, task.privacy.delta)
    return enough * _moved(task.privacy) / math.sqrt(_unknown(task.privacy, task.noise_sites))


def _moved(privacy):
    """A replaced record moves two counts by one."""
    return SCALE * (math.sqrt(2) if privacy.relation == "replace" else 1.0)


def _unknown(privacy, n_sites):
    """Shares of the noise that who looks cannot take off: not those of sites that conspire."""
    return max(1, n_sites - privacy.conspirators) if privacy.secure_sum else 1


LARGE = fc.methods.Entry("large-quantile", LargeQuantile, ("alone",))
COARSE = fc.methods.Entry(
    "coarse-histogram", CoarseHistogram, ("score-histogram",), usual=True, private=True
)
ENTRIES = (LARGE, COARSE)
