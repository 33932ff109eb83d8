"""The audit of any registered method that states an ε."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.audit import bounds
from fedcover.audit.datasets import CHANGES, DataSets, alone, side_by_side
from fedcover.audit.result import Audit
from fedcover.audit.running import Alone, SideBySide, Viewer
from fedcover.audit.statistic import (
    Moments,
    Statistic,
    discriminants,
    frequencies,
    largest_differences,
    without_noise,
)
from fedcover.errors import FedcoverError
from fedcover.methods.base import Method, Target, Task, under_budget
from fedcover.privacy.events import Event, GaussianRelease
from fedcover.privacy.statement import Privacy
from fedcover.site import Site

Float64 = NDArray[np.float64]
Progress = Callable[[int], None]

ALPHA = 0.5
"""Level of the runs: the one that needs the fewest records."""

FIRST = 200
"""Runs on each data set, of the method just as it is, in which exact numbers are looked for."""

PILOT = 1000
"""Runs on each data set that choose numbers, or a change, where there are several."""

LEARNING, CHOOSING = 0.25, 0.15
"""Shares of the runs that teach the statistics, and that choose one; the others give the bounds."""

REMEMBERED = 10_000
"""Runs from which frequencies are learned."""

APART = 3.0
"""What μ a group of records is to have: errors at a middle threshold are then known best."""

MOST_RECORDS = 100
"""Records that differ in the group at most."""

SHARED = 512
"""Runs that share a call where labels are independent."""


@dataclass(frozen=True)
class _Claim:
    """What a run promises.

    Attributes
    ----------
    epsilon, delta
        The promise, and what the accountant makes of the events.
    accounted
        ε that is stated.
    gaussian
        Whether it is an account of Gaussian releases.
    viewer
        Against whom.
    """

    epsilon: float
    delta: float
    accounted: float
    gaussian: bool
    viewer: Viewer


def audit_method(
    method: Method,
    privacy: Privacy | None = None,
    runs: int = 200_000,
    *,
    labels: int = 2,
    claim: float | None = None,
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Audit:
    """Run a method many times on neighbouring data sets and try to break its ε.

    Each run is a real one, all rounds, through the halves that sites and servers run. Two bounds
    come from it, see `fedcover.audit.bounds`. The noise is the method's own and has no seed.

    Parameters
    ----------
    method
        A method with its options. It states an ε under `privacy`, or names one for what it
        publishes (`published_epsilon`).
    privacy
        What the run is asked to keep; None for a method that needs no budget.
    runs
        Runs on each data set: one, a neighbour, and one that differs in a group of records.
    labels
        Number of labels of a run that is made by itself.
    claim
        ε to test; without it the budget, or what the method states if that is less.
    confidence
        Probability that no bound is above the truth.
    progress
        Called with the number of runs done since the last call, `3 runs` in all.
    """
    runs = checks.whole(runs, "runs", 40)
    miss = 1 - checks.real(confidence, "confidence", 0, 1 - 1e-9, open_low=True)
    method = under_budget(method, privacy)
    budget = privacy or Privacy(1.0, 1e-5)  # of a method that has none: a record is replaced
    names = _sites(budget)
    task = _task(names, labels, privacy)
    stated = _claim(method, task, names)
    tested = stated.epsilon if claim is None else checks.real(claim, "claim", 0, math.inf)
    group = _group(stated, budget)
    most = getattr(method, "most_per_site", None)
    common = 100 if stated.viewer.published_only else 1 if most else 2

    told = progress or (lambda count: None)
    found = Audit(
        f"{method.label}, {_described(budget, stated.viewer)}",
        tested,
        stated.delta,
        0.0,
        confidence,
        stated.accounted,
        runs,
        gaussian=0.0 if stated.gaussian else None,
    )
    tried = [
        Alone.of(method, task, alone(names, labels, budget, c, group, common, most), stated.viewer)
        for c in CHANGES
    ]
    for bench in tried:
        if exact := _exact(bench, found, miss):
            told(3 * runs)
            # The curve of a finite μ allows no such number either.
            curve = math.inf if stated.gaussian else None
            return replace(found, lower=math.inf, gaussian=curve, exact=exact)
    if not any(bench.names for bench in tried):
        told(3 * runs)
        return found  # nothing is seen at all

    if hasattr(method, "with_few_bins"):
        method = method.with_few_bins()
    together = min(getattr(method, "independent_labels", 0) // 2, SHARED)
    if together > 1 and budget.unit == "record":
        many = _task(names, 2 * together, privacy)
        data = side_by_side(names, together, budget, group)
        return _measured(SideBySide(method, many, data, stated.viewer), found, stated, miss, told)
    benches = [Alone.of(method, task, bench.data, stated.viewer) for bench in tried]
    return _measured(max(benches, key=_apart), found, stated, miss, told)


def _exact(bench: Alone, found: Audit, miss: float) -> tuple[str, ...]:
    """What has no noise in some runs, nor in as many more as it takes to refute the claim."""
    count = min(FIRST, found.runs)
    one, other = (bench.collected(sites, count) for sites in (bench.data.one, bench.data.other))
    if not bench.names or not (seen := without_noise(one, other, bench.names)):
        return ()
    # One of them is tested again: several would need more runs to be as sure.
    again = bounds.runs_to_refute(found.claim, found.delta, miss / 6)
    if again > found.runs:
        return ()
    wrong = [
        seen[0].errors(bench.collected(sites, again), on_second)
        for sites, on_second in ((bench.data.one, False), (bench.data.other, True))
    ]
    return () if any(wrong) else tuple(e.what for e in seen)


def _measured(
    bench: Alone | SideBySide,
    found: Audit,
    stated: _Claim,
    miss: float,
    progress: Progress,
) -> Audit:
    """Both bounds, from runs of which each has one purpose."""
    data, runs = bench.data, found.runs
    pilot = [bench.collected(sites, min(PILOT, runs)) for sites in (data.one, data.group)]
    kept = largest_differences(*pilot)
    cuts = [0, *(int(share * runs) for share in (LEARNING, LEARNING + CHOOSING)), runs]
    counts = [b - a for a, b in pairwise(cuts)]

    def draw(sites: list[Site], count: int) -> Iterator[Float64]:
        for rows in bench.draw(sites, count):
            progress(len(rows))
            yield rows[:, kept]

    learned = [_Learned(pilot[0][0, kept]) for _ in range(3)]
    for each, sites in zip(learned, _three(data), strict=True):
        for rows in draw(sites, counts[0]):
            each.add(rows)
    one, other, group = learned
    statistics = _statistics(one, group) + _statistics(one, other)

    def values(count: int) -> list[Float64]:
        """(statistics, runs) for each data set."""
        return [
            np.concatenate(
                [np.array([s(rows) for s in statistics]) for rows in draw(sites, count)], axis=1
            )
            for sites in _three(data)
        ]

    if not statistics:
        progress(3 * (runs - counts[0]))
        return found
    trial = values(counts[1])
    # A third of the risk each: exact numbers, the threshold with two intervals, and the curve with
    # two pairs of data sets.
    events = [
        bounds.best_event(a, b, found.delta, miss / 6) for a, b in zip(*trial[:2], strict=True)
    ]
    event = max(range(len(events)), key=lambda k: events[k].promise)
    middles = [_best_middle(trial[0], trial[k]) for k in (1, 2)]
    rest = values(counts[2])
    lower = bounds.threshold_bound(
        events[event], rest[0][event], rest[1][event], found.delta, miss / 6
    )
    gaussian = None
    if stated.gaussian:
        mu = 0.0
        for k, (place, middle) in zip((1, 2), middles, strict=True):
            wrong = middle.errors(rest[0][place], rest[k][place])
            bound = bounds.gaussian_bound(wrong, 2 * counts[2], miss / 6)
            mu = max(mu, bound / (data.records if k == 2 else 1))
        gaussian = bounds.epsilon_of(mu, found.delta)
    return replace(found, lower=lower, gaussian=gaussian, records=data.records)


class _Learned:
    """What the learning runs on one data set leave behind."""

    def __init__(self, origin: Float64) -> None:
        self.moments = Moments(origin)
        self.rows: list[Float64] = []

    def add(self, rows: Float64) -> None:
        self.moments.add(rows)
        if sum(map(len, self.rows)) < REMEMBERED:
            self.rows.append(rows)


def _statistics(first: _Learned, second: _Learned) -> list[Statistic]:
    table = frequencies(np.concatenate(first.rows), np.concatenate(second.rows))
    return discriminants(first.moments, second.moments) + ([table] if table else [])


def _best_middle(first: Float64, second: Float64) -> tuple[int, bounds.Middle]:
    """The statistic whose test at a middle threshold errs least on some runs."""
    tests = [bounds.Middle.between(a, b) for a, b in zip(first, second, strict=True)]
    errors = [t.errors(a, b) for t, a, b in zip(tests, first, second, strict=True)]
    k = int(np.argmin(errors))
    return k, tests[k]


def _three(data: DataSets) -> tuple[list[Site], list[Site], list[Site]]:
    return data.one, data.other, data.group


def _apart(bench: Alone) -> float:
    """How far two data sets are apart, in all numbers together; only to choose by."""
    first, second = (bench.collected(sites, PILOT) for sites in (bench.data.one, bench.data.group))
    variance = first.var(axis=0) + second.var(axis=0)
    apart = (second.mean(axis=0) - first.mean(axis=0)) ** 2
    return float((apart / np.where(variance > 0, variance, np.inf)).sum())


def _sites(privacy: Privacy) -> tuple[str, ...]:
    """Enough sites that a share of the noise is neither all nor known."""
    return tuple(f"site-{k}" for k in range(2 + max(1, privacy.conspirators)))


def _task(names: tuple[str, ...], labels: int, privacy: Privacy | None) -> Task:
    targets = tuple(Target(name, (name,)) for name in names)
    return Task(names, labels, (ALPHA,), targets, privacy=privacy)


def _claim(method: Method, task: Task, names: tuple[str, ...]) -> _Claim:
    """What is promised of this run; refused where that is nothing."""
    stated = method.statement(task)
    if stated is None:
        published = getattr(method, "published_epsilon", None)
        if published is None:
            raise _no_claim(method)
        return _Claim(published, 0.0, published, False, Viewer(published_only=True))
    if not math.isfinite(stated.epsilon):
        raise _no_claim(method)
    asked = task.privacy.epsilon if task.privacy else math.inf
    conspirators = names[len(names) - stated.conspirators :] if stated.secure_sum else ()
    return _Claim(
        # A user relies on the budget as well as on the statement.
        min(asked, stated.epsilon) if stated.events else stated.epsilon,
        stated.delta,
        stated.epsilon,
        bool(stated.events) and all(map(_gaussian, stated.events)),
        Viewer(stated.secure_sum, conspirators),
    )


def _gaussian(event: Event) -> bool:
    return isinstance(event, GaussianRelease) and event.sampled is None


def _no_claim(method: Method) -> FedcoverError:
    return FedcoverError(
        f"method {method.label} states no ε here",
        allowed="a registered method that states one: sketch, dp-fedcp and local with a budget, "
        "exponential-mechanism without",
        fix="Choose another; without a claim there is nothing to refute",
    )


def _group(stated: _Claim, privacy: Privacy) -> int:
    """Records of the group: so many that their μ is about `APART`."""
    if not stated.gaussian or privacy.unit == "site" or stated.epsilon <= 0:
        return 1
    mu = bounds.mu_of(stated.epsilon, stated.delta)
    return int(min(MOST_RECORDS, max(1, round(APART / mu))))


def _described(privacy: Privacy, viewer: Viewer) -> str:
    if viewer.published_only:
        return "one record, replace, seen by who sees what is published"
    seen = privacy.view
    if viewer.conspirators:
        seen += f" and the noise of {len(viewer.conspirators)} of the sites"
    return f"ε = {privacy.epsilon:g}, one {privacy.unit}, {privacy.relation}, {seen}"
