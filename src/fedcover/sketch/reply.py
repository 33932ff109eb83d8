"""The site's half of the sketch: what it answers, and what the answer costs."""

from __future__ import annotations

import math
from fractions import Fraction
from secrets import SystemRandom
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.privacy import noise
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease
from fedcover.privacy.statement import Privacy
from fedcover.protocols.message import Message
from fedcover.site import Site
from fedcover.sketch import plan
from fedcover.sketch.asked import Asked
from fedcover.sketch.design import design_matrix, longest_column


def answer(query: Message, site: Site) -> Message:
    """Site half: counts of the site's records in whole numbers, with whole-number noise."""
    asked = Asked.of(query, site.n_classes)
    scores, labels = site.scores, site.labels
    if 0 < asked.most < len(site):
        pick = SystemRandom().sample(range(len(site)), asked.most)
        scores, labels = scores[pick], labels[pick]
    out: dict[str, NDArray[Any]] = {}
    if asked.table:
        cells = asked.n_rows * asked.bins
        cell = asked.rows[labels] * asked.bins + np.searchsorted(asked.cuts, scores, side="left")
        if asked.table_sigma == 0 and asked.design == "flat" and len(cell) < cells // 2:
            out["cells"] = np.sort(cell).astype(np.uint32)  # fewer bytes than a table of zeros
        else:
            counts = np.bincount(cell, minlength=cells).reshape(asked.n_rows, asked.bins)
            if asked.design != "flat":
                counts = counts @ design_matrix(asked.design, asked.bins).T
            out["table"] = _noisy(counts * asked.scale, asked.table_sigma)
    if asked.columns:
        side = (scores > asked.cut).astype(np.int64) if asked.columns == 2 else 0
        cells = site.n_classes * asked.columns
        counts = np.bincount(labels * asked.columns + side, minlength=cells)
        counts = counts.reshape(site.n_classes, asked.columns)
        out["labels"] = _noisy(counts * asked.scale, asked.label_sigma)
    return Message("sketch", out)


def _noisy(values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
    if sigma == 0:
        return values
    return values + noise.discrete_gaussian(Fraction(sigma), values.shape)


def charges(query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
    """What answering costs, worked out by the site from the query alone."""
    asked = Asked.of(query)
    if privacy.unit == "site" and not asked.most:
        return (ExactRelease("all records of a site, without a limit to their number"),)
    moved = plan.reach(privacy, asked.most or None) * asked.scale
    seen = math.sqrt(plan.unknown_shares(privacy, n_sites))
    events: list[Event] = []
    if asked.table:
        column = longest_column(asked.design, asked.bins)
        events.append(_event("label × score table", asked.table_sigma * seen, moved * column))
    if asked.columns:
        events.append(_event("label totals", asked.label_sigma * seen, moved))
    return tuple(events)


def _event(what: str, sigma: float, sensitivity: float) -> Event:
    return GaussianRelease(what, sigma, sensitivity) if sigma else ExactRelease(what)
