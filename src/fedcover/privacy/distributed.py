"""Noise shares for secure sums: every site adds a little, and only the sum is ever seen.

    values ──encode──▶ g·values + share_i ──secure sum──▶ g·Σ values + Σ share_i ──decode──▶ sum

A sum of discrete Gaussians is not a discrete Gaussian: with shares well below 1 it is nearly always
0, and ε explodes. Multiplying the integers by g = 2^k until each share has σ_i ≥ 2 repairs that.
Nothing is taken on trust: `true_epsilon` computes ε from the law of the sum itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.privacy import noise
from fedcover.privacy.randomness import SYSTEM, Randomness

Floats = NDArray[np.float64]

KINDS = ("discrete-gaussian", "skellam")

LEAST_SHARE = 2.0
"""σ_i of one share, in scaled units, from which the sum is a discrete Gaussian for all purposes."""

MOST_CONVOLVED = 600
"""Scaled σ of the sum up to which the law of discrete Gaussian shares is found by convolution."""

MOST_SKELLAM = 1000
"""Scaled σ of the sum up to which the law of Skellam shares is computed."""

LEAST_DELTA = 1e-8
"""Rounding in the law of the sum stays below this."""


@dataclass(frozen=True)
class NoiseShares:
    """How much noise each of n sites adds, so that the sum is private whoever drops out.

    Attributes
    ----------
    sigma
        σ that the sum must have, in units of the integer values, with the fewest survivors.
    sites
        n, how many sites take part.
    survivors
        m, the fewest sites whose shares may be in the sum; default n. A site that colludes with the
        server knows its share: count it as lost.
    kind
        "discrete-gaussian" or "skellam".
    scale
        g ≥ 1, by which values are multiplied before the share is added. Default: the smallest power
        of two with which a share has σ_i ≥ 2. `scale=1` shows what goes wrong without.
    """

    sigma: float
    sites: int
    survivors: int | None = None
    kind: str = "discrete-gaussian"
    scale: int | None = None
    share_sigma: Fraction = field(init=False)
    """σ_i of one share in scaled units, g σ/√m rounded up to a multiple of 2^-20."""

    def __post_init__(self) -> None:
        sigma = checks.real(self.sigma, "sigma", 0, noise.MOST_SIGMA, open_low=True)
        n = checks.whole(self.sites, "sites", 1)
        m = n if self.survivors is None else checks.whole(self.survivors, "survivors", 1, n)
        checks.choice(self.kind, "kind", KINDS)
        g = self.scale
        if g is None:
            g = 1
            while g * sigma < LEAST_SHARE * math.sqrt(m):
                g *= 2
        g = checks.whole(g, "scale", 1, 2**40)
        # m survivors alone must have the whole variance g²σ². In fractions and rounded up: a share
        # too small by rounding would leave ε above the claim.
        square = (g * Fraction(sigma)) ** 2 / m
        share = Fraction(math.isqrt(math.floor(square * 4**20)) + 1, 2**20)
        for name, value in (
            ("sigma", sigma),
            ("survivors", m),
            ("scale", g),
            ("share_sigma", share),
        ):
            object.__setattr__(self, name, value)

    def draw_share(self, shape: noise.Shape, source: Randomness = SYSTEM) -> noise.Ints:
        """The noise of one site, in scaled units; fresh in every call."""
        if self.kind == "skellam":
            return noise.skellam(self.share_sigma**2, shape, source)
        return noise.discrete_gaussian(self.share_sigma, shape, source)

    def encode(self, values: ArrayLike, source: Randomness = SYSTEM) -> noise.Ints:
        """What a site hands to the secure sum: g·values plus its share.

        Parameters
        ----------
        values
            Whole numbers, small enough that the sum over the sites fits into 64 bits.
        source
            Where the noise takes its bytes.
        """
        whole, g = checks.array(values, "values"), self._scale
        # Two bits are left for the noise and the sign: a sum that wraps around would be wrong,
        # silently.
        most = 2**61 // (self.sites * g)
        if whole.dtype.kind not in "iu" or (whole.size and np.abs(whole).max() > most):
            raise FedcoverError(
                f"values has type {whole.dtype} and entries up to {np.abs(whole).max(initial=0)}",
                allowed=f"whole numbers up to {most}, so that the scaled sum fits into 64 bits",
                fix="Round the values to integers, or lower their scale",
            )
        return whole.astype(np.int64) * g + self.draw_share(whole.shape, source)

    def decode(self, total: ArrayLike) -> Floats:
        """The noisy sum of the values, from the secure sum of what the sites encoded."""
        return np.asarray(total, dtype=np.float64) / self._scale

    def true_epsilon(
        self, changes: Sequence[int], delta: float, survivors: int | None = None
    ) -> float:
        """ε of the noisy sum, computed from its law; never below the true value.

        The law of the sum is convolved from the law of a share: sums of positive numbers, whose
        relative rounding error is added to every privacy loss. What falls off the ends, and the few
        largest losses, count as lost outright (within δ). Losses are rounded up to a grid, so ε is
        too large by at most a grid step per changed cell, 10⁻⁴ in all unless ε is large. Where the
        sum has a scaled σ beyond 600, its law is within e^{±τ} of the discrete Gaussian of variance
        m σ_i², τ = 10 Σ_{k<m} e^{-2π²σ_i² k/(k+1)} ≤ 10 m e^{-π²σ_i²} (Kairouz, Liu, Steinke 2021).

        Parameters
        ----------
        changes
            By how much one unit of privacy changes each cell, in units of the values, zeros left
            out: (1,) for an added record in a table of counts, (1, -1) for a replaced one.
        delta
            δ, at least 10⁻⁸.
        survivors
            How many shares are in the sum; default the fewest allowed. More only lower ε.
        """
        delta = checks.real(delta, "delta", LEAST_DELTA, 0.5)
        m = self.survivors if survivors is None else survivors
        m = checks.whole(m, "survivors", 1, self.sites)
        moves = Counter(abs(checks.whole(c, "changes", -(2**40))) * self._scale for c in changes)
        del moves[0]
        return _epsilon(self.kind, self.share_sigma, m, tuple(sorted(moves.items())), delta)

    @property
    def _scale(self) -> int:
        assert self.scale is not None  # set by __post_init__
        return self.scale


@lru_cache(maxsize=64)
def _epsilon(
    kind: str, share: Fraction, count: int, moves: tuple[tuple[int, int], ...], delta: float
) -> float:
    """ε of several cells, (move, how many of them) each; both directions lose alike by symmetry."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    if not moves:
        return 0.0
    cells, reach = sum(times for _, times in moves), 8.0
    while True:  # wider while tails are heavier than a Gaussian's
        losses = _losses_of_wide if _is_wide(kind, share, count) else _losses_of_narrow
        parts = [
            losses(kind, share, count, reach, move).trimmed(delta / 1000 / cells)
            for move, _ in moves
        ]
        lost = math.fsum(times * part.lost for part, (_, times) in zip(parts, moves, strict=True))
        if lost <= delta / 100 or reach > 60:
            break
        reach *= 1.5
    # Mass that falls outside counts as revealed outright: it must fit into δ.
    if lost >= delta:
        return math.inf
    # Every cell rounds its losses up once: 10⁻⁴ in all. A coarser grid only where it would need
    # more than 2¹⁷ points.
    step = max(1e-4 / cells, max(part.largest for part in parts) / 2**17)
    total: Any = None
    rounding = 0.0
    for part, (_, times) in zip(parts, moves, strict=True):
        low, masses = part.on_grid(step)
        one = DensePLDPmf(step, low, masses, part.lost, True).self_compose(times)
        total = one if total is None else total.compose(one)
        rounding += 5e-15 * times * total.size * float(np.sum(masses**2))
    # `rounding` bounds what the Fourier transforms behind `compose` can hide
    return float(total.get_epsilon_for_delta(delta - rounding)) if rounding < delta else math.inf


