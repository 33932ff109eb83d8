"""The paper's federations, drawn anew for every repetition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fedcover as fc


@dataclass
class Draw:
    """One repetition: calibration sites, and a test sample weighted to the target's labels."""

    sites: list[fc.Site]
    scores: np.ndarray  # of the test records' own labels
    labels: np.ndarray
    weights: np.ndarray  # of the test records, summing to 1
    probs: np.ndarray | None = None  # of the test records

    def coverage(self, cal: fc.Calibration) -> float:
        return float(self.weights @ (self.scores <= cal.thresholds[0][self.labels]))

    def mean_size(self, cal: fc.Calibration) -> float:
        return float(cal.predict_set(self.probs, seed=0).sizes.mean())


class Simulated:
    """Three Gaussians, two agents of 1000 and 50 records, uniform-prior Bayes classifier."""

    priors = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    sizes = (1000, 50)
    target = "agent 2"
    means = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 3.0]])

    def __init__(self, score: fc.scores.Score, sizes: tuple[int, int] = sizes) -> None:
        self.score, self.sizes = score, sizes

    def draws(self, repetitions: int, n_test: int = 2000) -> Iterator[Draw]:
        for r in range(repetitions):
            rng = np.random.default_rng([2023, r])
            sites = []
            for i, (n, p) in enumerate(zip(self.sizes, self.priors, strict=True)):
                probs, y = self.records(rng, n, p)
                name = f"agent {i + 1}"
                sites.append(fc.Site.from_probabilities(name, probs, y, self.score, rng))
            probs, y = self.records(rng, n_test, self.priors[1])
            scores = self.score.of_labels(probs, y, rng)
            yield Draw(sites, scores, y, np.full(n_test, 1 / n_test), probs)

    def records(self, rng, n, prior):
        y = rng.choice(3, size=n, p=prior)
        x = self.means[y] + rng.normal(size=(n, 2))
        density = np.exp(-((x[:, None] - self.means) ** 2).sum(axis=2) / 2)
        return density / density.sum(axis=1, keepdims=True), y


class Cifar10:
    """The paper's ten agents on real CIFAR-10 outputs; agent 4 is the target with 50 records."""

    priors = np.full((10, 10), 0.05) + 0.5 * np.eye(10)
    sizes = tuple({1: 2150, 3: 50}.get(i, 350) for i in range(10))
    target = "agent 4"

    def __init__(self, path: Path, score: fc.scores.Score) -> None:
        with np.load(path, allow_pickle=False) as file:
            self.probs = fc.softmax(file["logits"], temperature=1.6)
            self.labels = file["labels"].astype(np.int64)
        self.score = score

    def draws(self, repetitions: int) -> Iterator[Draw]:
        for r in range(repetitions):
            rng = np.random.default_rng([10, r])
            half = rng.permutation(len(self.labels))
            cal, test = np.split(half, 2)
            by_class = [cal[self.labels[cal] == y] for y in range(10)]
            sites = []
            for i, (n, p) in enumerate(zip(self.sizes, self.priors, strict=True)):
                y = rng.choice(10, size=n, p=p)
                pick = np.array([rng.choice(by_class[k]) for k in y])
                name = f"agent {i + 1}"
                probs = self.probs[pick]
                sites.append(fc.Site.from_probabilities(name, probs, y, self.score, rng))
            y = self.labels[test]
            weights = (self.priors[3] / np.bincount(y, minlength=10))[y]
            scores = self.score.of_labels(self.probs[test], y, rng)
            yield Draw(sites, scores, y, weights)


def coverages(
    federation: Simulated | Cifar10, methods: dict[str, object], repetitions: int
) -> dict[str, np.ndarray]:
    """Coverage at the target of every method in every repetition."""
    out: dict[str, list[float]] = {name: [] for name in methods}
    for r, draw in enumerate(federation.draws(repetitions)):
        for name, method in methods.items():
            cal = fc.calibrate(draw.sites, 0.1, method, targets=federation.target, seed=r)
            out[name].append(draw.coverage(cal[federation.target]))
    return {name: np.array(values) for name, values in out.items()}
