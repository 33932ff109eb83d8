"""The site's half of the sketch: what it answers, and what the answer costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
from fedcover.sketch import plan
from fedcover.sketch.bins import MOST_BINS
from fedcover.sketch.design import DESIGNS, design_matrix, longest_column

MOST_SCALE = 1 << 40


def answer(query: Message, site: Site) -> Message:
    """Site half: counts of the site's records in whole numbers, with whole-number noise."""
    cuts, rows = query.arrays["cuts"], query.arrays["rows"]
    numbers = query.numbers
    _agreed(cuts, rows, numbers, site)
    scores, labels = site.scores, site.labels
    if 0 < numbers["most"] < len(site):
        pick = SystemRandom().sample(range(len(site)), int(numbers["most"]))
        scores, labels = scores[pick], labels[pick]
    scale = int(numbers["scale"])
    out: dict[str, NDArray[Any]] = {}
    if numbers["table"]:
        bins, n_rows = len(cuts) + 1, int(rows.max()) + 1
        cell = rows[labels] * bins + np.searchsorted(cuts, scores, side="left")
        sigma = float(numbers["table_sigma"])
        if sigma == 0 and len(cell) < n_rows * bins // 2:
            out["cells"] = np.sort(cell).astype(np.uint32)  # fewer bytes than a table of zeros
        else:
            counts = np.bincount(cell, minlength=n_rows * bins).reshape(n_rows, bins)
            design = DESIGNS[int(numbers["design"])]
            measured = counts if design == "flat" else counts @ design_matrix(design, bins).T
            out["table"] = _noisy(measured * scale, sigma)
    if numbers["labels"]:
        columns = int(numbers["labels"])
        side = (scores > numbers["cut"]).astype(np.int64) if columns == 2 else 0
        counts = np.bincount(labels * columns + side, minlength=site.n_classes * columns)
        counts = counts.reshape(site.n_classes, columns)
        out["labels"] = _noisy(counts * scale, float(numbers["label_sigma"]))
    return Message("sketch", out)


def _noisy(values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
    if sigma == 0:
        return values
    return values + noise.discrete_gaussian(Fraction(sigma), values.shape)


def _agreed(
    cuts: NDArray[Any], rows: NDArray[Any], numbers: Mapping[str, int | float], site: Site
) -> None:
    """By shapes and public numbers alone: a check that looks at the data would be an oracle."""
    good = cuts.ndim == 1 and cuts.dtype == np.float64 and bool(np.isfinite(cuts).all())
    good = good and bool((np.diff(cuts) > 0).all()) and 1 <= len(cuts) < MOST_BINS
    good = good and rows.dtype == np.int64 and rows.shape == (site.n_classes,)
    good = good and rows.min() >= 0 and rows.max() < site.n_classes
    good = good and numbers["labels"] in (0, 1, 2) and 0 <= numbers["design"] < len(DESIGNS)
    good = good and 1 <= numbers["scale"] <= MOST_SCALE and numbers["most"] >= 0
    good = good and min(numbers["table_sigma"], numbers["label_sigma"]) >= 0
    if not good:
        raise FedcoverError(
            "a query has bins, rows or numbers outside what was agreed",
            allowed="bins in order, a row for every label, a known design, noise of 0 or more",
            fix="Do not answer this server: it would void the privacy account",
        )


def charges(query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
    """What answering costs, worked out by the site from the query alone."""
    numbers = query.numbers
    if privacy.unit == "site" and not numbers["most"]:
        return (ExactRelease("all records of a site, without a limit to their number"),)
    most = int(numbers["most"]) or None
    moved = plan.reach(privacy, most) * float(numbers["scale"])
    seen = math.sqrt(plan.unknown_shares(privacy, n_sites))
    events: list[Event] = []
    if numbers["table"]:
        column = longest_column(DESIGNS[int(numbers["design"])], len(query.arrays["cuts"]) + 1)
        sigma = float(numbers["table_sigma"]) * seen
        events.append(_event("label × score table", sigma, moved * column))
    if numbers["labels"]:
        events.append(_event("label totals", float(numbers["label_sigma"]) * seen, moved))
    return tuple(events)


def _event(what: str, sigma: float, sensitivity: float) -> Event:
    return GaussianRelease(what, sigma, sensitivity) if sigma else ExactRelease(what)