@dataclass(frozen=True)
class _Losses:
    """Privacy losses log P(z)/P(z - move) and masses P(z), both from above; `lost` is the rest."""

    loss: Floats
    mass: Floats
    lost: float

    @property
    def largest(self) -> float:
        return float(self.loss.max(initial=1e-4))

    def trimmed(self, spare: float) -> _Losses:
        """The largest losses count as lost, as long as they are worth no more than `spare`."""
        # Largest first: for the same part of δ they shorten the grid most.
        order = np.argsort(-self.loss)
        drop = int(np.searchsorted(np.cumsum(self.mass[order]), spare))
        lost = self.lost + float(self.mass[order[:drop]].sum())
        return _Losses(self.loss[order[drop:]], self.mass[order[drop:]], lost)

    def on_grid(self, step: float) -> tuple[int, Floats]:
        """Losses rounded up to multiples of `step`: the lowest one, and masses from there on."""
        # Upward is the safe side. Very negative losses are raised as well, which only makes ε
        # larger.
        place = np.ceil(np.maximum(self.loss, -self.largest) / step).astype(np.int64)
        low = int(place.min(initial=0))
        return low, np.bincount(place - low, weights=self.mass).astype(np.float64)


def _is_wide(kind: str, share: Fraction, count: int) -> bool:
    """Whether the law of the sum is bounded by a discrete Gaussian instead of computed."""
    spread = float(share) * math.sqrt(count)
    if spread <= (MOST_CONVOLVED if kind == "discrete-gaussian" else MOST_SKELLAM):
        return False
    if kind == "skellam" or share < LEAST_SHARE:
        raise FedcoverError(
            f"the {kind} noise of the sum has σ = {spread:.3g} in scaled units",
            allowed=f"up to {MOST_SKELLAM} for Skellam, {MOST_CONVOLVED} for shares with σ < 2",
            fix="Take discrete Gaussian shares with the default scale, or coarser integers",
        )
    return True


