"""The paper's federations, drawn anew for every repetition from a model's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import ranking
from fedcover._io.files import read_outputs
from fedcover.errors import FileError
from fedcover.inputs import Floats
from fedcover.scores import APS
from fedcover.site import Site

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

PANEL = 5_000_000
"""How many scores are kept for set sizes: all labels of 5000 records, where labels are 1000."""


@dataclass(frozen=True)
class Records:
    """A model's outputs on labelled records, as the two parts of the APS score ρ + U·f̂[y].

    They are computed once; a repetition only draws U. All labels' parts are kept for a panel of
    records, which is enough to measure set sizes.

    Attributes
    ----------
    labels, above, own
        (n,) labels y, ρ(x, y) and f̂(x)[y].
    panel
        (m,) the panel's records, in increasing order.
    panel_above, panel_probs
        (m, C) ρ and f̂ of all labels.
    """

    labels: Int64
    above: Float64
    own: Float64
    panel: Int64
    panel_above: Float32
    panel_probs: Float32

    @classmethod
    def of(cls, parts: Iterable[tuple[Floats, Int64]], n: int, n_classes: int) -> Records:
        """Records from (probabilities, labels) that come in parts, n records in all."""
        kept = np.zeros(n, dtype=bool)
        # A stream of its own: a repetition that split by the same one would test on no panel.
        kept[np.random.default_rng([PANEL, n]).permutation(n)[: PANEL // n_classes]] = True
        pieces: list[tuple[NDArray[Any], ...]] = []
        at = 0
        for probs, y in parts:
            shown = probs[kept[at : at + len(y)]]
            mass, _, _ = ranking.masses(shown, compiled=False, lower=False)
            own = probs[np.arange(len(y)), y].astype(np.float64)
            above = ranking.Rows(probs, y).above[:, 0]
            pieces.append((y, above, own, mass.astype(np.float32), shown.astype(np.float32)))
            at += len(y)
        joined = [np.concatenate(column) for column in zip(*pieces, strict=True)]
        labels, above, own, panel_above, panel_probs = joined
        return cls(labels, above, own, np.flatnonzero(kept), panel_above, panel_probs)

    @property
    def n_classes(self) -> int:
        return self.panel_probs.shape[1]

    def scores(self, pick: Int64, score: APS, rng: np.random.Generator) -> Float64:
        """Scores of the records' own labels, with fresh U where the score is randomised."""
        return np.minimum(
            1.0, self.above[pick] + random_part(score, len(pick), rng) * self.own[pick]
        )

    def mean_scores(self, u: float) -> Float64:
        """(C,) mean score of every label at this U; infinite for a label without records."""
        count = np.bincount(self.labels, minlength=self.n_classes)
        total = np.bincount(self.labels, self.above + u * self.own, minlength=self.n_classes)
        return np.where(count > 0, total / np.maximum(count, 1), np.inf)


def random_part(score: APS, n: int, rng: np.random.Generator) -> Float64:
    """U of n records: drawn afresh, or the fixed one of a deterministic score."""
    return rng.random(n) if score.u == "uniform" else np.full(n, float(score.u))


@lru_cache(maxsize=2)
def cifar10_records(path: str | None, temperature: float) -> Records:
    """Outputs of a file with ten classes; None for those shipped here."""
    shipped = files("fedcover.experiments") / "data" / "cifar10_resnet56.npz"
    return read_records(path or str(shipped), temperature, 10, 10)


def read_records(path: str, temperature: float, fewest: int, most: int) -> Records:
    """A file of logits and labels, checked to have from `fewest` to `most` classes."""
    table = read_outputs(path, logits=True, temperature=temperature)
    y, (n, classes) = table.require_labels(), table.probs.shape
    if not fewest <= classes <= most or n < 4 * classes:
        classes_allowed = f"{fewest}" if fewest == most else f"at least {fewest}"
        raise FileError(
            f"{path} has {n} records and {classes} classes",
            allowed=f"{classes_allowed} classes here, with at least 4 records per class on average",
            fix="Name the experiment that the file is for: fedcover reproduce NAME --logits FILE",
        )
    parts = ((table.probs[a : a + 1000], y[a : a + 1000]) for a in range(0, n, 1000))
    return Records.of(parts, n, classes)


def n_classes(path: str) -> int:
    """How many classes a file of logits has."""
    return int(read_outputs(path, logits=True).probs.shape[1])


def file_text(path: str) -> str:
    """A user's file in words, with what tells its contents apart."""
    return f"file {Path(path).name}, SHA-256 {sha256(Path(path).read_bytes()).hexdigest()[:12]}"


@dataclass(frozen=True, eq=False)
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
    labels, own, weights
        (n,) labels of the test records, scores of those labels, and weights that sum to 1 and
        follow the target's labels.
    scores, shares
        (m, C) scores of all labels and (m,) weights of the test records that measure set sizes:
        all of them, or some where labels are many.
    """

    sites: list[Site]
    target: str
    priors: Float64
    labels: Int64
    own: Float64
    weights: Float64
    scores: Float64
    shares: Float64

    def coverage(self, thresholds: Float64) -> float:
        """Share of test records whose label is in its set; thresholds by label, (C,)."""
        return min(1.0, float(self.weights @ (self.own <= thresholds[self.labels])))

    def size(self, thresholds: Float64) -> float:
        """Mean number of labels in a set."""
        return float((self.shares @ (self.scores <= thresholds)).sum())


@dataclass(frozen=True)
class Simulated:
    """Three Gaussians, two agents of 1000 and 50 records, uniform-prior Bayes classifier.

    score : the score function; n_test : test records of the second agent's label distribution.
    """

    score: APS
    n_test: int = 5000
    priors = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    sizes = (1000, 50)
    target = 1
    means = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 3.0]])

    def points(self, rng: np.random.Generator, n: int, prior: Float64) -> tuple[Float64, Int64]:
        """Records of a label distribution: (n, 2) points and labels."""
        y = rng.choice(3, size=n, p=prior)
        return self.means[y] + rng.normal(size=(n, 2)), y

    def predict(self, x: Float64) -> Float64:
        """The Bayes classifier's probabilities."""
        density = np.exp(x @ self.means.T - (self.means**2).sum(axis=1) / 2)
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
        p = np.ascontiguousarray(probs.T)  # column by column: faster than sorting three labels
        above = np.stack([np.sum([one * (one > own) for one in p], axis=0) for own in p], axis=1)
        u = random_part(self.score, self.n_test, rng)[:, None]
        scores = np.minimum(1.0, above + u * probs)
        own = scores[np.arange(self.n_test), y]
        return Draw(sites, "agent 2", self.priors, y, own, weights, scores, weights)


