"""How CPU time grows with records, sites, labels and classes: the slope of log time over log size.

Claimed: no faster than N log N in records, linear in sites and in labels. A slope of 1 is linear;
N log N over the sizes measured has the slope in the column "claimed". Fixed costs pull the slope
over all sizes down, so the one between the two largest sizes stands beside it. The smallest of
several times counts, with the sizes taken in turns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from rich.table import Table

import fedcover as fc
from benchmarks import federation, measure

SEARCH = fc.methods.DPFedCP()
STEPS = fc.methods.DPFedCP.paper(rounds=10, subsample=False)
METHODS = {"DPFedCP() by search": SEARCH, "DPFedCP.paper(rounds=10)": STEPS}


def tables(quick: bool) -> Iterator[Table]:
    repeats = 3 if quick else 9
    made = measure.table(
        "Growth of CPU time: time ∝ size^slope",
        "grows, of",
        "sizes",
        "time",
        "slope",
        "at the end",
        "claimed",
        caption="“slope” is the least-squares fit over all sizes, “at the end” between the two "
        f"largest. Smallest of {repeats} times each. Records: 10 sites, 100 labels. Sites: 200 "
        "records each, 100 labels, one target. Labels: 10 sites, 20,000 records.",
    )
    for what, sizes, prepare, claim in _jobs(quick):
        jobs = {size: partial(prepare, size) for size in sizes}
        measure.in_turns(jobs, 1)  # compiles, and fills caches
        times = {size: min(t) for size, t in measure.in_turns(jobs, repeats).items()}
        ends = [dict(list(times.items())[k:]) for k in (0, -2)]
        made.add_row(
            what,
            f"{sizes[0]:,} … {sizes[-1]:,}",
            f"{measure.seconds(times[sizes[0]])} … {measure.seconds(times[sizes[-1]])}",
            *(f"{slope(part):.2f}" for part in ends),
            f"{slope({size: claim(size) for size in sizes}):.2f}",
        )
    yield made


def slope(times: dict[int, float]) -> float:
    """Least-squares slope of log time over log size."""
    return float(np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0])


def n_log_n(size: int) -> float:
    return size * np.log(size)


def _jobs(quick: bool) -> Iterator[tuple[str, list[int], Callable[[int], measure.Job], Callable]]:
    """Name, sizes, how to make the job of a size, and the growth claimed for it."""
    top = 2 if quick else 3
    records = [10_000, 30_000, 100_000, 300_000, 1_000_000][: top + 2]
    for name, method in METHODS.items():
        yield f"records, {name}", records, partial(_records, method), n_log_n
    for name, method in METHODS.items():
        yield f"sites, {name}", [10, 30, 100, 300, 1000][: top + 2], partial(_sites, method), float
    for name, method in METHODS.items():
        sizes = [10, 30, 100, 300, 1000, 3000][: top + 3]
        yield f"labels, {name}", sizes, partial(_labels, method), float
    yield "rows, APS.of_all", [500, 1000, 2000, 4000, 8000][: top + 2], _rows, float
    yield "classes, APS.of_all", [100, 200, 400, 800, 1600][: top + 2], _columns, n_log_n


_kept: dict[tuple[int, int, int], list[fc.Site]] = {}


def _calibration(
    method: fc.methods.DPFedCP, n_sites: int, records_each: int, n_classes: int
) -> measure.Job:
    key = (n_sites, records_each, n_classes)
    if key not in _kept:
        _kept[key] = federation.sites([records_each] * n_sites, n_classes)
    sites = federation.again(_kept[key])

    def job() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fc.FedcoverWarning)
            fc.calibrate(sites, 0.1, method, targets=[sites[-1].name], seed=0)

    return job


def _records(method: fc.methods.DPFedCP, size: int) -> measure.Job:
    return _calibration(method, 10, size // 10, 100)


def _sites(method: fc.methods.DPFedCP, size: int) -> measure.Job:
    return _calibration(method, size, 200, 100)


def _labels(method: fc.methods.DPFedCP, size: int) -> measure.Job:
    return _calibration(method, 10, 2000, size)


def _rows(size: int) -> measure.Job:
    return _scores(size, 1000)


def _columns(size: int) -> measure.Job:
    return _scores(2000, size)


def _scores(n: int, n_classes: int) -> measure.Job:
    probs = np.random.default_rng(0).dirichlet(np.full(n_classes, 0.1), n).astype(np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    return partial(fc.scores.APS().of_all, probs, seed=0)
