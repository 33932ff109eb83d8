"""The certificate of a target: which edge of the public bins is enough, with which probability.

Edges are those of the table, from score 1 downward, fixed before any data. The misses are the raw
sums of the table: never smoothed, blended or made monotone. One threshold serves all labels.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedcover.certificate import (
    TOTALS_SHARE,
    Certificate,
    certified_alone,
    certify_counted_mix,
    certify_known_mix,
    pool_is_expected_to_win,
)
from fedcover.errors import FedcoverError
from fedcover.protocols.base import Fit
from fedcover.sketch.grid import upper_edges
from fedcover.sketch.personal import Personal

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


def with_certificate(
    fit: Fit,
    personal: Personal,
    confidence: float,
    own: Int64 | None = None,
) -> Fit:
    """The fit with certified thresholds.

    Parameters
    ----------
    fit, personal
        The target's thresholds, and what they rest on.
    confidence
        With which probability the coverage is to be at least 1-α, at all levels together.
    own
        (n,) positions of the site's own scores, if it has any: where they alone are expected to
        give smaller sets, they are certified alone.
    """
    table, mix = personal.table, personal.mix
    if mix.draws is not None:
        raise FedcoverError(
            "certify with a label mix guessed from predictions",
            allowed="label counts of the site, or shares that are known",
            fix="Count some labels: 50 are enough to begin with",
        )
    if table.layout.groups is not None:
        raise shared_rows()
    variance = np.append(0.0, table.miss_deviation()[:-1] ** 2)[:, None]
    if own is not None and not _pool_wins(personal, variance, confidence, len(own)):
        # Where only noisy totals tell how large the pool is, what the pool stakes on them is lost.
        spent = TOTALS_SHARE if table.records is None and table.label_sd > 0 else 0.0
        found, certificate = certified_alone(np.sort(own), personal.alphas, confidence, spent)
        return _certified(fit, found, certificate)
    # Row k: records above edge k, which are those of the bins before it.
    misses = np.vstack([np.zeros(table.layout.rows), table.misses[:, :-1].T])
    given = (misses, variance, table.separate_totals)
    if mix.counts is None:
        test = partial(certify_known_mix, *given, mix=mix.shares)
    else:
        test = partial(certify_counted_mix, *given, counts=mix.counts)
    certified = test(alpha=personal.alphas, confidence=confidence, total_sd=table.label_sd)
    found = upper_edges(table.layout.cut_array)[list(certified.edges)]
    return _certified(fit, found, Certificate(certified.confidence, certified.statement))


def shared_rows() -> FedcoverError:
    """Labels of one row need not miss alike."""
    return FedcoverError(
        "certify with a sketch whose labels share rows",
        allowed="a sketch with a row per label",
        fix="Collect without groups",
    )


def _pool_wins(personal: Personal, variance: Float64, confidence: float, n_own: int) -> bool:
    """Whether the sketch is expected to certify smaller sets than the own records, by numbers.

    With a known mix always: only a counted one can be worse than the site alone.
    """
    if personal.mix.counted is None:
        return True
    table = personal.table
    records = table.records or max(float(table.separate_totals.sum()), 1.0)
    noise = float(variance.mean())
    return all(
        pool_is_expected_to_win(
            personal.mix.counted,
            n_own,
            records,
            table.layout.n_classes,
            noise,
            alpha=alpha,
            confidence=1 - (1 - confidence) / len(personal.alphas),
            total_sd=table.label_sd,
        )
        for alpha in personal.alphas
    )


def _certified(fit: Fit, found: Int64, certificate: Certificate) -> Fit:
    """One threshold for all labels."""
    limits = np.repeat(found[:, None], fit.positions.shape[1], axis=1)
    return replace(fit, positions=limits, certificate=certificate)