@dataclass(frozen=True)
class Resampled:
    """Agents whose records are drawn from one half of a data set, tested on the other half.

    Attributes
    ----------
    records, score
        The data and the score.
    priors, sizes
        (agents, C) label distributions, and numbers of calibration records.
    target
        Number of the agent whose coverage is measured, from 0.
    pool
        How many records, split off at random, the agents draw from, with replacement.
    labelled
        Labels known beside the calibration records, per calibration record; None: those of the
        calibration records alone stand for an agent's label distribution.
    """

    records: Records
    score: APS
    priors: Float64
    sizes: tuple[int, ...]
    target: int
    pool: int
    labelled: int | None = None

    def draw(self, rng: np.random.Generator) -> Draw:
        """One repetition: a new split, new agents, new U."""
        data, prior = self.records, self.priors[self.target]
        parts = np.split(rng.permutation(len(data.labels)), [self.pool])
        sites = []
        for i, pick in enumerate(_picked(data.labels, parts[0], self.priors, self.sizes, rng)):
            more = self.labelled and rng.multinomial(self.labelled * len(pick), self.priors[i])
            site = Site(
                f"agent {i + 1}",
                data.scores(pick, self.score, rng),
                data.labels[pick],
                n_classes=data.n_classes,
                label_counts=more,
                score=self.score,
            )
            sites.append(site)
        test = np.sort(parts[1])
        shown = np.flatnonzero(np.isin(data.panel, test, assume_unique=True))
        u = random_part(self.score, len(shown), rng)[:, None]
        y = data.labels[test]
        return Draw(
            sites=sites,
            target=sites[self.target].name,
            priors=self.priors,
            labels=y,
            own=data.scores(test, self.score, rng),
            weights=_weights(y, prior),
            scores=np.minimum(1.0, data.panel_above[shown] + u * data.panel_probs[shown]),
            shares=_weights(data.labels[data.panel[shown]], prior),
        )


def _weights(labels: Int64, prior: Float64) -> Float64:
    """Weights of test records for a label distribution.

    Labels of equal probability are weighted together: of a thousand labels many would otherwise
    hang on one record, or be missing.
    """
    kinds, kind = np.unique(prior, return_inverse=True)
    mass, held = np.bincount(kind) * kinds, np.bincount(kind[labels], minlength=len(kinds))
    raw = (mass / np.maximum(held, 1))[kind[labels]]
    return raw / raw.sum()


def _picked(
    labels: Int64, pool: Int64, priors: Float64, sizes: Sequence[int], rng: np.random.Generator
) -> list[Int64]:
    """Records of the pool for every agent, with replacement, in its label shares."""
    ordered = pool[np.argsort(labels[pool], kind="stable")]
    starts = np.searchsorted(labels[ordered], np.arange(priors.shape[1] + 1))
    held = np.diff(starts)
    out = []
    for n, prior in zip(sizes, priors, strict=True):
        share = np.where(held > 0, prior, 0.0)
        y = rng.choice(len(share), size=n, p=share / share.sum())
        out.append(ordered[starts[y] + (rng.random(n) * held[y]).astype(np.int64)])
    return out


def cifar10(records: Records, score: APS) -> Resampled:
    """The paper's ten agents: 55 % own label, agent 4 is the target and holds 50 records."""
    sizes = tuple({1: 2150, 3: 50}.get(i, 350) for i in range(10))
    priors = np.full((10, 10), 0.05) + 0.5 * np.eye(10)
    return Resampled(records, score, priors, sizes, 3, len(records.labels) // 2)


def imagenet(records: Records, score: APS, shift: float) -> Resampled:
    """The paper's eleven agents: ten hold mostly easy labels, the target mostly hard ones.

    G1 is the half of the labels with the lowest mean scores, G2 the rest. Agents 1 to 10 take
    `shift` of their records from G1, agent 11 from G2; within a group labels are equally likely.
    Of 50,000 records, 40,000 calibrate, 500 of them at agent 11; fewer keep these proportions. As
    in the paper, labels beside the calibration records are known, here ten times as many.
    """
    mean = records.mean_scores(0.5 if score.u == "uniform" else float(score.u))
    there = np.isfinite(mean)
    easy = np.zeros(len(mean), dtype=bool)
    easy[np.argsort(mean, kind="stable")[: there.sum() // 2]] = True
    low, high = easy / easy.sum(), (there & ~easy) / (there & ~easy).sum()
    priors = np.array([shift * low + (1 - shift) * high] * 10 + [shift * high + (1 - shift) * low])
    pool = len(records.labels) * 4 // 5
    small = pool // 80
    sizes = (*[(pool - small) // 10] * 10, small)
    return Resampled(records, score, priors, sizes, 10, pool, labelled=10)
