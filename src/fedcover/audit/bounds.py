"""Error rates of a test between two data sets, turned into lower bounds on ε.

Threshold bound. Every (ε, δ)-private method obeys P(A) ≤ e^ε Q(A) + δ for every event A, where P
and Q are the laws of what is seen on two neighbouring data sets. A frequent A under P that is rare
under Q refutes (ε, δ), whatever the method. A is "the statistic lies beyond a threshold"; the
probabilities are bounded by Clopper-Pearson intervals.

Gaussian bound. An account of Gaussian releases claims more than one (ε, δ): a whole trade-off
curve, β ≥ Φ(Φ⁻¹(1-α) - μ) for the two error rates of every test (Dong, Roth and Su 2022). By
convexity α + β ≥ 2Φ(-μ/2), so the errors of one test at a middle threshold bound μ, where they are
frequent and hence well known. Data sets that differ in g records obey the curve of g·μ. A bound on
μ above the claim refutes the account; it refutes (ε, δ) only of what is Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.checks import Seed

Float64 = NDArray[np.float64]

CHOOSING = 0.25
"""Share of the runs that choose the threshold in `lower_bound`; the others give the bound."""


@dataclass(frozen=True)
class Event:
    """An event A, "sign times the statistic is above a threshold", and its role.

    Attributes
    ----------
    sign, threshold
        Direction and place.
    first
        Whether A is frequent on the first data set and rare on the second, or the reverse.
    promise
        The bound that it gave, far stricter than needed, on the runs that chose it.
    """

    sign: float
    threshold: float
    first: bool
    promise: float


def best_event(first: Float64, second: Float64, delta: float, miss: float) -> Event:
    """The event that proves most on some runs; its bound has to come from others."""
    cut = min(len(first), len(second))
    best = Event(1.0, 0.0, True, -math.inf)
    # Thresholds between runs, from a single one of them beyond to half of them.
    beyond = np.unique(np.geomspace(1, cut, 200).astype(np.int64))
    # Both tails, and both data sets in the role of P: ε bounds all four.
    for sign in (1.0, -1.0):
        trial = [np.sort(sign * x[:cut]) for x in (first, second)]
        both = np.sort(np.concatenate(trial))
        at = (both[-beyond] + both[-beyond - 1]) / 2
        above = [cut - np.searchsorted(x, at, side="right") for x in trial]
        for one in (0, 1):
            # Far stricter than below, or a lucky handful of runs in the tail would be chosen.
            bounds = _least_epsilon(above[one], cut, above[1 - one], cut, delta, miss / 100)
            k = int(bounds.argmax())
            if bounds[k] > best.promise:
                best = Event(sign, float(at[k]), one == 0, float(bounds[k]))
    return best


def threshold_bound(
    event: Event, first: Float64, second: Float64, delta: float, miss: float
) -> float:
    """The lower bound on ε from fresh runs; wrong with probability at most 2 · miss."""
    seen = [(int((event.sign * x > event.threshold).sum()), len(x)) for x in (first, second)]
    many, few = seen if event.first else seen[::-1]
    return max(0.0, float(_least_epsilon(*many, *few, delta, miss)))


def _least_epsilon(many: Any, n_many: int, few: Any, n_few: int, delta: float, miss: float) -> Any:
    """log((P(A) - δ) / Q(A)), P(A) at its lower and Q(A) at its upper Clopper-Pearson end."""
    from scipy.stats import beta

    low = np.where(many > 0, beta.ppf(miss, np.maximum(many, 1), n_many - many + 1), 0.0) - delta
    high = np.where(few < n_few, beta.ppf(1 - miss, few + 1, np.maximum(n_few - few, 1)), 1.0)
    # P(A) - δ ≤ e^ε Q(A), with both ends on the side that makes ε small: the bound may be weak but
    # not wrong.
    return np.log(np.maximum(low, 1e-300) / high)


def runs_to_refute(claim: float, delta: float, miss: float) -> int:
    """How many runs on each data set refute a claim by an event that tells them apart each time."""
    count = 16
    while float(_least_epsilon(count, count, 0, count, delta, miss)) <= claim:
        count *= 2
    return count


def lower_bound(
    first: Float64, second: Float64, delta: float, confidence: float = 0.95, seed: Seed = None
) -> float:
    """A threshold bound on ε from independent runs on two neighbouring data sets.

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
    event = best_event(shuffled[0][:cut], shuffled[1][:cut], delta, miss)
    return threshold_bound(event, shuffled[0][cut:], shuffled[1][cut:], delta, miss)


@dataclass(frozen=True)
class Middle:
    """A test at a middle threshold: the second data set is said where sign · statistic is above.

    Attributes
    ----------
    sign, threshold
        Direction and place.
    """

    sign: float
    threshold: float

    @classmethod
    def between(cls, first: Float64, second: Float64) -> Middle:
        """The test half way between the medians of some runs."""
        low, high = float(np.median(first)), float(np.median(second))
        sign = 1.0 if high >= low else -1.0
        return cls(sign, sign * (low + high) / 2)

    def errors(self, first: Float64, second: Float64) -> int:
        """How often it is wrong, over both data sets."""
        wrong = (self.sign * first > self.threshold).sum()
        return int(wrong + (self.sign * second <= self.threshold).sum())


def gaussian_bound(errors: int, runs: int, miss: float) -> float:
    """The lower bound on μ from errors in so many runs, half of them on either data set.

    The errors are a sum of independent events of mean chance p = (α + β)/2. Its tail below the
    mean is no heavier than that of a binomial with p (Hoeffding 1956), so the Clopper-Pearson
    limit of the pooled count holds, and μ ≥ -2Φ⁻¹(p).
    """
    from scipy.stats import beta, norm

    p = float(beta.ppf(1 - miss, errors + 1, runs - errors)) if errors < runs else 1.0
    return max(0.0, -2 * float(norm.ppf(min(p, 0.5))))


def epsilon_of(mu: float, delta: float) -> float:
    """ε at δ of the curve of μ: δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle and Wang 2018).

    Written out here a second time, because an audit must not rest on the accountant it tests.
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    if mu <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        above = norm.cdf(mu / 2 - epsilon / mu)
        return float(above - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)) - delta)

    # Φ(μ/2 - ε/μ) alone is below δ there.
    most = mu**2 / 2 + mu * float(norm.isf(delta)) if delta > 0 else math.inf
    if not math.isfinite(most):
        return math.inf
    return float(brentq(excess, 0.0, most)) if excess(0.0) > 0 else 0.0


def mu_of(epsilon: float, delta: float) -> float:
    """μ of the Gaussian curve that has this ε at δ."""
    from scipy.optimize import brentq

    high = 1.0
    while epsilon_of(high, delta) < epsilon:
        high *= 2
    return float(brentq(lambda mu: epsilon_of(mu, delta) - epsilon, 0.0, high, xtol=1e-9))
