"""Audits: run a method on two neighbouring data sets and try to break its claim of privacy.

Every (ε, δ)-private method obeys P(A) ≤ e^ε Q(A) + δ for every event A, where P and Q are the laws
of what is seen on two neighbouring data sets. So a frequent A under P that is rare under Q proves
a lower bound on ε. A is "the statistic lies beyond a threshold"; threshold and direction are
chosen on one part of the runs, and the bound comes from the others by Clopper-Pearson intervals.
A lower bound above the claim contradicts it; one below proves nothing. The noise is the method's
own. Many runs share a call: their records touch cells of their own, and every cell's noise is
drawn alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.checks import Seed
from fedcover.engines.base import Asked, drive, queries_of, sum_replies
from fedcover.methods.base import Method, Published, Round, SumRound, Target, Task
from fedcover.methods.dp_fedcp.algorithm1 import AlgorithmOne
from fedcover.methods.dp_fedcp.method import DPFedCP
from fedcover.methods.sketch.factor import coefficients
from fedcover.methods.sketch.method import Sketch
from fedcover.methods.sketch.table import SketchTable
from fedcover.privacy import accounting
from fedcover.privacy.statement import Privacy
from fedcover.site import Site

Float64 = NDArray[np.float64]
Progress = Callable[[int], None]

BATCH = 1 << 14  # runs in one call
CHOOSING = 0.25  # share of the runs that choose the threshold; the others give the bound


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    method
        What was run.
    claim, delta
        What was tested.
    lower, confidence
        ε is at least this, with this probability; infinite where something differs without noise.
    accounted
        ε that the accountant gives the method at this δ.
    runs
        Runs on each of the two data sets.
    """

    method: str
    claim: float
    delta: float
    lower: float
    confidence: float
    accounted: float
    runs: int

    @property
    def contradicted(self) -> bool:
        """Whether the claim is refuted at the stated confidence."""
        return self.lower > self.claim

    def describe(self) -> str:
        """The verdict in one sentence."""
        proof = f"{self.runs:,} runs on each of two neighbouring data sets prove ε ≥ "
        proof += f"{self.lower:.3f} at δ = {self.delta:g}, with {self.confidence:.0%} confidence"
        if self.contradicted:
            return f"CONTRADICTED: the claim is ε = {self.claim:.4g}, but {proof}."
        part = f" ({self.lower / self.claim:.0%} of it)" if self.claim > 0 else ""
        return f"not contradicted: the claim is ε = {self.claim:.4g}, and {proof}{part}."


def lower_bound(
    first: Float64, second: Float64, delta: float, confidence: float = 0.95, seed: Seed = None
) -> float:
    """A lower bound on ε from independent runs on two neighbouring data sets.

    Parameters
    ----------
    first, second
        A number for every run on either data set; any statistic is valid, the log-likelihood
        ratio of what is seen is the best.
    delta, confidence
        δ of the claim, and the probability with which the bound is right.
    seed
        Of the split into runs that choose the threshold and runs that give the bound.
    """
    delta = checks.real(delta, "delta", 0, 1)
    # Half of the risk for each of the two intervals, P(A) and Q(A).
    miss = (1 - checks.real(confidence, "confidence", 0, 1 - 1e-9, open_low=True)) / 2
    rng = checks.generator(seed, "audit")
    # The runs that choose must be a random part: those that bound are then fresh to the choice.
    shuffled = [rng.permutation(np.asarray(x, dtype=np.float64)) for x in (first, second)]
    cut = int(CHOOSING * checks.whole(min(map(len, shuffled)), "runs", 8))
    best, choice = -np.inf, (1.0, 0, 0.0)
    # Both tails, and both data sets in the role of P: ε bounds all four.
    for sign in (1.0, -1.0):
        trial = [np.sort(sign * x[:cut]) for x in shuffled]
        both = np.sort(np.concatenate(trial))
        # Thresholds between runs, from a single one of them beyond to half of them.
        beyond = np.unique(np.geomspace(1, cut, 200).astype(np.int64))
        at = (both[-beyond] + both[-beyond - 1]) / 2
        above = [cut - np.searchsorted(x, at, side="right") for x in trial]
        for one in (0, 1):
            # Far stricter than below, or a lucky handful of runs in the tail would be chosen.
            bounds = _bound(above[one], cut, above[1 - one], cut, delta, miss / 100)
            if bounds.max() > best:
                best, choice = bounds.max(), (sign, one, at[bounds.argmax()])
    sign, one, threshold = choice
    rest = [sign * x[cut:] for x in shuffled]
    (many, n_many), (few, n_few) = (((x > threshold).sum(), len(x)) for x in rest[:: 1 - 2 * one])
    return max(0.0, float(_bound(many, n_many, few, n_few, delta, miss)))


