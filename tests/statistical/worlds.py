"""Random worlds: score laws that nobody looked at, federations drawn from them, and the truth.

A world is a finite population of records, so that everything about it is known exactly: the
coverage of any thresholds, and the smallest coverage at or above 1-α that one threshold for all
labels can reach. Half of the families are outputs of a model, scored as a user would; the others
are ready scores. Sites draw records of a label from the population with replacement, with a fresh U
each time, and the truth is the integral over U.

Nothing here reads more than the public contract. Distances to 1 are computed on their own, so that
thresholds between scores that a float cannot tell from 1 are judged, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import fedcover as fc

EFFECTIVE = 200
"""The least effective number of records that the promise asks for."""

POPULATION, ENTRIES = 400_000, 1_500_000
"""Most records of a world of scores, and most entries of its table in a world of outputs."""

SATURATED = 1 - 1e-6
"""From here on thresholds are judged by `predict_set`, which knows scores by distances to 1."""

RESOLUTION, LEAST, FACTOR = 1 / 800, 1e-6, 0.87
"""What public bins are asked to tell apart: scores that differ by so much, or close to an end
scores whose distances to it differ by a factor; and nothing closer to 0 than the second."""

CROWD = 0.01
"""The part of a mixture that a crossing bin may hold before its upper edge is taken."""

PANEL = 200_000
"""Entries of the table that set sizes are measured with."""


# ---------------------------------------------------------------- laws


@dataclass(frozen=True)
class Quantile:
    """The smallest common threshold that covers a level.

    Attributes
    ----------
    inside
        How likely every record of a law lies within it.
    coverage
        What it covers: the attainable value.
    upper
        What is covered one bin further on, where that bin holds a crowd that public bins cannot
        tell apart; otherwise the attainable value, too.
    """

    inside: Callable[[Law], np.ndarray]
    coverage: float
    upper: float


@dataclass(frozen=True, eq=False)
class Law:
    """Scores of a population's records, each the line from `scores[0]` (U=0) to `scores[1]` (U=1).

    labels : (n,); scores, distances : (2, n), where the distances to 1 count beyond one half.
    """

    labels: np.ndarray
    scores: np.ndarray
    distances: np.ndarray

    @classmethod
    def of_scores(cls, labels: np.ndarray, values: np.ndarray) -> Law:
        return cls(labels, np.stack([values] * 2), np.stack([1 - values] * 2))

    @classmethod
    def of_outputs(cls, probs: np.ndarray, labels: np.ndarray, score: fc.scores.Score) -> Law:
        u = getattr(score, "u", 1.0)
        ends = (0.0, 1.0) if u == "uniform" else (u, u)
        scores = np.stack([score.of_labels(probs, labels, u=e) for e in ends])
        distances = np.stack([distance(score, probs, labels, e) for e in ends])
        return cls(labels, scores, distances)

    def weights(self, mix: np.ndarray) -> np.ndarray:
        """(n,) weight of every record for a label mix; they sum to 1."""
        held = np.bincount(self.labels, minlength=len(mix))
        return (mix / np.maximum(held, 1))[self.labels]

    def within(self, thresholds: np.ndarray | float) -> np.ndarray:
        """(n,) probability, over U, that the score is at most a threshold per record."""
        return _share(thresholds, *self.scores)

    def beyond(self, distance: float) -> np.ndarray:
        """(n,) probability that the score is at least so far from 1."""
        return _share(-distance, *-self.distances)

    def coverage(self, thresholds: np.ndarray, mix: np.ndarray) -> float:
        """Coverage of thresholds by label, (C,)."""
        return float(self.within(thresholds[self.labels]) @ self.weights(mix))

    def quantile(self, level: float, mix: np.ndarray) -> Quantile:
        """The smallest common threshold that covers `level`.

        Found by bisection of the bits of a float, which are in the order of the floats: of the
        score up to one half, of the distance to 1 beyond.
        """
        weights, level = self.weights(mix), level - 1e-9  # the weights' sum is rounded
        near_zero = float(self.within(0.5) @ weights) >= level
        inside = Law.within if near_zero else Law.beyond
        # `short` is a number that does not cover the level, `far` one that does.
        short, far = np.array([0.0, 0.5]).view(np.int64).tolist()
        if not near_zero:
            short, far = far, short
        elif float(self.within(0.0) @ weights) >= level:
            far = short
        while abs(far - short) > 1:
            middle = (short + far) // 2
            covers = float(inside(self, _float(middle)) @ weights) >= level
            short, far = (short, middle) if covers else (middle, far)
        at = _float(far)
        if near_zero:
            beyond = at + min(RESOLUTION, max(at * (1 / FACTOR - 1), LEAST))
        else:
            beyond = max(at - RESOLUTION, at * FACTOR)
        covered, upper = (float(inside(self, x) @ weights) for x in (at, beyond))
        crowd = upper - covered > CROWD
        return Quantile(lambda law: inside(law, at), covered, upper if crowd else covered)


def _float(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))


def _share(limit: np.ndarray | float, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """P(first + U·(last - first) ≤ limit)."""
    length = last - first
    flat = length <= 0
    share = (limit - first) / np.where(flat, 1.0, length)
    return np.where(flat, (first <= limit).astype(float), np.clip(share, 0.0, 1.0))


def distance(score: fc.scores.Score, probs: np.ndarray, labels: np.ndarray, u: float) -> np.ndarray:
    """1 - V of the records' own labels as a sum of small numbers, never as 1 minus a large one."""
    p = np.asarray(probs, dtype=np.float64)
    n, n_classes = p.shape
    rows = np.arange(n)
    own = p[rows, labels]
    rank = 1 + (p > own[:, None]).sum(axis=1)
    name = type(score).__name__
    if name == "LAC":
        return own
    if name == "TopK":
        return 1 - rank / n_classes
    others = p.copy()
    others[rows, labels] = 0.0
    if name == "Margin":
        others[rows, others.argmax(axis=1)] = 0.0  # all but the rival, which 1 - rival is made of
        return own + others.sum(axis=1) / 2
    if name == "SAPS":
        top = p.argmax(axis=1)
        rest = p.copy()
        rest[rows, top] = 0.0
        short = rest.sum(axis=1) + score.penalty * (n_classes + 1 - rank - u)
        first = 1 - u * p[rows, top] + score.penalty * (n_classes - 1)
        return np.where(rank == 1, first, short) / (1 + score.penalty * (n_classes - 1))
    aps = (others * (others <= own[:, None])).sum(axis=1) + (1 - u) * own
    if name == "APS":
        return aps
    most = max(0, n_classes - score.k_reg)
    spared = score.penalty * (most - np.maximum(0, rank - score.k_reg))
    return (aps + spared) / (1 + score.penalty * most)


