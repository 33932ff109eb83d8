"""The certificate for a label mix: one that is known, and one counted from the site's own labels.

Steps are those of the proof in docs/certificate.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcover import checks
from fedcover.certificate import bounds
from fedcover.certificate.bounds import certified_rank
from fedcover.certificate.result import Certified, Float64, Tables
from fedcover.errors import FedcoverError

TOTALS_SHARE = 0.1
"""The part of β that lower bounds of noisy totals may use."""

BOUNDS_SHARE = 0.2
"""The part of β that the upper bounds of the miss rates may use."""

PLANS = ((1.2, 0.75), (2.4, 0.25))
"""What the bets prepare for: the largest miss rate as a multiple of that of equal labels (labels
alike, or one twice as bad), and the stake on it."""

BLOCK = 1 << 16
"""Entries of the table that are looked at in one step of the walk."""


def certify_known_mix(
    misses: Any,
    variance: Any,
    totals: Any,
    *,
    mix: Any,
    alpha: float | Sequence[float],
    confidence: float,
    total_sd: float = 0.0,
) -> Certified:
    """The lowest edge certified for a site whose label mix π is known.

    Going down from score 1, an edge counts as certified while "misses exceed α" is rejected.

    Parameters
    ----------
    misses
        (E, C) records of each label above each edge, edges from 1 downwards: the raw, linear
        estimates, never made monotone or smoothed by what they are. The caller guarantees that the
        edges and their order were fixed before any data were seen, and that noise is independent
        between labels, independent of `totals`, and sub-Gaussian. Or (V, E, C), several such
        estimates of the same: each must have at least the misses of its edge, but for noise.
    variance
        The variance proxies τ² of their noise, or what broadcasts to them; 0 without privacy.
    totals
        (C,) records per label, from a separate release.
    mix
        (C,) shares π_y. They are taken on the caller's word; a mix guessed from predictions or
        counted from records has no place here (`certify_counted_mix`).
    total_sd
        The sub-Gaussian deviation of the noise in `totals`; 0 if they are exact.
    """
    t = Tables.checked(misses, variance, totals, total_sd, alpha, confidence)
    shares = checks.distribution(mix, len(t.totals), "mix")
    if abs(float(np.sum(mix)) - 1) > checks.MIX_ROUNDING:
        raise FedcoverError(
            f"mix sums to {float(np.sum(mix)):.6g}",
            allowed="shares that sum to 1: a label mix that is known",
            fix="Labels that were counted go to certify_counted_mix",
        )
    # A label that this site never has cannot be missed here, nor need its total be sure.
    used = shares > 0
    pi, raw, noise = shares[used], t.misses[..., used], t.variance[..., used]
    on_totals, each = _split(t)
    present = bounds.surely_present(t.totals[used], t.total_sd, on_totals)
    edges = []
    for a in t.alphas:
        # Wealth has mean at most 1 under "misses exceed α" (step 8); so has the mean over the
        # views, and Markov's inequality rejects where that reaches 1/β' (step 9).
        wealth = np.full(raw.shape[1], -np.inf)
        for seen, proxy in zip(raw, noise, strict=True):
            phi, lead = _bet(pi, present, proxy.mean(axis=0), a, each / len(raw))
            wealth = np.logaddexp(wealth, lead - seen @ phi - proxy @ phi**2 / 2)
        # Row 0 is score 1: the full set. Every estimate has the same stake.
        rejected = wealth[1:] >= math.log(len(raw) / each)
        # argmin is the first edge not rejected, one too far as a row number, but rows of `rejected`
        # begin at 1: so it is the last edge of the unbroken walk (step 3).
        edges.append(int(np.argmin(np.append(rejected, False))))
    parts = {"label totals": on_totals, "tests": t.beta - on_totals}
    trusted = ["the label mix given as shares is this site's"]
    return t.certified(edges, [], trusted, bool(noise.any()) or t.total_sd > 0, parts)


def _bet(
    pi: Float64, present: Float64, variance: Float64, alpha: float, beta: float
) -> tuple[Float64, float]:
    """Weights φ and the log of the wealth without any miss and noise.

    λ is the one that would still certify the largest miss rate common to all labels; like φ it
    depends on nothing but public numbers.
    """
    least = -math.log(beta) / alpha  # less can never win
    # Beyond, chance in the counts costs more than λ brings, unless hardly a record is missed.
    most = max(30 / float(np.sum(pi**2 / np.maximum(present, 1))), 10 * least)
    lam = np.geomspace(least, most, 200)
    mass = lam[:, None] * pi
    phi = bounds.weights(mass, present, variance, alpha)
    lead = lam * alpha - bounds.shortfall(mass, present, phi, 1.0).sum(axis=1)
    # The wealth falls by φ·n for each unit of a common miss rate; it still reaches 1/β'
    # at spare / φ·n.
    spare = lead - phi**2 @ variance / 2 + math.log(beta)
    best = int(np.argmax(spare / np.maximum(phi @ np.maximum(present, 0), 1e-12)))
    return phi[best], float(lead[best])


def _split(t: Tables) -> tuple[float, float]:
    """The part of β for the totals, and that for each level.

    β = β_t + A·(β_u + β'): noisy totals are paid once, the rest per level (steps 11 and 20).
    """
    on_totals = TOTALS_SHARE * t.beta if t.total_sd > 0 else 0.0
    each = (t.beta - on_totals) / len(t.alphas)
    return on_totals, each


@dataclass(frozen=True)
class _Bet:
    stake: float
    lam: float
    nu: float
    tolerated: float
    """The miss rate at which the walk is expected to stop."""


def certify_counted_mix(
    misses: Any,
    variance: Any,
    totals: Any,
    *,
    counts: Any,
    alpha: float | Sequence[float],
    confidence: float,
    total_sd: float = 0.0,
) -> Certified:
    """The lowest edge certified for a site that has counted m of its own labels.

    Parameters are those of `certify_known_mix`, but for this one.

    Parameters
    ----------
    counts
        (C,) whole numbers m_y: labels drawn independently from the site's own distribution.
        Shares and an empty count are refused. They may be those of records in the table.
    """
    t = Tables.checked(misses, variance, totals, total_sd, alpha, confidence)
    c = len(t.totals)
    m_y = checks.counts(counts, c, "counts").astype(np.float64)
    on_totals, each = _split(t)
    present = bounds.surely_present(t.totals, t.total_sd, on_totals)
    # The bets may rest on the sum of all totals: it does not tell which labels this site has.
    typical = max(float(t.totals.sum()) / c, 1.0)
    edges = [_lowest(t, m_y, present, typical, a, each) for a in t.alphas]
    rest = t.beta - on_totals
    on_rates = BOUNDS_SHARE * rest
    parts = {"label totals": on_totals, "miss rates": on_rates, "tests": rest - on_rates}
    over = [f"the {int(m_y.sum())} labels from which this site's mix was counted"]
    trusted = ["the counted labels are independent draws of this site's"]
    return t.certified(edges, over, trusted, bool(t.variance.any()) or t.total_sd > 0, parts)


def _lowest(
    t: Tables, m_y: Float64, present: Float64, typical: float, alpha: float, beta: float
) -> int:
    """The walk down the edges, in blocks that stop where it stops."""
    views, edges, c = t.misses.shape
    plans = []
    for view in range(views):
        # Bets are placed before any miss is seen, once for all edges, from public numbers
        # (step 15).
        variance = t.variance[view].mean(axis=0)
        for bet in _bets(int(m_y.sum()), typical, variance, alpha, beta, views):
            phi = bounds.weights(bet.lam * m_y / m_y.sum(), present, variance, alpha)
            plans.append((view, bet, phi))
    step = max(1, BLOCK // c)
    for start in range(0, edges, step):
        raw, noise = t.misses[:, start : start + step], t.variance[:, start : start + step]
        # A union bound over labels and views: then all upper bounds hold, and the least of the
        # views' does as well (step 13).
        each = BOUNDS_SHARE * beta / (c * views)
        tops = [bounds.upper_rates(m, v, present, each) for m, v in zip(raw, noise, strict=True)]
        top = np.min(tops, axis=0)
        wealth = np.full(raw.shape[1], -np.inf)
        for view, bet, phi in plans:
            won = _lead(bet, phi, m_y, present, top, alpha)
            # A mean of bets with fixed stakes that sum to 1 still has expectation at most 1
            # (step 18).
            won += math.log(bet.stake / views) - raw[view] @ phi - noise[view] @ phi**2 / 2
            wealth = np.logaddexp(wealth, won)
        # Markov: wealth of mean at most 1 reaches 1/β' with probability β' at most (step 9). Or all
        # bounds are below α, which contradicts "misses exceed α" for free (step 19).
        rejected = (wealth >= -math.log((1 - BOUNDS_SHARE) * beta)) | (top.max(axis=1) <= alpha)
        if start == 0:
            rejected[0] = True  # score 1: the full set
        if not rejected.all():
            # At the first edge that is not rejected the walk ends, though later ones may look good:
            # stopping there is what makes one level enough for all edges (step 3).
            return start + int(np.argmin(rejected)) - 1
    return edges - 1


def _lead(
    bet: _Bet, phi: Float64, m_y: Float64, present: Float64, top: Float64, alpha: float
) -> Float64:
    """Log wealth before misses and noise, given upper bounds of the miss rates, (edges,).

    Per counted label ω = min over g ≤ U of (1 - ν(g - α))·e^(λg/m). Its log is concave in g, so an
    end is the minimum. Falls as U grows; a bet that could go below zero is off.
    """
    seen = m_y > 0
    m, u = m_y.sum(), top[:, seen]
    mass = bet.lam * m_y[seen] / m
    lost = bounds.shortfall(mass, present[seen], phi[seen], u).sum(axis=1)
    factor = np.maximum(1 - bet.nu * (u - alpha), 1e-300)
    # At g = 0 and at g = U, in logarithms: m factors near 1 would round.
    omega = np.minimum(math.log1p(bet.nu * alpha), np.log(factor) + bet.lam * u / m)
    # Over all labels, counted or not: the average over counted labels (step 17) needs every factor
    # positive.
    off = bet.nu * (top.max(axis=1) - alpha) >= 1
    return np.where(off, -np.inf, omega @ m_y[seen] - lost)


def _bets(
    m: int, n: float, variance: Float64, alpha: float, beta: float, views: int = 1
) -> tuple[_Bet, ...]:
    """λ and ν of each plan, from public numbers: never from own counts or from misses.

    Planned for labels of n records each that all miss .6α, of which the site has mostly one.
    """
    tau2 = float(np.median(variance))
    level = math.log((1 - BOUNDS_SHARE) * beta / views)
    alike = bounds.upper_rates(
        np.full((1, 1), 0.6 * alpha * n),
        np.full((1, 1), tau2),
        np.full(1, n),
        BOUNDS_SHARE * beta / (len(variance) * views),
    ).item()
    lam = np.geomspace(-level / alpha, 60 * m / alpha + 60 * n, 400)
    # What chance and noise may cost, roughly: a poor guess makes the bet weaker, not wrong.
    spread = 0.6 * (alpha / n + tau2 / n**2)
    made = []
    for wide, stake in PLANS:
        # Below α the bounds alone decide (step 19), so a bet for that case would be wasted.
        g = min(max(wide * alike, 1.1 * alpha), 1.0)
        grown = np.exp(np.minimum(lam * g / m, 600))
        nu = (grown - 1) / (alpha + grown * (g - alpha))  # both ends of [0, g] alike
        # What the log wealth, per unit of λ, leaves for misses after 1/β' is reached.
        bears = (level + m * np.log1p(nu * alpha)) / lam - lam * spread / 2
        best = int(np.argmax(bears))
        stops = float(bears[best]) - math.sqrt(spread)  # at a low of the noise, not at its mean
        made.append(_Bet(stake, float(lam[best]), float(nu[best]), stops))
    return tuple(made)


def pool_is_expected_to_win(
    m: int,
    own: int,
    records: float,
    n_classes: int,
    variance: Any,
    *,
    alpha: float,
    confidence: float,
    total_sd: float = 0.0,
) -> bool:
    """Whether the pool's certificate or the site's own binomial one is expected to be smaller.

    The choice looks at numbers alone (counted labels m, own records, the pool's records, labels,
    noise, α and β) and never at misses or at how often the site saw which label.
    """
    each = max(records / n_classes, 1.0)
    beta = 1 - checks.real(confidence, "confidence", 0, 1, open_low=True)
    on_totals = TOTALS_SHARE * beta if total_sd > 0 else 0.0
    totals = np.full(n_classes, each)
    sure = bounds.surely_present(totals, total_sd, on_totals)
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), (1, n_classes)).ravel()
    # Misses are weighed by records that are sure, and the rate it bears shrinks with their share.
    sure_share = max(float(sure[0]), 0.0) / each
    pool = sure_share * _bets(m, each, noise, alpha, beta - on_totals)[0].tolerated
    rank = certified_rank(own, alpha, confidence)[0]
    # The expected miss rate above the (rank+1)-th smallest of n scores, whatever their law.
    alone = 0.0 if rank is None else (own - rank) / (own + 1)
    return pool > alone
