"""Private prediction sets (Angelopoulos et al. 2022): a trusted server, and private thresholds.

The server pools all scores and draws each threshold from a grid by the exponential mechanism: edge
e_j with probability proportional to b^d_j, where d_j is how many ranks it is away from the wanted
rank t. Replacing one record moves every d_j by at most 1, so a draw is 2·ln(1/b)-private. b is a
multiple of 2⁻²⁰ (Ilvento 2020): the weights are integers, and so is the random number. No
floating-point number decides anything.

The rank t lies above (1-α)(n+1), by so much that the noise leaves the coverage at 1-α. Given any
data, P(fewer than k scores at or below the threshold) ≤ x/(1+x), x = (B-1)·b^(t-k+1), as at most
B-1 of the B edges are that bad, and one has d = 0. A new record has each rank k among n+1 with
equal probability and is covered if k scores are at or below the threshold. So

    coverage ≥ Σ_{k≤t} 1/(1 + (B-1)·b^(t-k+1)) / (n+1),

and t is the smallest rank that brings this to 1-α. The paper's bound is the same with one k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.methods.base import Float64, Published, ServerHalf, Task, those_that
from fedcover.methods.pooled import _ByPooling, _Pool
from fedcover.methods.site_quantiles import common_fit, refuse_distributions
from fedcover.methods.sketch.table import FEWEST_BINS, MOST_BINS, standard_cuts
from fedcover.position import positions, scores_at
from fedcover.privacy.noise import exp_bounds
from fedcover.privacy.randomness import SYSTEM, Randomness, randbelow
from fedcover.privacy.statement import SEEDED, PrivacyStatement

BITS = 20
"""b is a multiple of 2^-BITS."""

LEAST_EPSILON = 0.01
"""Per level. Below it the integers get long, and 10⁵ records would be too few anyway."""

FARTHEST = 40 * math.log(2)
"""Distances are cut off where b^d falls below 2⁻⁴⁰, which keeps the integers short."""


@dataclass(frozen=True)
class ExponentialMechanism(_ByPooling):
    """Private thresholds from a trusted server that sees every score.

    ε protects one record against those who see the thresholds, and nobody else: the server has the
    raw scores. It is therefore an option of the method and not a `Privacy` budget, which protects
    against the server, too. Replacing a record is what is protected; numbers of records are public.

    A calibration made with it has no `PrivacyStatement`: the ε of one speaks of all that left the
    sites, which is infinite here. That of the thresholds is said in words, in `reveals`.

    Parameters
    ----------
    epsilon
        ε of all thresholds of a run together; several α share it evenly.
    bins
        B, how many thresholds there are to choose from: the edges of the sketch's standard bins.
    """

    epsilon: float = 1.0
    bins: int = 1000

    label: ClassVar[str] = "Exponential mechanism"
    noise_at_server: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "at least 1-α on average over calibration sets, test records and the privacy noise, only "
        "if all sites share one label distribution; nothing under label shift"
    )

    def __post_init__(self) -> None:
        checks.real(self.epsilon, "epsilon", LEAST_EPSILON, 1000)
        checks.whole(self.bins, "bins", FEWEST_BINS, MOST_BINS)

    @property
    def reveals(self) -> str:  # type: ignore[override]
        return (
            "every raw score and label of every site was sent to the server, which must be "
            f"trusted; the thresholds alone are {self.epsilon:g}-differentially private "
            "(replacing one record; numbers of records are public)"
        )

    @property
    def published_epsilon(self) -> float:
        """ε of the thresholds alone, for audits: of one replaced record."""
        return self.epsilon

    def statement(self, task: Task) -> PrivacyStatement | None:
        if task.privacy is not None:
            raise FedcoverError(
                f"privacy with method {self.label}",
                allowed="its own option epsilon, which does not protect against the server",
                fix="Use ExponentialMechanism(epsilon=1) if the server may see every score, else "
                f"one of {those_that('private')} with privacy",
            )
        return None

    def server(self, task: Task) -> ServerHalf:
        refuse_distributions(task, self.label)
        self._base(task)
        return (yield from super().server(task))

    def fit(self, task: Task, pool: _Pool) -> Published:
        base, n = self._base(task), len(pool.positions)
        # The last edge is 1: one candidate always covers.
        edges = np.append(scores_at(np.array(standard_cuts(self.bins))), 1.0)
        upto = counts_upto(scores_at(pool.positions), edges)
        thresholds = np.ones(len(task.alphas))
        alarms = [SEEDED] if task.seeded else []
        for a, alpha in enumerate(task.alphas):
            t = rank_for(n, alpha, self.bins, base)
            if t is not None:
                thresholds[a] = edges[draw(distances(upto, t, base), base, task.source)]
                continue
            alarms.append(
                f"{n} records are too few for alpha={alpha:g} with epsilon={self.epsilon:g}: every "
                f"label will be in every set; about {_needed(alpha, self.bins, base)} are needed"
            )
        return common_fit(task, positions(thresholds), n, alarms=tuple(alarms))

    def _base(self, task: Task) -> int:
        """2^BITS·b for each of the levels, rounded up: b² ≥ e^-ε, hence no more than ε is spent."""
        share = Fraction(self.epsilon) / len(task.alphas)
        if share < LEAST_EPSILON * (1 - 1e-9):
            raise FedcoverError(
                f"epsilon={self.epsilon:g} for {len(task.alphas)} levels",
                allowed=f"at least {LEAST_EPSILON:g} for each",
                fix="Ask for fewer levels, or allow more",
            )
        # Half, because a replaced record can raise one weight and lower the sum of all, each by a
        # factor of 1/b. Upward, since a larger b is nearer to 1 and tells less.
        return exp_bounds(share / 2, BITS)[1]


def counts_upto(scores: Float64, edges: Float64) -> NDArray[np.int64]:
    """How many scores are at or below each edge."""
    bins = np.bincount(np.searchsorted(edges, scores, side="left"), minlength=len(edges))
    return np.cumsum(bins)


def distances(upto: NDArray[np.int64], t: int, base: int) -> NDArray[np.int64]:
    """How many ranks each edge is away from rank t, if scores are rounded up to edges.

    An edge with scores has all their ranks; an empty one lies between two. One replaced record
    moves `upto` by at most 1, and so each distance. Cut off at FARTHEST.
    """
    # Ranks below+1 … upto round up to this edge: none of them is a distance away.
    below = np.concatenate([[0], upto[:-1]])
    far = np.maximum(np.maximum(t - upto, below + 1 - t), 0)
    return np.minimum(far, _cut(base))


def draw(far: NDArray[np.int64], base: int, source: Randomness = SYSTEM) -> int:
    """An index j with probability proportional to b^far[j], exactly."""
    # Edges at one distance have one weight: first which distance, then which of its edges.
    values, counts = np.unique(far, return_counts=True)
    weights = powers(values, base)
    lot = randbelow(source, sum(w * int(c) for w, c in zip(weights, counts, strict=True)))
    for value, weight, count in zip(values, weights, counts, strict=True):
        if lot < weight * int(count):
            return int(np.flatnonzero(far == value)[lot // weight])
        lot -= weight * int(count)
    raise AssertionError("the weights add up to more than the lot")


def powers(values: NDArray[np.int64], base: int) -> list[int]:
    """Integers in proportion to b^values, for b = base/2^BITS."""
    # A common factor changes no probability: the nearest edge is made 1, and all are whole numbers.
    low, high = int(values.min()), int(values.max())
    return [base ** (int(d) - low) << BITS * (high - int(d)) for d in values]


def rank_for(n: int, alpha: float, bins: int, base: int) -> int | None:
    """The smallest rank t at which noise leaves the coverage at 1-α; None if there is none."""
    # The sum in the bound above, for every t at once; the first to reach 1-α is the rank.
    covered = np.cumsum(1 - _chances_below(n, bins, base))
    t = int(np.searchsorted(covered, (1 - alpha) * (n + 1))) + 1
    return t if t <= n else None


def _chances_below(n: int, bins: int, base: int) -> Float64:
    """At most how probable a threshold with fewer than t-i+1 scores at or below is, i = 1 … n."""
    far = np.minimum(np.arange(1, n + 1), _cut(base))
    # A distance that was cut off has a larger weight than b^d, and is counted with it.
    x = (bins - 1) * np.exp(far * math.log(base / 2**BITS))
    return x / (1 + x)


def _needed(alpha: float, bins: int, base: int) -> int:
    """About how many records there must be: those of α, and the ranks that the noise costs."""
    lost = float(_chances_below(_cut(base), bins, base).sum())
    return math.ceil((1 - alpha + lost) / alpha)


def _cut(base: int) -> int:
    return math.ceil(FARTHEST / -math.log(base / 2**BITS))
