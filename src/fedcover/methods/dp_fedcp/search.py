"""The quantile by search: a bracket per (target, α, label), narrowed many-fold in every round.

The query label and α only move the level (1-α)(W + w_y) that G(q) = Σ_k w_{Y_k} 1{V_k ≤ q} must
reach, so one function per target serves them all. The search is one among positions, which resolve
both ends: scores of a sure model crowd within 10⁻⁶ of 1, and their quantile lies between them.
Labels with the same bracket share their query points.

The answer is the upper end of the last bracket: at least the exact quantile, and at most γ above it
relative to the distance to the nearer end (2γ/3 at 3/4). A bracket that still holds many records is
narrowed further, at most to a single position, where tied scores are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.methods.base import Float64, Message, Round, Task
from fedcover.methods.queries import read_floats, read_wholes, strange, used_records
from fedcover.methods.replies import read_array
from fedcover.position import TOP, Positions, positions
from fedcover.quantile import rounding_slack
from fedcover.site import Site

MOST_BITS = 52
"""Positions of a factor of two: beyond 2^-52 of a distance there is a single one."""

BITS_PER_ROUND = 5
"""32 parts per bracket and round: five rounds reach 1e-6, with 31 numbers a bracket each."""

CROWD_BITS = 8
"""256 parts where scores crowd: four more rounds end at a single position."""

CROWD = 1e-3
"""A bracket with more than this share of all weight, and more than one record, is narrowed on; one
of a score with steps always, because there labels crowd that are no record's own."""


def _first() -> Positions:
    """Where the first round asks: sixteenths, factors of two towards both ends, and the ends."""
    low = np.append(2.0 ** -np.array([512, 256, 128, 64, 48, 32, *range(24, 0, -1)]), 3 / 16)
    low = positions(np.concatenate([low, np.array([5, 6, 7]) / 16]))
    return np.unique(np.concatenate([[0, 1, TOP - 1, TOP], low, TOP - low]))


FIRST = _first()


def bits_per_round(gamma: float, rounds: int) -> int:
    """How many bits each round after the first adds, so that γ is reached within the rounds."""
    needed = _bits(gamma)
    if needed > 16 * (rounds - 1):
        raise FedcoverError(
            f"gamma={gamma:g} in {rounds} rounds",
            allowed=f"at least {1 + math.ceil(needed / 16)} rounds for this gamma",
            fix="Raise rounds or gamma",
        )
    return max(BITS_PER_ROUND, math.ceil(needed / max(1, rounds - 1)))


def most_rounds(gamma: float, rounds: int) -> int:
    """At most how many rounds a search takes; scores that do not crowd take no more than half."""
    wide = max(float(np.diff(FIRST).max()), 1.0)
    coarse = math.ceil((math.log2(wide) - MOST_BITS + _bits(gamma)) / bits_per_round(gamma, rounds))
    crowd = math.ceil((MOST_BITS - _bits(gamma)) / CROWD_BITS)
    return min(rounds, 1 + max(0, coarse) + crowd)


def _bits(gamma: float) -> int:
    return min(MOST_BITS, max(0, math.ceil(-math.log2(gamma))))


