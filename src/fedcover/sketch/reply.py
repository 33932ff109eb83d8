"""The site's half of the sketch: what it answers, and what the answer costs."""

from __future__ import annotations

import math
from fractions import Fraction
from secrets import SystemRandom
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.privacy import noise
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease
from fedcover.privacy.statement import Privacy
from fedcover.protocols.message import Message
from fedcover.site import Site
from fedcover.sketch import factor, plan
from fedcover.sketch.grid import bins_of
from fedcover.sketch.query import SketchQuery


def answer(query: Message, site: Site) -> Message:
    """Site half: counts of the site's records in whole numbers, with whole-number noise."""
    asked = SketchQuery.of(query, site.n_classes)
    if asked.confusion and site.predictions is None:
        raise FedcoverError(
            f"site {site.name!r} does not know what the model predicted for its records",
            allowed="a confusion matrix of sites made from probabilities or logits",
            fix="Use Site.from_probabilities, or collect without confusion",
        )
    at, labels, predicted = site.positions, site.labels, site.predictions
    if 0 < asked.most < len(site):
        pick = SystemRandom().sample(range(len(site)), asked.most)
        at, labels = at[pick], labels[pick]
        predicted = None if predicted is None else predicted[pick]
    out: dict[str, NDArray[Any]] = {}
    cells = asked.n_rows * asked.bins
    cell = asked.rows[labels] * asked.bins + bins_of(at, asked.cuts)
    if asked.table_sigma == 0 and not asked.factored and len(cell) < cells // 2:
        out["cells"] = np.sort(cell).astype(np.uint32)  # fewer bytes than a table of zeros
    else:
        counts = np.bincount(cell, minlength=cells).reshape(asked.n_rows, asked.bins)
        values = factor.measured(counts) if asked.factored else counts
        out["table"] = _noisy(values * asked.scale, asked.table_sigma)
    totals = np.bincount(labels, minlength=site.n_classes)
    out["labels"] = _noisy(totals * asked.scale, asked.label_sigma)
    if asked.confusion:
        assert predicted is not None
        c = site.n_classes
        pairs = np.bincount(predicted * c + labels, minlength=c * c).reshape(c, c)
        out["confusion"] = _noisy(pairs * asked.scale, asked.confusion_sigma)
    return Message("sketch", out)


def _noisy(values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
    if sigma == 0:
        return values
    return values + noise.discrete_gaussian(Fraction(sigma), values.shape)


def charges(query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
    """What answering costs, worked out by the site from the query alone."""
    asked = SketchQuery.of(query)
    if privacy.unit == "site" and not asked.most:
        return (ExactRelease("all records of a site, without a limit to their number"),)
    moved = plan.reach(privacy, asked.most or None) * asked.scale
    seen = math.sqrt(plan.unknown_shares(privacy, n_sites))
    column = factor.reach(asked.bins) if asked.factored else 1.0
    parts = [
        ("label × score table", asked.table_sigma, moved * column),
        ("label totals", asked.label_sigma, moved),
    ]
    if asked.confusion:
        parts.append(("confusion matrix", asked.confusion_sigma, moved))
    return tuple(
        GaussianRelease(what, sigma * seen, reach) if sigma else ExactRelease(what)
        for what, sigma, reach in parts
    )
