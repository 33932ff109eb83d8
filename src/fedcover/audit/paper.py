"""The audit of Algorithm 1 as published: only thresholds are seen, and who takes part is hidden."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.audit.bounds import lower_bound
from fedcover.audit.result import Audit
from fedcover.audit.running import watch
from fedcover.checks import Seed
from fedcover.engines.base import queries_of
from fedcover.methods.base import Target, Task
from fedcover.methods.dp_fedcp.algorithm1 import AlgorithmOne
from fedcover.methods.dp_fedcp.method import DPFedCP
from fedcover.privacy import accounting
from fedcover.site import Site

Float64 = NDArray[np.float64]

CELLS = 1 << 14
"""(target, label) cells of one call."""


def audit_paper(
    epsilon: float = 0.9,
    delta: float = 1e-5,
    runs: int = 4_000_000,
    *,
    claim: float | None = None,
    confidence: float = 0.95,
    seed: Seed = None,
    progress: Callable[[int], None] | None = None,
) -> Audit:
    """Audit Algorithm 1 with the noise of Theorem 4.4: n = 2 sites, S = T = K = 1, λ = ½.

    The data sets differ in the scores of one site; what is seen are the published thresholds. A
    run has many (target, label) cells with noise of their own but one draw of the site that takes
    part, so cells are kept by that draw and handed out by a fresh, fair one for each audit.

    Parameters
    ----------
    epsilon, delta
        What the noise is chosen for by the paper's formula.
    runs
        Runs on each of the two data sets.
    claim
        ε to test; `epsilon` unless given.
    confidence, seed
        As in `lower_bound`; the noise has no seed.
    progress
        Called with the number of runs done since the last call, about `2 runs` in all.
    """
    from fedcover.bounds import theorem_4_4_paper_noise

    noise = theorem_4_4_paper_noise(epsilon, delta, 1, 1, 2, 1, 0.5)
    events = AlgorithmOne(noise, (0.5, 0.5), 1, 1, 1).secure_sum_events()
    method = DPFedCP(1, 1, sites_per_round=1, start=0.5, average="last", gradient_noise=noise)
    labels, even = np.repeat(np.arange(128), 4), np.full(128, 1 / 128)
    targets = tuple(Target(str(t), distribution=even) for t in range(CELLS // 128))
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
            published, watched = watch(method, task, sites)
            (name,) = queries_of(watched.rounds[-1][0])  # who took part
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
