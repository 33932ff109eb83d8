"""Which method to take: the sketch or iterative DP-FedCP, by predicted error and cost."""

from __future__ import annotations

import math

from fedcover.engines.base import Engine
from fedcover.methods import DPFedCP, Local, Sketch
from fedcover.privacy.statement import Privacy
from fedcover.protocols.base import Method, Task
from fedcover.sketch import plan

MANY_CELLS = 1 << 22
"""Cells of an exact table beyond which a few rounds of sums are cheaper to send."""


def choose_method(task: Task, engine: Engine) -> tuple[Method, str]:
    """The method, and why."""
    fast = getattr(engine, "seconds_per_round", 0.0) < 0.5
    pairs = len(task.targets) * len(task.alphas)
    if any(t.distribution is None and len(t.members) != 1 for t in task.targets):
        return (
            DPFedCP(),
            "DP-FedCP: a target is a group of sites, whose counts the sketch keeps home",
        )
    if task.privacy is None:
        if task.n_classes * 1024 > MANY_CELLS and fast:
            return DPFedCP(), (
                f"DP-FedCP: a table of {task.n_classes} labels is larger than its rounds, and "
                "rounds are cheap here"
            )
        if fast and pairs == 1:
            return DPFedCP(), "DP-FedCP: one target and level, and rounds are cheap here"
        return Sketch(), (
            f"Sketch: one round for {pairs} pairs of target and level, each less than 1e-3 above "
            "the exact quantile"
        )
    return _with_budget(task, task.privacy)


def _with_budget(task: Task, privacy: Privacy) -> tuple[Method, str]:
    """The sketch, or every site alone where that is predicted to be nearer; by public numbers.

    How a target's labels are mixed is not public: the sketch's error is between that of an even mix
    and that of a single label with an even share of the records.
    """
    if task.sizes is None:
        return Sketch(), "Sketch: one round; numbers of records are not public, nothing to predict"
    alpha, records, labels = max(task.alphas), sum(task.sizes), task.n_classes
    layout = Sketch().layout(task)
    noise = plan.predicted_deviation(privacy, layout, task.noisy, records, None)
    sample = math.sqrt(alpha * (1 - alpha) / records)
    even, single = math.hypot(noise, sample), math.sqrt(labels) * math.hypot(noise, sample)
    own = dict(zip(task.sites, task.sizes, strict=True))
    fewest = min(own.get(t.members[0], 0) if t.members else 0 for t in task.targets)
    alone = math.sqrt(alpha * (1 - alpha) / fewest) if fewest else math.inf
    said = (
        f"predicted deviation of the coverage at α={alpha:g} and ε={privacy.epsilon:g}: sketch ± "
        f"{even:.3f} for an even label mix, up to ± {single:.3f} for a single label"
    )
    if alone < even:
        return Local(), f"Local: {said}; the smallest target alone ± {alone:.3f}"
    return Sketch(), f"Sketch: {said}"
