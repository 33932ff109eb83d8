"""The quantile by search: a bracket per (target, α, label), narrowed many-fold in every round.

The query label and α only move the level (1-α)(W + w_y) that G(q) = Σ_k w_{Y_k} 1{V_k ≤ q} must
reach, so one function per target serves them all. Brackets are cells of a fixed grid: labels in
the same cell share their query points, and every point is an exact binary fraction.

The answer is the upper end of the last cell: at least the exact quantile, at most γ above it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.protocols.base import Float64, Message, Round, Task, read_array
from fedcover.quantile import rounding_slack
from fedcover.site import Site

MOST_BITS = 52
"""Beyond 2^-52 neighbouring query points are one floating-point number."""

BITS_PER_ROUND = 4
"""16 cells per bracket and round: five rounds reach 1e-6, with 15 numbers a bracket each."""


def schedule(gamma: float, rounds: int) -> list[int]:
    """How many bits each round adds to the brackets, so that the last are no wider than γ."""
    total = min(MOST_BITS, max(1, math.ceil(-math.log2(gamma))))
    bits = max(BITS_PER_ROUND, math.ceil(total / rounds))
    if bits > 16:
        raise FedcoverError(
            f"gamma={gamma:g} in {rounds} rounds",
            allowed=f"at least {math.ceil(total / 16)} rounds for this gamma",
            fix="Raise rounds or gamma",
        )
    return [min(bits, total - done) for done in range(0, total, bits)]


def thresholds(
    task: Task, ratios: Float64, used: NDArray[np.int64], seed: int, gamma: float, rounds: int
) -> Generator[Round, Round, tuple[Float64, Float64]]:
    """Server half: thresholds (targets, A, C) of the distributions μ̂_y, and W of every target."""
    keep = 1 - np.asarray(task.alphas)[:, None]
    shape = (len(task.targets), len(task.alphas), task.n_classes)
    level, total = np.empty(shape), np.empty(len(task.targets))
    # A bracket is (cell-1, cell]·2^-depth. Two kinds need no more rounds: cell 0 (the mass at
    # score 0 is enough) and cell -1 (not even the total is: the quantile is the point mass at 1).
    cell = np.empty(shape, dtype=np.int64)
    depth = 0
    for bits in schedule(gamma, rounds):
        first, fine = depth == 0, 1 << bits
        depth += bits
        if first:
            points = [np.arange(fine + 1)] * len(task.targets)
        else:
            open_cells = [np.unique(c[c > 0]) for c in cell]
            points = [((o[:, None] - 1) * fine + np.arange(1, fine)).ravel() for o in open_cells]
        mass = yield from _ask(task, ratios, used, seed, points, 2.0**-depth)
        for t, g in enumerate(mass):
            if first:
                total[t] = g[-1]
                slack = rounding_slack(total[t], int(used.sum()))
                level[t] = keep * (total[t] + ratios[t]) - slack
                reached = np.searchsorted(g, level[t])
                cell[t] = np.where((reached > fine) | (total[t] <= 0), -1, reached)
            else:
                row = np.searchsorted(open_cells[t], cell[t])
                inner = np.searchsorted(g, level[t]) - row * (fine - 1)
                finer = (cell[t] - 1) * fine + 1 + np.clip(inner, 0, fine - 1)
                cell[t] = np.where(cell[t] > 0, finer, cell[t])
    return np.where(cell < 0, 1.0, cell * 2.0**-depth), total


def _ask(
    task: Task,
    ratios: Float64,
    used: NDArray[np.int64],
    seed: int,
    points: list[NDArray[np.int64]],
    scale: float,
) -> Generator[Round, Round, list[Float64]]:
    """G at the given grid points of every target, summed over the sites."""
    ends = np.cumsum([0, *(len(p) for p in points)])
    arrays = {"ratios": ratios, "points": np.concatenate(points) * scale, "ends": ends}
    replies = yield {
        name: Message("mass", arrays, {"size": int(size), "seed": seed})
        for name, size in zip(task.sites, used, strict=True)
    }
    total, target = np.zeros(ends[-1]), np.repeat(np.arange(len(points)), np.diff(ends))
    within = target[1:] == target[:-1]
    for name in task.sites:
        mass = read_array(replies, name, "mass", total.shape, least=0)
        falls = mass[1:] < mass[:-1]
        if (falls & within).any():
            raise FedcoverError(
                f"site {name!r} answered with weighted counts that fall",
                allowed="counts that grow with the query point",
                fix="Check that site's data, or leave it out",
            )
        total += mass
    return [total[a:b] for a, b in itertools.pairwise(ends)]


def answer(query: Message, site: Site) -> Message:
    """Site half: Σ_k w_{Y_k} 1{V_k ≤ q} at every point of every target."""
    ratios, points, ends = (query.arrays[k] for k in ("ratios", "points", "ends"))
    scores, labels = site.sorted_records(int(query.numbers["size"]), int(query.numbers["seed"]))
    mass = np.empty(len(points))
    rank = np.searchsorted(scores, points, side="right")
    for t in range(len(ratios)):
        mine = slice(ends[t], ends[t + 1])
        mass[mine] = np.append(0.0, np.cumsum(ratios[t][labels]))[rank[mine]]
    return Message("mass", {"mass": mass})
