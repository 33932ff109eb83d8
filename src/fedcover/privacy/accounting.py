"""From events to ε, and from ε to noise. All arithmetic of differential privacy is in this file.

The accountants are those of dp-accounting. Gaussian releases without sampling compose to one
Gaussian mechanism (noise multipliers add as 1/z² = Σ 1/z_i²), whose (ε, δ) curve is known in closed
form; with hidden sampling of sites the Rényi accountant for fixed-size samples is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease

MOST_EPSILON = 1e6
"""Largest budget that noise is worked out for: beyond, there is none to speak of."""

LEAST_MULTIPLIER = 1e-6
"""σ/Δ below which there is no noise to speak of, ε being beyond 10¹¹, and 1/z² could overflow."""

MOST_MULTIPLIER = 1e150
"""σ/Δ from which a release says nothing, not in 2⁶³ of them, and z² could overflow."""


def epsilon(events: Sequence[Event], delta: float) -> float:
    """The smallest ε known for which all events together are (ε, δ)-differentially private."""
    delta = _delta(delta)
    released = _released(events)
    if released is None:
        return math.inf
    # One hidden draw anywhere, and the closed form below is only a bound.
    if any(e.sampled for e in released):
        return _sampled_epsilon(tuple(released), delta)
    # Gaussian releases compose exactly, adaptive or not, as one of μ² = Σ 1/z_i²: nothing is lost,
    # where a sum of single ε would be far too large.
    precision = math.fsum(e.count / e.noise_multiplier**2 for e in released)
    if precision == 0:
        return 0.0
    z = 1 / math.sqrt(precision)
    return math.inf if z < LEAST_MULTIPLIER else _gaussian_epsilon(z, delta)


def gaussian_epsilon(noise_multiplier: float, count: int = 1, delta: float = 1e-5) -> float:
    """ε of `count` Gaussian releases whose noise is `noise_multiplier` times their sensitivity."""
    z = checks.real(noise_multiplier, "noise_multiplier", 0, math.inf, open_low=True)
    return epsilon([GaussianRelease("values", z, 1.0, checks.whole(count, "count", 1))], delta)


def noise_multiplier(epsilon: float, delta: float, count: int = 1) -> float:
    """The smallest σ/Δ with which `count` Gaussian releases are (ε, δ)-private together."""
    epsilon = checks.real(epsilon, "epsilon", 0, MOST_EPSILON, open_low=True)
    single = _multiplier_for(epsilon, _delta(delta))
    # n equal releases: 1/z² = n/z_n², the same identity.
    return single * math.sqrt(checks.whole(count, "count", 1))


def split_noise(epsilon: float, delta: float, shares: Sequence[float]) -> list[float]:
    """Noise multipliers of several releases that share one budget.

    Release i gets the fraction shares[i] of the total 1/z² (equivalently of ρ in zero-concentrated
    differential privacy); together they spend exactly (ε, δ).
    """
    z = noise_multiplier(epsilon, delta)
    total = math.fsum(shares)
    return [
        z * math.sqrt(total / checks.real(s, "share", 0, math.inf, open_low=True)) for s in shares
    ]


def _released(events: Sequence[Event]) -> list[GaussianRelease] | None:
    """The Gaussian releases that move at all; None if something left without noise."""
    out = []
    for event in events:
        if isinstance(event, ExactRelease):
            return None
        if event.sensitivity > 0 and event.noise_multiplier < MOST_MULTIPLIER:
            if event.noise_multiplier < LEAST_MULTIPLIER:
                return None
            out.append(event)
    return out


def _delta(delta: float) -> float:
    delta = checks.real(delta, "delta", 0, 1, open_low=True)
    if delta >= 1:
        raise FedcoverError("delta is 1", allowed="a number in (0, 1)", fix="1e-5, for example")
    return delta


@lru_cache(maxsize=256)
def _gaussian_epsilon(z: float, delta: float) -> float:
    """Inverse of the exact δ(ε) of the Gaussian mechanism (Balle and Wang 2018)."""
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
    from scipy.optimize import brentq

    loss = GaussianPrivacyLoss(z, sensitivity=1.0)
    # δ(ε) falls; so much noise needs no ε at all.
    if loss.get_delta_for_epsilon(0.0) <= delta:
        return 0.0
    high = 1.0
    while loss.get_delta_for_epsilon(high) > delta:
        high *= 2
    return float(brentq(lambda e: loss.get_delta_for_epsilon(e) - delta, 0.0, high, xtol=1e-9))


@lru_cache(maxsize=256)
def _multiplier_for(epsilon: float, delta: float) -> float:
    from scipy.optimize import brentq

    low, high = 1e-3, 1.0
    while _gaussian_epsilon(high, delta) > epsilon:
        high *= 2
    while _gaussian_epsilon(low, delta) < epsilon:
        low /= 2
    single = float(brentq(lambda z: _gaussian_epsilon(z, delta) - epsilon, low, high, xtol=1e-12))
    while _gaussian_epsilon(single, delta) > epsilon:  # never on the wrong side by rounding
        single *= 1 + 1e-10
    return single


@lru_cache(maxsize=64)
def _sampled_epsilon(events: tuple[GaussianRelease, ...], delta: float) -> float:
    from dp_accounting import dp_event
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    # Whoever knows who was drawn learns no less: ε without sampling is a bound.
    precision = math.fsum(e.count / e.noise_multiplier**2 for e in events)
    most = _gaussian_epsilon(1 / math.sqrt(precision), delta)
    (first, *others), (sample, population) = events, events[0].sampled or (1, 1)
    if not others and first.count == 1:
        # One release, exactly: δ'(ε') = qδ(ε) at ε' = log(1 + q(e^ε - 1)), q = S/n (Balle, Barthe
        # and Gaboardi 2018), reached when the other sites' data equal one of the two.
        rate = sample / population
        if delta >= rate:
            return 0.0
        drawn = _gaussian_epsilon(1 / math.sqrt(precision), delta / rate)
        return drawn + math.log(rate + (1 - rate) * math.exp(-drawn))
    # Replace-one: a fixed-size sample keeps its size only if a site is exchanged. The theorem for
    # sampling without replacement is for that relation.
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    for event in events:
        one: dp_event.DpEvent = dp_event.GaussianDpEvent(event.noise_multiplier)
        if event.sampled:
            sample, population = event.sampled
            one = dp_event.SampledWithoutReplacementDpEvent(population, sample, one)
        accountant.compose(dp_event.SelfComposedDpEvent(one, event.count))
    # Rényi bounds lose some: with mild sampling ε without sampling, also valid, is smaller.
    return min(most, float(accountant.get_epsilon(delta)))