# ---------------------------------------------------------------- families


def _betas(rng, n_classes, n, low=0.05, high=20.0):
    """Both parameters anywhere between low and high, different for every label."""
    a, b = np.exp(rng.uniform(np.log(low), np.log(high), (2, n_classes, 1)))
    return rng.beta(a, b, (n_classes, n))


def _atoms(rng, n_classes, n):
    """Up to 40 % of a label's mass at 0, up to 40 % at 1; in some worlds much less."""
    out, where = _betas(rng, n_classes, n, 0.3, 5), rng.random((n_classes, n))
    zero, one = rng.uniform(0, 0.4, (2, 1, 1)) * rng.random((2, n_classes, 1))
    return np.where(where < zero, 0.0, np.where(where > 1 - one, 1.0, out))


def _point(rng, n_classes, n):
    """Much of every label's mass at one and the same score."""
    share = np.clip(rng.uniform(0.1, 0.8) + rng.uniform(-0.1, 0.1, (n_classes, 1)), 0, 1)
    there = rng.random((n_classes, n)) < share
    return np.where(there, rng.random(), _betas(rng, n_classes, n, 0.3, 5))


def _discrete(rng, n_classes, n):
    """Two to twelve values, of other probabilities for every label."""
    values = np.sort(rng.random(rng.integers(2, 13)))
    shares = rng.dirichlet(np.ones(len(values)), n_classes)
    return np.stack([rng.choice(values, n, p=p) for p in shares])


