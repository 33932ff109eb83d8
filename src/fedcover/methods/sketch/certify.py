"""The certificate of a target: which edge of the public bins is enough, with which probability.

Edges are those of the table, from score 1 downward, fixed before any data. The misses are linear
sums of the table: never blended or made monotone, and averaged only over fixed windows further
down, where there are no fewer. One threshold serves all labels.
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
from fedcover.methods.base import Fit
from fedcover.methods.sketch import factor
from fedcover.methods.sketch.personalise import Personal
from fedcover.methods.sketch.table import upper_edges

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
    # The proof averages over independent draws of labels, or takes the mix as known: an estimate
    # from predictions is neither (docs/certificate.md, steps 7 and 17).
    if mix.draws is not None:
        raise FedcoverError(
            "certify with a label mix guessed from predictions",
            allowed="label counts of the site, or shares that are known",
            fix="Count some labels: 50 are enough to begin with",
        )
    # Bin(n_y, g_y) of step 4 is per label: a row of several has no single miss rate g.
    if table.layout.groups is not None:
        raise shared_rows()
    misses, variance = views(table.misses, table.table_sd)
    if own is not None and not _pool_wins(personal, variance[-1], confidence, len(own)):
        # Where only noisy totals tell how large the pool is, what the pool stakes on them is lost.
        spent = TOTALS_SHARE if table.records is None and table.label_sd > 0 else 0.0
        thresholds, certificate = certified_alone(np.sort(own), personal.alphas, confidence, spent)
        return replace(_certified(fit, thresholds, certificate), own_scores=True)
    release = (misses, variance, table.separate_totals)
    if mix.counts is None:
        test = partial(certify_known_mix, *release, mix=mix.shares)
    else:
        test = partial(certify_counted_mix, *release, counts=mix.counts)
    certified = test(alpha=personal.alphas, confidence=confidence, total_sd=table.label_sd)
    # Row k of the table lies below k bins, so its edge is the upper edge of bin k.
    thresholds = upper_edges(table.layout.cut_array)[list(certified.edges)]
    return _certified(fit, thresholds, Certificate(certified.confidence, certified.statement))


WINDOWS = (0.0, 0.005, 0.063)
"""Over which part of all edges noisy misses are averaged: little for steep curves, and more."""


def windows(bins: int) -> tuple[int, ...]:
    """Over how many further edges; every one once."""
    return tuple(sorted({round(part * bins) for part in WINDOWS}))


def views(sums: Float64, table_sd: float) -> tuple[Float64, Float64]:
    """Misses (V, E, C) and their noise (V, E, 1); row k is of edge k, above which are k bins.

    Noise is averaged away over edges further down, where misses are no fewer: no more is certified.

    Parameters
    ----------
    sums
        (C, B) raw sums of a table from the top, `SketchTable.misses`.
    table_sd
        The deviation of its noise.
    """
    rows, bins = sums.shape
    # Every further view costs a part of β; without noise there is nothing to average away.
    ways = windows(bins) if table_sd else (0,)
    misses = np.zeros((len(ways), bins, rows))
    variance = np.zeros((len(ways), bins, 1))
    ahead = np.cumsum(np.pad(sums, ((0, 0), (1, 0))), axis=1)
    # Row 0 is the score 1, above which there are no misses and so no noise. Row k + 1 starts with
    # the sum over the bins 0 … k, of which windows take the mean with later ones.
    first = np.arange(bins - 1)
    for view, window in enumerate(ways):
        last = np.minimum(first + window + 1, bins)
        misses[view, 1:] = ((ahead[:, last] - ahead[:, first]) / (last - first)).T
        variance[view, 1:, 0] = (table_sd * factor.ahead_deviation(bins, window)[:-1]) ** 2
    return misses, variance


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
    # How many records there are says nothing of their labels, so the choice leaves the probability
    # over counted labels as it is (docs/certificate.md, steps 15 and 17).
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
            # Levels hold together by a union bound: β/A for each.
            confidence=1 - (1 - confidence) / len(personal.alphas),
            total_sd=table.label_sd,
        )
        for alpha in personal.alphas
    )


def _certified(fit: Fit, thresholds: Int64, certificate: Certificate) -> Fit:
    """One threshold for all labels."""
    limits = np.repeat(thresholds[:, None], fit.positions.shape[1], axis=1)
    return replace(
        fit,
        positions=limits,
        certificate=certificate,
        own_scores=False,  # it was about the thresholds that are replaced here
        coverage_error=None,  # it was about 1-α itself, and certified thresholds aim above it
        error="",
    )
