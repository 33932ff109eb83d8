"""Synthetic federations with label shift, as ready scores: no model and no files needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fedcover as fc

IMAGENET = (*[3950] * 10, 500)
"""Sizes of the paper's ImageNet federation: 40,000 records at 11 sites, the last is the target."""


def sites(sizes: Sequence[int], n_classes: int, seed: int = 0) -> list[fc.Site]:
    """Sites whose last one has mostly hard labels, the others mostly easy ones.

    Half of the labels are easy (low scores), half hard; 90 % of a site's records come from its own
    half. Given the label, scores have the same distribution everywhere. Label counts are those of
    thirty times as many training records, so most labels have a ratio ŵ_y of their own.
    """
    rng = np.random.default_rng(seed)
    half = n_classes // 2
    made = []
    for i, n in enumerate(sizes):
        shares = np.full(n_classes, (0.1 if i == len(sizes) - 1 else 0.9) / half)
        shares[half:] = (1 - shares[:half].sum()) / (n_classes - half)
        labels = rng.choice(n_classes, n, p=shares)
        scores = np.where(labels < half, rng.beta(2, 2, n), rng.beta(5, 2, n))
        counts = rng.multinomial(30 * n, shares)
        site = fc.Site(f"site {i}", scores, labels, n_classes=n_classes, label_counts=counts)
        made.append(site)
    return made


def again(federation: Sequence[fc.Site]) -> list[fc.Site]:
    """The same sites without anything they have kept, such as their sorted scores."""
    return [
        fc.Site(s.name, s.scores, s.labels, n_classes=s.n_classes, label_counts=s.label_counts)
        for s in federation
    ]