def _rounded(rng, n_classes, n):
    """Scores written with one to three decimals."""
    return np.round(_betas(rng, n_classes, n, 0.3, 10), rng.integers(1, 4))


def _crowded(rng, n_classes, n):
    """Most scores in one place, as narrow as a millionth."""
    width = 10 ** rng.uniform(-6, -1.5)
    crowd = rng.uniform(0.02, 0.98) + width * rng.standard_normal((n_classes, n))
    there = rng.random((n_classes, n)) < rng.uniform(0.4, 0.95, (n_classes, 1))
    return np.clip(np.where(there, crowd, rng.random((n_classes, n))), 0, 1)


def _sides(rng, n_classes, n):
    """A part close to 0 and a part close to 1."""
    low = rng.random((n_classes, n)) < rng.uniform(0.1, 0.9, (n_classes, 1))
    return np.where(low, rng.beta(0.2, 5, low.shape), rng.beta(8, 0.3, low.shape))


SCORES = {
    "beta": _betas,
    "atoms": _atoms,
    "point": _point,
    "discrete": _discrete,
    "rounded": _rounded,
    "crowded": _crowded,
    "sides": _sides,
}
POWERS = {
    "calibrated": (1.0, 1.0),
    "flat": (0.2, 0.8),
    "sure": (1.5, 5.0),
    "saturated": (5.0, 10.0),
}
"""Families of softmax outputs, by the power that calibrated probabilities are raised to."""

FAMILIES = (*POWERS, *SCORES)


def _logits(rng, n_classes, n, powers):
    """Logits by label: Gaussian features, of which the softmax to the power 1 is the truth."""
    labels = np.repeat(np.arange(n_classes), n)
    apart = rng.uniform(0.5, 4, n_classes)
    x = rng.standard_normal((len(labels), n_classes))
    x[np.arange(len(labels)), labels] += apart[labels]
    power = np.exp(rng.uniform(*np.log(powers)))
    return power * (apart * x - apart**2 / 2)


def _score(rng):
    """One of the six; of the randomised ones sometimes the deterministic form."""
    kind = fc.scores.ALL[str(rng.choice(list(fc.scores.ALL)))]
    return kind(u=1.0) if hasattr(kind(), "u") and rng.random() < 0.2 else kind()


# ---------------------------------------------------------------- worlds