def _losses_of_narrow(kind: str, share: Fraction, count: int, reach: float, move: int) -> _Losses:
    """From the law itself, of which nothing is over- and little underestimated but by rounding."""
    law = law_of_sum(kind, share, count, reach)
    error = 1e-11 + count * 1e-14  # relative, of each probability
    # The two laws do not overlap within reach: everything counts as lost.
    if move >= len(law):
        return _Losses(np.zeros(0), np.zeros(0), 1.0)
    here, there = law[:-move], law[move:]
    both = (here > 0) & (there > 0)
    mass = here[both] * (1 + error)
    # Either probability may be off by `error`, the difference of logarithms by twice that; the
    # third is to spare.
    loss = np.log(here[both]) - np.log(there[both]) + 3 * error
    return _Losses(loss, mass, max(0.0, 1 - float(here[both].sum())) + error)


@lru_cache(maxsize=8)
def law_of_sum(kind: str, share: Fraction, count: int, reach: float) -> Floats:
    """P(Σ = z) for |z| up to `reach` standard deviations."""
    sigma = float(share)
    end = math.ceil(reach * max(sigma * math.sqrt(count), 2.0))
    z = np.arange(-end, end + 1, dtype=np.float64)
    if kind == "skellam":
        from scipy.special import ive

        # P(z) = e^-v I_|z|(v) with v the variance; `ive` is that product, which would overflow
        # apart.
        law = ive(np.abs(z), count * sigma**2)
    else:
        one = np.exp(-(z**2) / (2 * sigma**2))
        law = _sum_of(one / one.sum(), count, end)
    return np.where(law > 1e-200, law, 0.0)


def _sum_of(one: Floats, count: int, end: int) -> Floats:
    """The law of the sum of `count` numbers with the symmetric law `one`, cut off beyond ±end.

    By repeated doubling, in sums of positive terms only: no digit is lost to cancellation, and
    whatever is cut off only lowers the result.
    """
    total, power = np.ones(1), one
    while count:
        if count % 2:
            total = _trim(np.convolve(total, _trim(power, end)), end)
        count //= 2
        if count:
            power = _trim(power, end)
            power = np.convolve(power, power)
    return np.pad(total, end - len(total) // 2)


def _trim(law: Floats, end: int) -> Floats:
    """The middle of a symmetric law, without what is below 1e-30 or beyond ±end."""
    middle = len(law) // 2
    keep = min(end, middle - int(np.argmax(law > 1e-30)))
    return law[middle - keep : middle + keep + 1]


def _losses_of_wide(kind: str, share: Fraction, count: int, reach: float, move: int) -> _Losses:
    """From a discrete Gaussian of the same σ, in blocks, each at its highest loss and density."""
    sigma = float(share)
    spread = sigma * math.sqrt(count)
    tau = 10 * count * math.exp(-((math.pi * sigma) ** 2)) if count > 1 else 0.0
    width = max(1, int(spread) >> 14)
    blocks = math.ceil(reach * spread / width)
    low = width * np.arange(-blocks, blocks, dtype=np.float64)
    # Each block counts as if all of it were where the density is highest and, for the loss, at its
    # lower end, where the loss is highest.
    nearest = np.where(low >= 0, low, low + width - 1) / spread
    # P ≤ e^τ of the discrete Gaussian, and a ratio of two such laws off by e^{2τ}.
    density = np.exp(tau - nearest**2 / 2) / (math.sqrt(2 * math.pi) * spread)
    loss = (move / spread) * (move / spread / 2 - low / spread) + 2 * tau
    beyond = math.erfc((blocks * width - 1) / spread / math.sqrt(2))
    return _Losses(loss + 1e-11, density * width * (1 + 1e-11), beyond * math.exp(tau))