def _bound(many: Any, n_many: int, few: Any, n_few: int, delta: float, miss: float) -> Any:
    """log((P(A) - δ) / Q(A)), P(A) at its lower and Q(A) at its upper Clopper-Pearson end."""
    from scipy.stats import beta

    low = np.where(many > 0, beta.ppf(miss, np.maximum(many, 1), n_many - many + 1), 0.0) - delta
    high = np.where(few < n_few, beta.ppf(1 - miss, few + 1, np.maximum(n_few - few, 1)), 1.0)
    # P(A) - δ ≤ e^ε Q(A), with both ends on the side that makes ε small: the bound may be weak but
    # not wrong.
    return np.log(np.maximum(low, 1e-300) / high)


def watched(method: Method, task: Task, sites: list[Site]) -> tuple[Published, list[Asked]]:
    """Both halves of a method to the end: what is published, and all queries sent."""
    by_name, sent = {s.name: s for s in sites}, list[Asked]()

    def ask(number: int, queries: Asked) -> Round:
        sent.append(queries)
        replies = {n: method.answer(q, by_name[n]) for n, q in queries_of(queries).items()}
        if isinstance(queries, SumRound):
            return {"sum": sum_replies(queries, replies, task.sites)}
        return replies

    return drive(method.server(task), ask), sent