@dataclass(frozen=True, eq=False)
class Population:
    """Records that are all there is, as many of every label, in the order of the labels.

    Attributes
    ----------
    law
        Their scores.
    outputs, as_logits, score
        (n, C) probabilities or logits and the score; None of ready scores.
    """

    law: Law
    outputs: np.ndarray | None = None
    as_logits: bool = False
    score: fc.scores.Score | None = None

    @classmethod
    def of_scores(cls, values: np.ndarray) -> Population:
        """Of ready scores, (C, n) by label."""
        labels = np.repeat(np.arange(len(values)), values.shape[1])
        return cls(Law.of_scores(labels, values.ravel()))

    @classmethod
    def of_logits(
        cls, logits: np.ndarray, score: fc.scores.Score, as_logits: bool = False
    ) -> Population:
        """Of a model's logits, (C·n, C), which a user gets as such or as probabilities."""
        probs, n_classes = fc.softmax(logits), logits.shape[1]
        labels = np.repeat(np.arange(n_classes), len(logits) // n_classes)
        law = Law.of_outputs(probs, labels, score)
        return cls(law, logits if as_logits else probs, as_logits, score)

    def sites(self, drawn: Sequence[np.ndarray], rng: np.random.Generator) -> list[fc.Site]:
        """A site for each list of labels; records are drawn with replacement, U afresh."""
        n_classes = int(self.law.labels[-1]) + 1
        n = len(self.law.labels) // n_classes
        out = []
        for i, y in enumerate(drawn):
            rows, name = y * n + rng.integers(n, size=len(y)), f"site {i}"
            if self.outputs is None:
                out.append(fc.Site(name, self.law.scores[0][rows], y, n_classes=n_classes))
            else:
                make = fc.Site.from_logits if self.as_logits else fc.Site.from_probabilities
                seed = int(rng.integers(2**31))
                out.append(make(name, self.outputs[rows], y, score=self.score, seed=seed))
        return out

    def coverage(self, cal: fc.Calibration, mix: np.ndarray, level: int = 0) -> float:
        """The exact coverage of a calibration at one of its levels."""
        thresholds = np.asarray(cal.thresholds)[level]
        if self.outputs is None or thresholds[mix > 0].max() <= SATURATED:
            return self.law.coverage(thresholds, mix)
        own = np.arange(len(self.law.labels)), self.law.labels
        return float(self.mask(cal, self.outputs, level)[own] @ self.law.weights(mix))

    def size(self, cal: fc.Calibration, mix: np.ndarray, level: int = 0) -> float:
        """Mean set size, of records that follow a label mix."""
        rows, every = self._panel
        thresholds = np.asarray(cal.thresholds)[level]
        if thresholds[mix > 0].max() <= SATURATED:
            return self._mean_size(every.within(thresholds[every.labels]), mix)
        return self._mean_size(self.mask(cal, self.outputs[rows], level), mix)

    def oracle(self, alpha: float, mix: np.ndarray) -> Quantile:
        """The smallest common threshold that covers 1-α: the attainable value."""
        return self.law.quantile(1 - alpha, mix)

    def oracle_size(self, oracle: Quantile, mix: np.ndarray) -> float:
        """Mean set size of a common threshold."""
        return self._mean_size(oracle.inside(self._panel[1]), mix)

    def mask(self, cal: fc.Calibration, outputs: np.ndarray, level: int = 0) -> np.ndarray:
        """(n, C) what is in the sets that a user gets; U is even over the records."""
        u = (np.arange(len(outputs)) * 0.6180339887498949) % 1
        kind = "logits" if self.as_logits else "probs"
        fixed = getattr(self.score, "u", "uniform") != "uniform"
        mask = cal.predict_set(**{kind: outputs}, **({} if fixed else {"u": u})).mask
        return mask if mask.ndim == 2 else mask[level]

    @cached_property
    def _panel(self) -> tuple[np.ndarray, Law]:
        """Some records, as many of each label, and the law of all labels' scores of theirs."""
        n_classes = self.outputs.shape[1]
        n = len(self.outputs) // n_classes
        each = min(n, max(2, PANEL // n_classes**3))
        rows = (n * np.arange(n_classes)[:, None] + np.arange(each)).ravel()
        probs = fc.softmax(self.outputs[rows]) if self.as_logits else self.outputs[rows]
        labels = np.tile(np.arange(n_classes), len(rows))
        law = Law.of_outputs(np.repeat(probs, n_classes, axis=0), labels, self.score)
        return rows, law

    def _mean_size(self, inside: np.ndarray, mix: np.ndarray) -> float:
        rows = self._panel[0]
        weights = self.law.weights(mix)[rows]
        return float(inside.reshape(len(rows), -1).sum(axis=1) @ weights / weights.sum())


@dataclass(frozen=True, eq=False)
class World:
    """One draw: a population, a federation of sites, and the label mix of a target.

    Attributes
    ----------
    family, population
        What the scores are like.
    sites, mix
        What a user has: the calibration sites, and the target's true label mix.
    seed
        Of what else is drawn in this world.
    """

    family: str
    population: Population
    sites: list[fc.Site]
    mix: np.ndarray
    seed: int

    def __repr__(self) -> str:
        records = sum(len(s) for s in self.sites)
        name = self.family if self.population.score is None else f"{self.family}, {self.score}"
        return f"{name}: {len(self.mix)} labels, {len(self.sites)} sites, {records} records"

    @property
    def score(self) -> fc.scores.Score | None:
        return self.population.score

    def counts(self, labels: int) -> np.ndarray:
        """So many labels of the target, counted."""
        return np.random.default_rng([self.seed, labels]).multinomial(labels, self.mix)


def world(
    family: str,
    rng: np.random.Generator,
    *,
    most_labels: int = 100,
    most_sites: int = 50,
    records: int | None = None,
    least: float = EFFECTIVE,
    size: float = 1.0,
) -> World:
    """A new world of a family; all that is random in it comes from `rng`.

    records : about how many there are to begin with; default: 400 to 10,000. least : the effective
    number of records that is asked for; with 0 the target may have labels that no site has.
    size : of the population; a part of the full one is faster.
    """
    n_classes, n_sites = _logarithmic(rng, 3, most_labels), _logarithmic(rng, 2, most_sites)
    if family in SCORES:
        n = round(size * min(20_000, POPULATION // n_classes))
        population = Population.of_scores(SCORES[family](rng, n_classes, n))
    else:
        n = round(size * min(20_000, ENTRIES // n_classes**2))
        logits = _logits(rng, n_classes, n, POWERS[family])
        if rng.random() < 0.3:
            logits = logits.astype(np.float32)
        population = Population.of_logits(logits, _score(rng), bool(rng.random() < 0.5))
    mix, drawn = _labels(rng, n_classes, n_sites, records, least)
    sites = population.sites(drawn, rng)
    return World(family, population, sites, mix, int(rng.integers(2**31)))


def _logarithmic(rng, low, high):
    return round(np.exp(rng.uniform(np.log(low), np.log(high))))


def _labels(rng, n_classes, n_sites, asked, least):
    """The label mix of the target, and the labels of every site's records.

    Mixes are even or skewed; the target is a site or a stranger. Records are added until the
    effective number 1 / Σ_y π_y²/n_y suffices; where 40,000 do not, the mixes are drawn again.
    """
    while True:
        skew = np.inf if rng.random() < 0.2 else np.exp(rng.uniform(np.log(0.3), np.log(5)))
        even = np.full(n_classes, 1 / n_classes)
        if np.isinf(skew):
            mixes = np.tile(even, (n_sites + 1, 1))
        else:
            mixes = rng.dirichlet(np.full(n_classes, skew), n_sites + 1)
            floor = rng.uniform(0, 0.3)  # of every mix, evenly over the labels
            mixes = (1 - floor) * mixes + floor * even
        mix = mixes[rng.integers(n_sites + 1)]
        lean = rng.dirichlet(np.full(n_sites, 3.0))
        records = asked or _logarithmic(rng, 400, 10_000)
        while records <= 40_000:
            sizes = np.maximum(5, np.round(records * lean).astype(int))
            drawn = [rng.choice(n_classes, n, p=p) for n, p in zip(sizes, mixes, strict=False)]
            if effective(drawn, mix) >= least:
                return mix, drawn
            records = round(1.5 * records)


def effective(drawn: list[np.ndarray], mix: np.ndarray) -> float:
    """How many equally weighted records the labels at the sites are worth to a label mix."""
    held = np.bincount(np.concatenate(drawn), minlength=len(mix))
    known = mix > 0
    if (held[known] == 0).any():
        return 0.0
    return float(1 / (mix[known] ** 2 / held[known]).sum())
