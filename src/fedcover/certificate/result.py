"""What a certificate says, and the tables it is made from, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks
from fedcover.errors import FedcoverError

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """What is promised, with which probability.

    Attributes
    ----------
    confidence
        1-β, for all α together.
    statement
        In words: what holds, what the probability is over, what is taken on the caller's word.
    """

    confidence: float
    statement: str


@dataclass(frozen=True)
class Certified(Certificate):
    """A certificate made from a table of misses.

    Attributes
    ----------
    alphas
        The levels α.
    edges
        One per α: the row of the table whose edge is certified. 0 is the full set.
    parts
        What of β each step may use; they sum to β.
    """

    alphas: tuple[float, ...]
    edges: tuple[int, ...]
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Tables:
    """Noisy misses (V, E, C) with variance proxies, noisy totals (C,), and what is asked."""

    misses: Float64
    variance: Float64
    totals: Float64
    total_sd: float
    alphas: tuple[float, ...]
    beta: float

    @classmethod
    def checked(
        cls,
        misses: Any,
        variance: Any,
        totals: Any,
        total_sd: float,
        alpha: float | Sequence[float],
        confidence: float,
    ) -> Tables:
        table = _finite(misses, "misses")
        table = table[None] if table.ndim == 2 else table
        if table.ndim != 3 or not table.size:
            raise FedcoverError(
                f"misses has shape {table.shape}",
                allowed="one row per edge from score 1 downwards, one column per label",
                fix="Give the raw counts of one release",
            )
        proxies, counts = _finite(variance, "variance"), _finite(totals, "totals")
        try:
            noise = np.broadcast_to(proxies, table.shape)
        except ValueError:
            noise = np.full(1, -1.0)
        if counts.shape != table.shape[2:] or (noise < 0).any():
            raise FedcoverError(
                f"variance has shape {proxies.shape} and totals {counts.shape}",
                allowed=f"variances ≥ 0 that fit {table.shape}, and {table.shape[2]} totals",
                fix="Take all three from the same sketch",
            )
        sd = checks.real(total_sd, "total_sd", 0, np.inf)
        # With noise nobody can tell raw sums from smoothed ones; without, the caller is not
        # trusted.
        if not noise.any() and sd == 0:
            _plain_counts(table, counts)
        beta = 1 - checks.real(confidence, "confidence", 0, 1, open_low=True)
        if beta <= 0:
            raise FedcoverError(
                "confidence is 1", allowed="a number inside (0, 1)", fix="0.95 is usual"
            )
        return cls(table, noise, counts, sd, checks.alphas(alpha), beta)

    def certified(
        self,
        edges: Sequence[int],
        over: Sequence[str],
        trusted: Sequence[str],
        noisy: bool,
        parts: Mapping[str, float],
    ) -> Certified:
        """What comes out; `over` and `trusted` are what this kind of label mix adds."""
        over = ["the calibration records", *over, *["the privacy noise"] * noisy]
        trusted = [*TRUSTED, *trusted, SKETCH_TRUSTED, *[NOISE_TRUSTED] * noisy]
        statement = describe(self.alphas, self.beta, over, trusted)
        return Certified(1 - self.beta, statement, self.alphas, tuple(edges), parts)


def describe(
    alphas: tuple[float, ...],
    beta: float,
    over: Sequence[str],
    trusted: Sequence[str],
    shows: str = "depends on this site's own label mix without noise",
) -> str:
    """The statement of a certificate."""
    levels = ", ".join(f"{1 - a:.4g}" for a in alphas)
    hold = "is at least" if len(alphas) == 1 else "is, at every level together, at least"
    return (
        f"With probability at least {1 - beta:.4g}, the coverage at this site {hold} {levels}. "
        f"The probability is over {_listed(over)}. It is a statement about this site, not about "
        f"several sites together. Taken on your word: {_listed(trusted)}. The threshold {shows}."
    )


TRUSTED = (
    "records of one label are alike at all sites and independent",
    "the model and the edges were fixed before these records were seen",
    "every record is in one site's table, once, and every site told the truth",
)
NOISE_TRUSTED = "the noise named by the server, survivors included, is the noise in the sum"
SKETCH_TRUSTED = "this sketch was not chosen among several"


def _listed(parts: Sequence[str]) -> str:
    return "; ".join(parts)


def _finite(values: Any, what: str) -> Float64:
    numbers = checks.as_float(checks.array(values, what), what).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise FedcoverError(
            f"{what} has a NaN or infinite entry",
            allowed="finite numbers",
            fix="Look at its source",
        )
    return numbers


def _plain_counts(misses: Float64, totals: Float64) -> None:
    """Without noise, raw counts can be told from smoothed ones."""
    whole = (misses == np.round(misses)).all() and (totals == np.round(totals)).all()
    inside = (misses >= 0).all() and (misses <= totals).all()
    if not (whole and inside and (np.diff(misses, axis=1) >= 0).all()):
        raise FedcoverError(
            "misses without noise are not whole numbers that grow downwards up to the totals",
            allowed="plain counts of records above each edge",
            fix="Give the raw table: a smoothed or blended curve has no certificate",
        )
