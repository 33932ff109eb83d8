"""A site's label distribution, from whatever the site has, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcover import checks
from fedcover.classnames import Names, in_order
from fedcover.errors import FedcoverError
from fedcover.labelshift.mix import guess_mix
from fedcover.methods.sketch.table import SketchTable, label_totals

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class LabelMix:
    """A label distribution.

    Attributes
    ----------
    shares
        (C,) shares P*.
    counts
        (C,) whole numbers they were counted from; None if they were given or guessed.
    draws
        (R, C) other shares that are as plausible; None if they were not guessed.
    said
        What a reader should know about a guess.
    """

    shares: Float64
    counts: NDArray[np.int64] | None = None
    draws: Float64 | None = None
    said: str = ""

    @property
    def counted(self) -> int | None:
        """From how many labels it was counted."""
        return None if self.counts is None else int(self.counts.sum())


def mix_of(
    table: SketchTable,
    label_names: Names | None,
    label_counts: ArrayLike | None,
    labels: ArrayLike | None,
    probabilities: ArrayLike | None,
    source: ArrayLike | None,
    known: bool = False,
) -> LabelMix:
    """The label distribution from exactly one of counts, labels and predictions.

    With `known`, counts must be whole numbers, or shares that sum to 1.
    """
    forms = [v is not None for v in (label_counts, labels, probabilities)]
    if sum(forms) != 1:
        raise FedcoverError(
            f"{sum(forms)} of label_counts, labels and probabilities are given",
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
        return LabelMix(checks.distribution(counts, n_classes, "labels"), counts)
    assert label_counts is not None, "one of the three is given"
    return LabelMix(*checks.label_mix(label_counts, n_classes, "label_counts", known=known))


def guessed(
    table: SketchTable,
    label_names: Names | None,
    probabilities: ArrayLike,
    source: ArrayLike | None,
) -> LabelMix:
    """The label mix of unlabelled records, by EM or through the sketch's confusion matrix."""
    n_classes = table.layout.n_classes
    probabilities = in_order(probabilities, label_names, "probabilities", "the sketch's")
    p = checks.probabilities(probabilities, "probabilities")
    if p.shape[1] != n_classes:
        raise FedcoverError(
            f"probabilities has {p.shape[1]} columns",
            allowed=f"one per class: {n_classes}",
            fix="Use outputs of the model whose scores were collected",
        )
    # EM divides the probabilities by the label mix they are meant for. Where the caller does not
    # know it, that of the calibration records is the nearest thing.
    base = label_totals(table) if source is None else source
    pairs = None if table.confusion is None else table.confusion / table.scale
    guess = guess_mix(p, source=base, confusion=pairs, confusion_sd=table.confusion_sd)
    note = f"; label mix guessed from {len(p)} unlabelled records ({guess.method}): {guess.why}"
    # Never counts: a guess has no m, and certificates need labels that were counted.
    return LabelMix(guess.shares, draws=guess.draws, said=note)
