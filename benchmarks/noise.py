"""Noise for a table of 256,000 cells: fedcover's exact sampler against opendp's, CPU time.

Fair because both draw from the same exact law, one thread each, in turns in one process, from the
operating system's randomness; both add their noise to a vector of integers made beforehand, each in
the form its interface takes (opendp: a list; fedcover: an array). Building opendp's measurement and
fedcover's tables (once per process) is not timed. The other rows are fedcover's own, for scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from statistics import median

import numpy as np
import opendp.prelude as dp
from rich.table import Table

from benchmarks import measure
from fedcover.privacy import noise

CELLS = 256_000
VARIANCES = {"1/2": Fraction(1, 2), "3": Fraction(3), "14": Fraction(14), "10⁴": Fraction(10**4)}


def tables(quick: bool) -> Iterator[Table]:
    dp.enable_features("contrib")
    variances = {"14": VARIANCES["14"]} if quick else VARIANCES
    repeats = 1 if quick else 3
    counts = np.random.default_rng(0).integers(0, 100, CELLS)
    as_list = counts.tolist()

    jobs: dict[tuple[str, str], measure.Prepare] = {}
    for name, variance in variances.items():
        jobs["opendp", name] = partial(_opendp, math.sqrt(variance), as_list)
        jobs["fedcover", name] = partial(_added, counts, partial(noise.integer_gaussian, variance))
    jobs["skellam", "14"] = partial(_added, counts, partial(noise.skellam, 14))
    jobs["gaussian", "14"] = partial(_added, counts, partial(noise.gaussian, math.sqrt(14)))
    for name in variances:
        jobs["fedcover", name]()()  # tables are made once per process
    taken = {job: median(times) for job, times in measure.in_turns(jobs, repeats).items()}

    made = measure.table(
        f"Noise for {CELLS:,} cells",
        "law",
        "opendp",
        "fedcover",
        "opendp / fedcover",
        "required",
        caption=f"CPU time, in turns, median of {repeats}.",
    )
    for name in variances:
        peer, ours = taken["opendp", name], taken["fedcover", name]
        times = measure.seconds(peer), measure.seconds(ours), f"{peer / ours:.0f}×"
        made.add_row(f"discrete Gaussian, σ² = {name}", *times, "≥ 8×")
    for kind, text in (("skellam", "Skellam"), ("gaussian", "Gaussian on a fine grid")):
        made.add_row(f"{text}, σ² = 14", "", measure.seconds(taken[kind, "14"]))
    yield made


def _opendp(scale: float, values: list[int]) -> measure.Job:
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    return partial(dp.m.make_gaussian(*space, scale=scale), values)


def _added(counts: np.ndarray, draw: Callable[[int], np.ndarray]) -> measure.Job:
    return lambda: counts + draw(len(counts))
