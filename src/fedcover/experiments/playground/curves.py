"""Misses and set sizes of the shipped CIFAR-10 outputs at every edge of the public bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from fedcover._io.files import read_outputs
from fedcover.methods.sketch.table import NOISY_BINS, bins_of, standard_cuts
from fedcover.position import positions
from fedcover.scores import APS

Int64 = NDArray[np.int64]

TEMPERATURE = 1.6
"""That of the experiments on CIFAR-10."""

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@dataclass(frozen=True)
class Curves:
    """Whole numbers, so that the page and Python start from the same.

    Attributes
    ----------
    records
        Records of each class.
    misses
        (C, B) records of each class whose own score lies in a bin or above it, from the top.
    left_out
        (C, B) how many labels are missing, summed over the records of each class, from the sets
        whose threshold is the lower edge of a bin.
    """

    records: int
    misses: Int64
    left_out: Int64


@lru_cache(maxsize=1)
def cifar10() -> Curves:
    """Scores are APS with a random u of each record."""
    path = files("fedcover.experiments") / "data" / "cifar10_resnet56.npz"
    table = read_outputs(str(path), logits=True, temperature=TEMPERATURE)
    y, score = table.require_labels(), APS()
    cuts = np.array(standard_cuts(NOISY_BINS), dtype=np.int64)
    # Not the usual u, a hash of the probabilities: their last bit differs between processors, and
    # the page that is shipped can then be compared with the one that is made.
    u = np.random.default_rng(0).random(len(y))
    own = score.positions(table.probs, y, u=u)
    every = positions(score.of_all(table.probs, u=u), score.distances_of_all(table.probs, u=u))
    n_classes = len(CLASSES)
    misses, left_out = (np.zeros((n_classes, NOISY_BINS), dtype=np.int64) for _ in range(2))
    for k in range(n_classes):
        for out, at in ((misses, own[y == k]), (left_out, every[y == k].ravel())):
            counts = np.bincount(bins_of(at, cuts), minlength=NOISY_BINS)
            out[k] = np.cumsum(counts)
    return Curves(int((y == 0).sum()), misses, left_out)
