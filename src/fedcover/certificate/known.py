"""The certificate for a label mix that is known.

Steps are those of the proof in docs/certificate.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcover import checks
from fedcover.certificate import bounds
from fedcover.certificate.result import Certified, Float64, Tables
from fedcover.errors import FedcoverError

TOTALS_SHARE = 0.1
"""The part of β that lower bounds of noisy totals may use."""


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
    on_totals = TOTALS_SHARE * t.beta if t.total_sd > 0 else 0.0
    present = bounds.surely_present(t.totals[used], t.total_sd, on_totals)
    # Noisy totals are paid once for all levels, the rest is split (step 11).
    each = (t.beta - on_totals) / len(t.alphas)
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
