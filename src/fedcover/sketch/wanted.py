"""A site's label distribution, from whatever the site has, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.labelshift.estimate import from_unlabelled
from fedcover.sketch.mixture import mixture
from fedcover.sketch.table import SketchTable
from fedcover.sketch.totals import label_totals

Float64 = NDArray[np.float64]

RESAMPLES = 50
"""Bootstrap samples from which the error of a label mix guessed from predictions is found."""


@dataclass(frozen=True)
class Mix:
    """A label distribution.

    Attributes
    ----------
    wanted
        (C,) shares.
    counted
        From how many labels they were counted; None if they were given or guessed.
    guesses
        (resamples, C) shares guessed from resampled predictions; None if they were not guessed.
    """

    wanted: Float64
    counted: int | None = None
    guesses: Float64 | None = None

    def guess_variance(self, table: SketchTable, alphas: tuple[float, ...]) -> Float64 | None:
        """Variance of the coverage because the mix was guessed; None if it was not."""
        if self.guesses is None:
            return None
        mixed = mixture(table, self.wanted)
        row = table.layout.row_of
        moved = [self.guesses @ mixed.rows[row, mixed.edge(a)] for a in alphas]
        return np.var(moved, axis=1)


def mix_of(
    table: SketchTable,
    label_names: tuple[str, ...] | None,
    label_counts: ArrayLike | None,
    labels: ArrayLike | None,
    probabilities: ArrayLike | None,
    source: ArrayLike | None,
) -> Mix:
    """The label distribution from exactly one of counts, labels and predictions."""
    given = [v is not None for v in (label_counts, labels, probabilities)]
    if sum(given) != 1:
        raise FedcoverError(
            f"{sum(given)} of label_counts, labels and probabilities are given",
            allowed="exactly one",
            fix="personalise(label_counts, alpha=0.1), for example",
        )
    n_classes = table.layout.n_classes
    if probabilities is not None:
        return guessed(table, label_names, probabilities, source)
    if source is not None:
        raise FedcoverError(
            "source is given without probabilities",
            allowed="source with probabilities",
            fix="Leave it out: counted labels need none",
        )
    if labels is not None:
        y = checks.labels(labels, n_classes, "labels", None, label_names)
        if not len(y):
            raise FedcoverError(
                "labels is empty", allowed="at least one label", fix="Give label_counts"
            )
        counts = np.bincount(y, minlength=n_classes)
        return Mix(checks.distribution(counts, n_classes, "labels"), len(y))
    wanted = checks.distribution(label_counts, n_classes, "label_counts")  # type: ignore[arg-type]
    raw = checks.as_float(checks.array(label_counts, "label_counts"), "label_counts")
    counted = bool((raw == np.round(raw)).all() and (raw <= checks.MOST_RECORDS).all())
    return Mix(wanted, int(raw.sum()) if counted else None)


def guessed(
    table: SketchTable,
    label_names: tuple[str, ...] | None,
    probabilities: ArrayLike,
    source: ArrayLike | None,
) -> Mix:
    """The label mix of unlabelled records by EM, with a bootstrap of its error.

    It is right as far as the model's probabilities are, for records of the `source` label mix.
    """
    n_classes = table.layout.n_classes
    columns = checks.column_names(probabilities)
    if columns and label_names and columns != label_names:
        raise FedcoverError(
            f"the columns of probabilities are {', '.join(columns[:6])}",
            allowed=f"the sketch's classes in order: {', '.join(label_names[:6])}",
            fix="Order and name the columns as at the sites",
        )
    p = checks.probabilities(probabilities, "probabilities")
    if p.shape[1] != n_classes:
        raise FedcoverError(
            f"probabilities has {p.shape[1]} columns",
            allowed=f"one per class: {n_classes}",
            fix="Use outputs of the model whose scores were collected",
        )
    base = label_totals(table) if source is None else source
    wanted = from_unlabelled(p, source=base)
    rng = np.random.default_rng(0)
    again = [
        from_unlabelled(p[rng.integers(len(p), size=len(p))], source=base, tolerance=1e-5)
        for _ in range(RESAMPLES)
    ]
    return Mix(wanted, guesses=np.array(again))
