"""What the server asks for a sketch, checked; and what a site answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.methods.sketch import factor, plan
from fedcover.methods.sketch.table import MOST_BINS, MOST_CELLS, bins_of
from fedcover.position import TOP
from fedcover.privacy import noise
from fedcover.privacy.events import Event, ExactRelease, GaussianRelease
from fedcover.privacy.noise import MOST_SIGMA
from fedcover.privacy.randomness import SYSTEM, Randomness, sample
from fedcover.privacy.statement import Privacy
from fedcover.site import Site
from fedcover.wire import Message

MOST_SCALE = 1 << 40

MOST_CONFUSED = 100
"""Labels up to which a confusion matrix is released: it has a cell for every pair."""


@dataclass(frozen=True)
class SketchQuery:
    """A query in good order.

    Attributes
    ----------
    cuts
        Inner cuts of the score bins, as positions.
    rows
        (C,) row of each label.
    factored
        Whether factorised counts are asked for.
    scale, table_sigma, label_sigma
        In which units, with how much noise.
    confusion, confusion_sigma
        Whether predicted × true labels are asked for, and with how much noise.
    most
        Most records that a site puts in; 0 for all.
    """

    cuts: NDArray[np.int64]
    rows: NDArray[np.int64]
    factored: bool
    scale: int
    table_sigma: float
    label_sigma: float
    confusion: bool
    confusion_sigma: float
    most: int

    @classmethod
    def of(cls, query: Message, n_classes: int | None = None) -> SketchQuery:
        """What a query asks; refused by shapes and public numbers alone.

        A check that looked at the data would be an oracle.
        """
        n = query.numbers
        cuts, rows = (query.arrays.get(key, np.empty((0, 0))) for key in ("cuts", "rows"))
        valid = _valid_arrays(cuts, rows, n_classes)
        valid = valid and _whole(n, "factored", 0, 1) and _whole(n, "confusion", 0, 1)
        valid = valid and _whole(n, "scale", 1, MOST_SCALE) and _whole(n, "most", 0, 1 << 40)
        sigmas = ("table_sigma", "label_sigma", "confusion_sigma")
        valid = valid and all(_real(n, k, 0, MOST_SIGMA) for k in sigmas)
        valid = valid and (not n["confusion"] or len(rows) <= MOST_CONFUSED)
        if not valid:
            raise FedcoverError(
                "a query has bins, rows or numbers outside what was agreed",
                allowed="bins in order, a row for every label, noise of 0 or more",
                fix="Do not answer this server: it would void the privacy account",
            )
        return cls(
            cuts=cuts,
            rows=rows,
            factored=bool(n["factored"]),
            scale=int(n["scale"]),
            table_sigma=float(n["table_sigma"]),
            label_sigma=float(n["label_sigma"]),
            confusion=bool(n["confusion"]),
            confusion_sigma=float(n["confusion_sigma"]),
            most=int(n["most"]),
        )

    @property
    def bins(self) -> int:
        return len(self.cuts) + 1

    @property
    def n_rows(self) -> int:
        return int(self.rows.max()) + 1


def _valid_arrays(cuts: NDArray[Any], rows: NDArray[Any], n_classes: int | None) -> bool:
    valid = cuts.ndim == 1 and cuts.dtype == np.int64 and 1 <= len(cuts) < MOST_BINS
    valid = valid and bool((np.diff(cuts) > 0).all()) and cuts[0] >= 0 and cuts[-1] < TOP
    valid = valid and rows.ndim == 1 and rows.dtype == np.int64 and len(rows) > 0
    valid = valid and n_classes in (None, len(rows))
    valid = valid and int(rows.min()) >= 0 and int(rows.max()) < len(rows)
    return valid and (int(rows.max()) + 1) * (len(cuts) + 1) <= MOST_CELLS


def _whole(numbers: Mapping[str, int | float], key: str, least: int, most: int) -> bool:
    value = numbers.get(key)
    return isinstance(value, (int, np.integer)) and least <= value <= most


def _real(numbers: Mapping[str, int | float], key: str, least: float, most: float) -> bool:
    value = numbers.get(key, math.nan)
    return isinstance(value, (int, float, np.number)) and least <= value <= most


def answer(query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
    """Site half: counts of the site's records in whole numbers, with whole-number noise."""
    spec = SketchQuery.of(query, site.n_classes)
    if spec.confusion and site.predictions is None:
        raise FedcoverError(
            f"site {site.name!r} does not know what the model predicted for its records",
            allowed="a confusion matrix of sites made from probabilities or logits",
            fix="Use Site.from_probabilities, or collect without confusion",
        )
    at, labels, predicted = site.positions, site.labels, site.predictions
    if 0 < spec.most < len(site):
        # By chance that nobody can foresee: a choice that depends on the records would let one
        # record move all that are taken.
        pick = sample(source, len(site), spec.most)
        at, labels = at[pick], labels[pick]
        predicted = None if predicted is None else predicted[pick]
    out: dict[str, NDArray[Any]] = {}
    cells = spec.n_rows * spec.bins
    cell = spec.rows[labels] * spec.bins + bins_of(at, spec.cuts)
    if spec.table_sigma == 0 and not spec.factored and len(cell) < cells // 2:
        out["cells"] = np.sort(cell).astype(np.uint32)  # fewer bytes than a table of zeros
    else:
        counts = np.bincount(cell, minlength=cells).reshape(spec.n_rows, spec.bins)
        values = factor.measured(counts) if spec.factored else counts
        out["table"] = _noisy(values * spec.scale, spec.table_sigma, source)
    # A release of its own, with noise independent of the table's: certificates rest on that
    # (docs/certificate.md, step 11), and the last sum of a row has far more noise.
    totals = np.bincount(labels, minlength=site.n_classes)
    out["labels"] = _noisy(totals * spec.scale, spec.label_sigma, source)
    if spec.confusion:
        assert predicted is not None
        c = site.n_classes
        pairs = np.bincount(predicted * c + labels, minlength=c * c).reshape(c, c)
        out["confusion"] = _noisy(pairs * spec.scale, spec.confusion_sigma, source)
    return Message("sketch", out)


def _noisy(values: NDArray[np.int64], sigma: float, source: Randomness) -> NDArray[np.int64]:
    if sigma == 0:
        return values
    # Fraction(σ) is the very number in the query, so what is drawn is what is charged.
    return values + noise.discrete_gaussian(Fraction(sigma), values.shape, source)


def charges(query: Message, privacy: Privacy, n_sites: int) -> tuple[Event, ...]:
    """What answering costs, worked out by the site from the query alone."""
    spec = SketchQuery.of(query)
    # Without a limit nothing bounds what a site can move: that is no release with a finite ε.
    if privacy.unit == "site" and not spec.most:
        return (ExactRelease("all records of a site, without a limit to their number"),)
    # Worked out here again, from the numbers of the query: a server that asks for less noise than
    # the budget allows is charged for what it really asks.
    moved = plan.reach(privacy, spec.most or None) * spec.scale
    seen = math.sqrt(plan.unknown_shares(privacy, n_sites))
    column = factor.reach(spec.bins) if spec.factored else 1.0
    parts = [
        ("label × score table", spec.table_sigma, moved * column),
        ("label totals", spec.label_sigma, moved),
    ]
    if spec.confusion:
        parts.append(("confusion matrix", spec.confusion_sigma, moved))
    return tuple(
        GaussianRelease(what, sigma * seen, reach) if sigma else ExactRelease(what)
        for what, sigma, reach in parts
    )
