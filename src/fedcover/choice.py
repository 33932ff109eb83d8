"""Which method to take: the sketch or iterative DP-FedCP, by predicted error and cost."""

from __future__ import annotations

import math

from fedcover.engines.base import Engine
from fedcover.methods import DPFedCP, Sketch
from fedcover.protocols import private
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
    sketch, iterative = _sketch_error(task), _iterative_error(task)
    chosen: Method = Sketch() if sketch <= iterative * (1.0 if fast else 1.2) else DPFedCP()
    return chosen, (
        f"{chosen.label}: predicted noise on the coverage at ε={task.privacy.epsilon:g} for "
        f"{len(task.targets)} target(s) is {sketch:.3f} with the sketch in one or two rounds, "
        f"{iterative:.3f} with DP-FedCP in three"
    )


def _sketch_error(task: Task) -> float:
    """Noise and bins of the sketch; the same for any number of targets and levels."""
    assert task.privacy is not None
    records = task.records or plan.RECORDS_UNKNOWN
    grouped = plan.groups_pay(task.privacy, task.n_classes, len(task.sites), records, None)
    rows, columns = (plan.MOST_GROUPS, 2) if grouped else (task.n_classes, 1)
    sigma = plan.row_noise(task.privacy, len(task.sites), None, columns)
    noise = plan.mixture_noise(sigma, rows, records)
    return plan.least_error(noise)


def _iterative_error(task: Task) -> float:
    """Noise of DP-FedCP's second histogram, which grows with the number of targets."""
    assert task.privacy is not None
    records = task.records or plan.RECORDS_UNKNOWN
    sigma = private.plan(task, task.privacy, public_counts=False).histogram_sigmas[1]
    shared = task.privacy.view == "secure-sum"
    sites = len(task.sites) / max(1, len(task.sites) - 1) if shared else len(task.sites)
    heaviest = 2 * math.sqrt(task.n_classes)  # ŵ of the heaviest record, typically
    noise = sigma / private.WEIGHT_SCALE * heaviest * math.sqrt(sites) / records
    return plan.least_error(noise)