def audit_sketch(
    privacy: Privacy,
    runs: int = 1_000_000,
    *,
    claim: float | None = None,
    confidence: float = 0.95,
    seed: Seed = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit the private sketch, which private DP-FedCP is as well, at the level of records.

    The data sets differ in one record, which has another label (or is missing in one of them, for
    add-remove). Run j owns the labels 2j and 2j+1. Two score bins stand for all: a record in the
    top one moves every number of its row, and the noise is made for just that.

    Parameters
    ----------
    privacy
        What the run is asked to keep.
    runs
        Runs on each of the two data sets.
    claim
        ε to test; without it the one of the method's own statement.
    confidence, seed
        As in `lower_bound`; the noise has no seed.
    progress
        Called with the number of runs done since the last call, `2 runs` in all.
    """
    method, names = Sketch(bins=(0, 0.5, 1)), ("a",) if privacy.view == "server" else ("a", "b")
    stated = method.statement(Task(names, 3, (0.1,), privacy=privacy))
    assert stated is not None  # the task asks for privacy
    values, leak = (list[Float64](), list[Float64]()), False
    for start in range(0, checks.whole(runs, "runs", 8), BATCH):
        count = min(BATCH, runs - start)
        task = Task(names, 2 * count + 1, (0.1,), privacy=privacy)
        plain = []
        for world, sites in enumerate(neighbours(names, count, privacy.relation)):
            seen, sent = watched(method, task, sites)
            values[world].append(statistic(seen, sent, privacy.relation))
            plain.append(_without_noise(sent, sites, method))
        leak |= plain[0] != plain[1]  # something travels that differs, without noise
        if progress:
            progress(2 * count)
    first, second = (np.concatenate(v) for v in values)
    lower = lower_bound(first, second, privacy.delta, confidence, seed)
    claim = stated.epsilon if claim is None else checks.real(claim, "claim", 0, math.inf)
    what = f"The sketch at ε = {privacy.epsilon:g}, one record, {privacy.relation}, {privacy.view}"
    proven = math.inf if leak else lower
    return Audit(what, claim, privacy.delta, proven, confidence, stated.epsilon, runs)


def neighbours(names: tuple[str, ...], count: int, relation: str) -> tuple[list[Site], list[Site]]:
    """Two federations of `count` runs side by side; only the first site differs.

    One more record, of a label of its own, keeps every site from being empty.
    """
    labels = 2 * count + 1
    places = np.arange(0, labels, 2), np.append(np.arange(1, labels, 2), labels - 1)
    if relation == "add-remove":
        places = places[0], np.array([labels - 1])
    others = [Site(n, [1.0], [labels - 1], n_classes=labels) for n in names[1:]]
    first, second = (Site(names[0], np.ones(len(p)), p, n_classes=labels) for p in places)
    return [first, *others], [second, *others]


def _without_noise(sent: list[Asked], sites: list[Site], method: Method) -> list[dict[str, Any]]:
    """The plain numbers of the first site's replies."""
    return [dict(method.answer(queries_of(q)["a"], sites[0]).numbers) for q in sent]


def statistic(seen: SketchTable, sent: list[Asked], relation: str) -> Float64:
    """The log-likelihood ratio of every run, up to a constant: changed numbers over σ²."""
    numbers = queries_of(sent[0])["a"].numbers
    parts = len(seen.sites)
    # One record in the top bin adds a whole column of the factor: the ratio weighs each measured
    # number by what it changes, over the variance of all sites' noise in the sum.
    column = coefficients(seen.layout.bins).astype(np.float64)
    table = seen.table @ column / (float(numbers["table_sigma"]) ** 2 * parts)
    labels = seen.labels / (float(numbers["label_sigma"]) ** 2 * parts)
    total = ((table + labels) * seen.scale)[:-1].reshape(-1, 2)
    return total[:, 0] - (total[:, 1] if relation == "replace" else 0)


def audit_paper(
    epsilon: float = 0.9,
    delta: float = 1e-5,
    runs: int = 4_000_000,
    *,
    claim: float | None = None,
    confidence: float = 0.95,
    seed: Seed = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit Algorithm 1 with the noise of Theorem 4.4: n = 2 sites, S = T = K = 1, λ = ½.

    The data sets differ in the scores of one site; what is seen are the published thresholds. A
    run has many (target, label) cells with noise of their own but one draw of the site that takes
    part, so cells are kept by that draw and handed out by a fresh, fair one for each audit.

    Parameters
    ----------
    epsilon, delta
        What the noise is chosen for by the paper's formula.
    runs, claim, confidence, seed, progress
        As in `audit_sketch`; the claim is `epsilon` unless given.
    """
    from fedcover.bounds import theorem_4_4_paper_noise

    noise = theorem_4_4_paper_noise(epsilon, delta, 1, 1, 2, 1, 0.5)
    events = AlgorithmOne(noise, (0.5, 0.5), 1, 1, 1).secure_sum_events()
    method = DPFedCP(1, 1, sites_per_round=1, start=0.5, average="last", gradient_noise=noise)
    labels, even = np.repeat(np.arange(128), 4), np.full(128, 1 / 128)
    targets = tuple(Target(str(t), distribution=even) for t in range(BATCH // 128))
    task = Task(("a", "b"), 128, (0.1,), targets)
    checks.whole(runs, "runs", 8)
    values = []
    for score in (1.0, 0.0):  # of site b; all scores of site a are 0
        sites = [
            Site(n, np.full(len(labels), v), labels, n_classes=128)
            for n, v in (("a", 0.0), ("b", score))
        ]
        # How often which site takes part: the audit's own sample, no privacy noise.
        drawn = int(np.random.default_rng().binomial(runs, 0.5))
        need, kept = {"a": drawn, "b": runs - drawn}, list[Float64]()
        while any(need.values()):
            published, sent = watched(method, task, sites)
            (name,) = queries_of(sent[-1])  # who took part
            cells = np.concatenate([fit.thresholds[0] for fit in published.values()])
            kept.append(cells[: need[name]])
            need[name] -= len(kept[-1])
            if progress:
                progress(len(kept[-1]))
        values.append(np.concatenate(kept))
    lower = lower_bound(values[0], values[1], delta, confidence, seed)
    claim = epsilon if claim is None else checks.real(claim, "claim", 0, math.inf)
    what = f"Algorithm 1 with the paper's noise σ_g = {noise:.4g}, one site, replace, output only"
    return Audit(what, claim, delta, lower, confidence, accounting.epsilon(events, delta), runs)
