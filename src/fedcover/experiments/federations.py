"""The paper's federations, drawn anew for every repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcover.errors import FedcoverError
from fedcover.scores import Score
from fedcover.site import Site, softmax

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Draw:
    """One repetition of a federation.

    Attributes
    ----------
    sites
        The calibration sites.
    target
        Name of the site whose coverage is measured.
    priors
        (sites, C) true label distributions.
    probs, labels
        Test records.
    weights
        Weights of the test records, which sum to 1 and follow the target's labels.
    scores
        (n, C) scores of all labels of the test records.
    """

    sites: list[Site]
    target: str
    priors: Float64
    probs: Float64
    labels: Int64
    weights: Float64
    scores: Float64

    def coverage(self, thresholds: Float64) -> float:
        """Share of test records whose label is in its set; thresholds by label, (C,)."""
        own = self.scores[np.arange(len(self.labels)), self.labels]
        return float(self.weights @ (own <= thresholds[self.labels]))

    def size(self, thresholds: Float64) -> float:
        """Mean number of labels in a set."""
        return float(self.weights @ (self.scores <= thresholds).sum(axis=1))


def draw_sites(
    probs: Float64,
    labels: Int64,
    pool: Int64,
    priors: Float64,
    sizes: Sequence[int],
    score: Score,
    rng: np.random.Generator,
) -> list[Site]:
    """Sites "agent 1", "agent 2", … with records of the pool in the given label shares."""
    n_classes = priors.shape[1]
    order = np.argsort(labels[pool], kind="stable")
    sorted_pool = pool[order]
    starts = np.searchsorted(labels[sorted_pool], np.arange(n_classes + 1))
    held = np.diff(starts)
    sites = []
    for i, (n, prior) in enumerate(zip(sizes, priors, strict=True)):
        share = np.where(held > 0, prior, 0.0)
        y = rng.choice(n_classes, size=n, p=share / share.sum())
        pick = sorted_pool[starts[y] + (rng.random(n) * held[y]).astype(np.int64)]
        sites.append(Site.from_probabilities(f"agent {i + 1}", probs[pick], y, score, rng))
    return sites


@dataclass(frozen=True)
class Simulated:
    """Three Gaussians, two agents of 1000 and 50 records, uniform-prior Bayes classifier.

    score : the score function; n_test : test records of the second agent's label distribution.
    """

    score: Score
    n_test: int = 5000
    priors = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    sizes = (1000, 50)
    means = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 3.0]])

    def points(self, rng: np.random.Generator, n: int, prior: Float64) -> tuple[Float64, Int64]:
        """Records of a label distribution: (n, 2) points and labels."""
        y = rng.choice(3, size=n, p=prior)
        return self.means[y] + rng.normal(size=(n, 2)), y

    def predict(self, x: Float64) -> Float64:
        """The Bayes classifier's probabilities."""
        density = np.exp(-((x[:, None] - self.means) ** 2).sum(axis=2) / 2)
        return density / density.sum(axis=1, keepdims=True)

    def draw(self, rng: np.random.Generator) -> Draw:
        """One repetition."""
        sites = []
        for i, (n, prior) in enumerate(zip(self.sizes, self.priors, strict=True)):
            x, y = self.points(rng, n, prior)
            name = f"agent {i + 1}"
            sites.append(Site.from_probabilities(name, self.predict(x), y, self.score, rng))
        x, y = self.points(rng, self.n_test, self.priors[1])
        probs = self.predict(x)
        weights = np.full(self.n_test, 1 / self.n_test)
        scores = self.score.of_all(probs, rng)
        return Draw(sites, "agent 2", self.priors, probs, y, weights, scores)


@lru_cache(maxsize=4)
def outputs(path: str | None, temperature: float) -> tuple[Float64, Int64]:
    """Probabilities and labels of a file of logits; None for the CIFAR-10 ones shipped here."""
    place = files("fedcover.experiments") / "data" / "cifar10_resnet56.npz"
    source = Path(path) if path is not None else Path(str(place))
    try:
        with np.load(source, allow_pickle=False) as file:
            logits, labels = file["logits"], file["labels"].astype(np.int64)
    except (OSError, KeyError, ValueError):
        raise FedcoverError(
            f"{source} is not a file of logits",
            allowed="an .npz with 'logits' (records × classes) and 'labels'",
            fix="Save them with numpy.savez_compressed(path, logits=..., labels=...)",
        ) from None
    return softmax(logits, temperature).astype(np.float64), labels