def quantiles(
    task: Task, ratios: Float64, used: NDArray[np.int64], seed: int, gamma: float, rounds: int
) -> Generator[Round, Round, tuple[Positions, Float64]]:
    """Server half: positions (targets, A, C) of the quantiles of μ̂_y, and W of every target."""
    keep = 1 - np.asarray(task.alphas)[:, None]
    # One G for each target: label and α only move the level (eq. 8).
    shape = (len(task.targets), len(task.alphas), task.n_classes)
    level, total = np.empty(shape), np.empty(len(task.targets))
    slack = np.empty(len(task.targets))
    # Brackets (low, high], and G at both ends. One that ends at TOP + 1 is the point mass at 1:
    # not even the total is enough.
    low, high = np.empty((2, *shape), dtype=np.int64)
    below, upto = np.empty((2, *shape))
    bits = bits_per_round(gamma, rounds)
    narrow = 1 << (MOST_BITS - _bits(gamma))
    crowd = -1.0 if task.score is not None and task.score.steps else CROWD
    points = [FIRST] * len(task.targets)
    for number in range(rounds):
        mass = yield from _ask(task, ratios, used, seed, points)
        for t, (at, g) in enumerate(zip(points, mass, strict=True)):
            if not number:
                total[t] = g[-1]
                slack[t] = rounding_slack(total[t], int(used.sum()))
                # Less the slack, as in the exact quantile: a level within rounding of a jump is
                # reached.
                level[t] = keep * (total[t] + ratios[t]) - slack[t]
                low[t], below[t], high[t], upto[t] = -1, 0.0, TOP + 1, np.inf
            # The last point that falls short, and the first that does not, if they are nearer.
            # G grows, so the quantile lies in (low, high]: G(low) falls short and G(high) does not.
            k = np.searchsorted(g, level[t])
            at, g = np.concatenate([[-1], at, [TOP + 1]]), np.concatenate([[0.0], g, [np.inf]])
            better = at[k] > low[t]
            low[t], below[t] = np.where(better, at[k], low[t]), np.where(better, g[k], below[t])
            better = at[k + 1] < high[t]
            high[t] = np.where(better, at[k + 1], high[t])
            upto[t] = np.where(better, g[k + 1], upto[t])
        points = []
        for t, w in enumerate(ratios):
            many = _many(upto[t] - below[t], w, crowd * total[t], slack[t])
            # Neighbouring positions cannot be told apart further, and a bracket that ends in the
            # point mass at 1 is settled: that label is in every set.
            go_on = (high[t] - low[t] > 1) & (high[t] <= TOP) & (total[t] > 0)
            go_on &= (high[t] - low[t] > narrow) | many
            points.append(_inside(low[t][go_on], high[t][go_on], bits, narrow))
        if not any(len(p) for p in points):
            break
    # The upper end, never the lower: at least the exact quantile, so that coverage is not lost.
    empty = (total <= 0)[:, None, None]
    return np.where(empty, TOP, np.minimum(high, TOP)), total


def _many(inside: Float64, ratios: Float64, most: float, slack: float) -> NDArray[np.bool_]:
    """Whether brackets with these weights inside hold too much, and more than one record."""
    if most < 0:
        return np.ones(inside.shape, dtype=bool)
    weights = np.unique(np.append(0.0, ratios))  # what one record may weigh
    near = np.clip(np.searchsorted(weights, inside), 1, len(weights) - 1)
    # A single record inside weighs exactly one of the ratios, up to rounding.
    one = np.minimum(abs(inside - weights[near - 1]), abs(inside - weights[near])) <= slack
    return (inside > most) & ~one


def _inside(low: Positions, high: Positions, bits: int, narrow: int) -> Positions:
    """Where to ask inside brackets that are too wide, or hold too much."""
    low, first = np.unique(low, return_index=True)  # brackets are the same, or apart
    points = [np.empty(0, dtype=np.int64)]
    for start, stop in zip(low.tolist(), high[first].tolist(), strict=True):
        wide = stop - start > narrow
        parts = min(1 << bits, -(-(stop - start) // narrow)) if wide else 1 << CROWD_BITS
        step = -(-(stop - start) // parts)
        points.append(np.arange(start + step, stop, step))
    return np.concatenate(points)


def _ask(
    task: Task,
    ratios: Float64,
    used: NDArray[np.int64],
    seed: int,
    points: list[Positions],
) -> Generator[Round, Round, list[Float64]]:
    """G at the given positions of every target, summed over the sites."""
    ends = np.cumsum([0, *(len(p) for p in points)])
    arrays = {"ratios": ratios, "points": np.concatenate(points), "ends": ends}
    replies = yield {
        name: Message("mass", arrays, {"size": int(size), "seed": seed})
        for name, size in zip(task.sites, used, strict=True)
    }
    total, target = np.zeros(ends[-1]), np.repeat(np.arange(len(points)), np.diff(ends))
    # Points of one target are in order, so its sums must grow; at the next target they start anew.
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
    ratios = read_floats(query, "ratios", None, site.n_classes)
    points = read_wholes(query, "points", None, least=0, most=TOP)
    ends = read_wholes(query, "ends", len(ratios) + 1, least=0, most=len(points))
    if ends[0] != 0 or ends[-1] != len(points) or (np.diff(ends) < 0).any():
        raise strange(query, "ends", "where the points of each target end, in order")
    at, labels = used_records(query, site)
    mass = np.empty(len(points))
    # "≤ q", not "<": ties at q count (eq. 6).
    rank = np.searchsorted(at, points, side="right")
    for t in range(len(ratios)):
        mine = slice(ends[t], ends[t + 1])
        mass[mine] = np.append(0.0, np.cumsum(ratios[t][labels]))[rank[mine]]
    return Message("mass", {"mass": mass})
