"""What the theorems speak of, measured: Algorithm 1 while it runs, weights, and subsamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fedcover import bounds, labelshift
from fedcover.api import calibrate
from fedcover.experiments import algorithm1
from fedcover.experiments.federations import Draw, Simulated
from fedcover.experiments.study import Row
from fedcover.labelshift.weights import likelihood_ratio, oracle_ratio
from fedcover.methods import EstimatedWeights, OracleWeights
from fedcover.methods.base import Method
from fedcover.quantile import SmoothQuantileLoss, moreau_minimiser, weighted_quantile
from fedcover.scores import APS

Float64 = NDArray[np.float64]

GAMMA, STEP, LOCAL_STEPS, ROUNDS, START = 0.01, 1e-3, 20, 200, 0.5
"""The published η, K and T with a γ that lets Theorem 4.1 apply: η = γ/10."""

GAMMAS = tuple(float(g) for g in np.logspace(-6, 0, 13))
CHECKPOINTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
LOCAL = (1, 2, 5, 10, 20, 50, 100)
STEPS = tuple(float(s) for s in np.logspace(-5, -1, 9))
NOISES = (0.0, 10.0)
LONG = (*CHECKPOINTS, 10_000, 20_000)


def row(part: str, curve: str, x: float, y: float) -> Row:
    """A point of a curve: one line of the results."""
    return {"part": part, "curve": curve, "x": float(x), "y": float(y)}


@dataclass(frozen=True)
class Problem:
    """The weighted quantile Q_{1-α}(μ̂_y) of a federation, y the query label of largest ratio.

    sites : sorted scores with their labels, and share N^i/N, of every site; ratios : ŵ, (C,).
    """

    sites: tuple[tuple[Float64, NDArray[np.int64], float], ...]
    ratios: Float64
    alpha: float

    @classmethod
    def of(cls, draw: Draw, alpha: float) -> Problem:
        """The problem of a draw's target."""
        names = [s.name for s in draw.sites]
        counts = np.stack([s.label_counts for s in draw.sites])
        total = sum(len(s) for s in draw.sites)
        held = []
        for s in draw.sites:
            order = np.argsort(s.scores, kind="stable")
            held.append((s.scores[order], s.labels[order], len(s) / total))
        return cls(tuple(held), likelihood_ratio(counts, names.index(draw.target)), alpha)

    @property
    def label(self) -> int:
        return int(np.argmax(self.ratios))

    @cached_property
    def samples(self) -> list[tuple[Float64, Float64]]:
        """Scores and weights of every site with its part of the mass at 1 (eq. 14)."""
        top = self.ratios[self.label]
        return [
            (np.append(v, 1.0), np.append(self.ratios[y], share * top))
            for v, y, share in self.sites
        ]

    @cached_property
    def pooled(self) -> tuple[Float64, Float64]:
        """All scores, and weights that sum to 1."""
        values, weights = (np.concatenate(part) for part in zip(*self.samples, strict=True))
        return values, weights / weights.sum()

    @cached_property
    def mixture(self) -> Float64:
        """λ^i of the sites."""
        totals = np.array([w.sum() for _, w in self.samples])
        return totals / totals.sum()

    @cached_property
    def compiled(self) -> algorithm1.Problem:
        """The same, as Algorithm 1 sees it."""
        return algorithm1.Problem.of(self.sites, self.ratios, np.array([self.label]))

    def exact(self) -> float:
        """Q_{1-α}."""
        return float(weighted_quantile(*self.pooled, 1 - self.alpha))

    def smooth(self, gamma: float) -> float:
        """Q^γ_{1-α} (eq. 13)."""
        return moreau_minimiser(*self.pooled, self.alpha, gamma)

    def excess(self, q: float | Float64, gamma: float) -> Float64:
        """S^γ(q) less its minimum."""
        loss = SmoothQuantileLoss(*self.pooled)
        best = loss.value(self.smooth(gamma), self.alpha, gamma)
        return loss.value(q, self.alpha, gamma) - best


def averages(
    problem: Problem,
    checkpoints: Sequence[int],
    rng: np.random.Generator,
    *,
    start: float = START,
    local: int = LOCAL_STEPS,
    step: float = STEP,
    gamma: float = GAMMA,
    noise: float = 0.0,
) -> Float64:
    """q̄_T of Algorithm 1 at some numbers of rounds T.

    Unlike the method's output it is not cut off at 0 and 1, which the theorems do not do either.
    """
    per_round = algorithm1.averages(
        problem.compiled,
        problem.alpha,
        start=start,
        rounds=max(checkpoints),
        local_steps=local,
        step=step,
        gamma=gamma,
        noise=noise,
        rng=rng,
    )
    return per_round[np.array(checkpoints) - 1, 0]


def smoothing_rows(draw: Draw, problem: Problem) -> list[Row]:
    """Theorem 3.1, and what smoothing does to the coverage beside Theorem 4.3, by γ."""
    exact, out = problem.exact(), []
    for gamma in GAMMAS:
        q = problem.smooth(gamma)
        out += [
            row("smoothing", "measured", gamma, abs(q - exact)),
            row("smoothing", "Theorem 3.1", gamma, bounds.theorem_3_1_moreau(gamma)),
            row("smoothed coverage", "measured", gamma, _moved(draw, q, exact)),
            row("smoothed coverage", "Theorem 4.3", gamma, _promised(draw, problem, 0.0, gamma)),
        ]
    return out


def coverage_rows(draw: Draw, problem: Problem, rng: np.random.Generator) -> list[Row]:
    """How far q̄_T's coverage is from the exact quantile's, by T, beside Theorem 4.3."""
    exact, out = problem.exact(), []
    zeta = bounds.heterogeneity(problem.samples, problem.alpha, GAMMA)
    away = abs(START - problem.smooth(GAMMA))
    for t, q in zip(CHECKPOINTS, averages(problem, CHECKPOINTS, rng), strict=True):
        excess = max(0.0, float(problem.excess(q, GAMMA)))
        promised = bounds.corollary_4_2_convergence(away, t, LOCAL_STEPS, GAMMA, 0.0, zeta).total
        for name, error in (("measured ε", excess), ("Corollary 4.2", promised)):
            y = _promised(draw, problem, error, GAMMA)
            out.append(row("coverage", f"Theorem 4.3, {name}", t, y))
        out.append(row("coverage", "measured", t, _moved(draw, q, exact)))
    return out


def _moved(draw: Draw, q: float, exact: float) -> float:
    """By how much the coverage changes from the exact threshold to q."""
    one = np.ones(draw.priors.shape[1])
    return abs(draw.coverage(q * one) - draw.coverage(exact * one))


def _promised(draw: Draw, problem: Problem, error: float, gamma: float) -> float:
    sizes = np.array([len(s) for s in draw.sites])
    mixture = sizes @ draw.priors / sizes.sum()
    federation = (int(sizes.sum()), draw.priors[1], problem.ratios, mixture, *densities())
    return bounds.theorem_4_3_coverage(*federation, error, gamma).total


def convergence_rows(problem: Problem, rng: np.random.Generator) -> list[Row]:
    """Excess loss of q̄_T against T, K and η, beside Theorem 4.1 and Corollary 4.2."""
    away = abs(START - problem.smooth(GAMMA))
    zeta = bounds.heterogeneity(problem.samples, problem.alpha, GAMMA)
    energy = float((problem.mixture**2).sum())
    out = []

    def compare(part: str, noise: float, x: float, q: float, t: int, k: int, eta: float) -> None:
        name = f"σ_g = {noise:g}"
        out.append(row(part, f"measured, {name}", x, float(problem.excess(q, GAMMA))))
        if eta > GAMMA / 10 * (1 + 1e-9):
            return
        settings = (away, t, k, eta, GAMMA, noise, zeta)
        printed = bounds.theorem_4_1_convergence(*settings).total
        out.append(row(part, f"Theorem 4.1, {name}", x, printed))
        if noise:
            repaired = bounds.theorem_4_1_convergence(*settings, squared_weights=energy).total
            out.append(row(part, f"Theorem 4.1 repaired, {name}", x, repaired))

    for noise in NOISES:
        for t, q in zip(CHECKPOINTS, averages(problem, CHECKPOINTS, rng, noise=noise), strict=True):
            compare("rounds", noise, t, q, t, LOCAL_STEPS, STEP)
        for k in LOCAL:
            (q,) = averages(problem, (ROUNDS,), rng, local=k, noise=noise)
            compare("local steps", noise, k, q, ROUNDS, k, STEP)
        for eta in STEPS:
            (q,) = averages(problem, (ROUNDS,), rng, step=eta, noise=noise)
            compare("step", noise, eta, q, ROUNDS, LOCAL_STEPS, eta)
        run = (away, ROUNDS, LOCAL_STEPS, GAMMA, noise, zeta)
        best = bounds.corollary_4_2_step(*run)
        (q,) = averages(problem, (ROUNDS,), rng, step=best, noise=noise)
        name = f"σ_g = {noise:g}"
        excess = float(problem.excess(q, GAMMA))
        promised = bounds.corollary_4_2_convergence(*run).total
        out.append(row("best step", f"measured, {name}", best, excess))
        out.append(row("best step", f"Corollary 4.2, {name}", best, promised))
    return out


def published_rows(problem: Problem, rng: np.random.Generator) -> list[Row]:
    """How far q̄_T is from the exact quantile at the published γ = 10⁻⁶, by T and q₀."""
    exact, out = problem.exact(), []
    for start in (0.0, 0.5, 1.0):
        iterates = averages(problem, CHECKPOINTS, rng, start=start, gamma=1e-6)
        for t, q in zip(CHECKPOINTS, iterates, strict=True):
            out.append(row("published", f"q₀ = {start:g}", t, abs(q - exact)))
    return out


def lost_noise_rows(rng: np.random.Generator) -> list[Row]:
    """One site where the printed Theorem 4.1 fails: α = .3, γ = 1, η = .005, σ_g = 20, q₀ = q*."""
    values = np.sort(rng.random(100))
    labels = np.zeros(100, dtype=np.int64)
    problem = Problem(((values, labels, 1.0),), np.ones(1), 0.3)
    best = problem.smooth(1.0)
    settings = {"start": best, "local": 1, "step": 0.005, "gamma": 1.0, "noise": 20.0}
    iterates = averages(problem, LONG, rng, **settings)  # type: ignore[arg-type]
    out = []
    for t, q in zip(LONG, iterates, strict=True):
        run = (0.0, t, 1, 0.005, 1.0, 20.0, 0.0)
        repaired = bounds.theorem_4_1_convergence(*run, squared_weights=1.0).total
        out += [
            row("lost noise", "measured", t, float(problem.excess(q, 1.0))),
            row("lost noise", "Theorem 4.1", t, bounds.theorem_4_1_convergence(*run).total),
            row("lost noise", "Theorem 4.1 repaired", t, repaired),
        ]
    return out


@lru_cache(maxsize=1)
def densities() -> tuple[float, float]:
    """Bounds (m, M) on the densities of the scores at both agents, off 40 bins of 10⁶ records."""
    fed, rng, heights = Simulated(APS()), np.random.default_rng(0), []
    for prior in fed.priors:
        x, y = fed.points(rng, 1_000_000, prior)
        scores = fed.score.of_labels(fed.predict(x), y, rng)
        heights.append(np.histogram(scores, bins=40, range=(0, 1), density=True)[0])
    return min(1.0, float(np.min(heights))), max(1.0, float(np.max(heights)))


TOTALS = (21, 42, 105, 210, 420, 1050)
"""N: twenty records at agent 1 for one at agent 2, as in the simulated experiment."""

LARGE = (105, 420, 1050, 4200, 21_000)
"""N of the subsampling part."""


@dataclass(frozen=True)
class Scaled(Simulated):
    """The simulated federation with other numbers of records."""

    sizes: tuple[int, int] = (1000, 50)

    @classmethod
    def of(cls, total: int) -> Scaled:
        """N records in the paper's proportions."""
        small = total // 21
        return cls(APS(), sizes=(total - small, small))


def weight_rows(rng: np.random.Generator, seed: int) -> list[Row]:
    """By N: distance of approximate from exact weights, and the coverage that each gives."""
    out = []
    for total in TOTALS:
        draw = Scaled.of(total).draw(rng)
        out += distances(draw, total)
        for name, method in _methods(draw).items():
            out.append(row("weights: coverage", name, total, _coverage(draw, method, seed)))
    return out


def _methods(draw: Draw) -> dict[str, Method]:
    return {
        "exact": OracleWeights(draw.priors, weights="exact"),
        "known ratios": OracleWeights(draw.priors),
        "estimated ratios": EstimatedWeights(),
    }


def distances(draw: Draw, total: int) -> list[Row]:
    """Total variation ½ Σ_k |p_k - p'_k| to the exact weights, for a query of the likeliest label.

    Also the largest exact weight of a record, averaged over the query's label (Theorem 2.1).
    """
    sizes = np.array([len(s) for s in draw.sites])
    counts = np.stack([s.label_counts for s in draw.sites])
    target = draw.priors[1]
    largest = 0.0
    for y, share in enumerate(target):
        seen = counts.sum(axis=0) + (np.arange(len(target)) == y)
        exact = labelshift.exact_weights(draw.priors, sizes, 1, seen)
        largest += share * float(exact[seen > 0].max())
        if y != int(np.argmax(target)):
            continue
        others = {
            "known ratios": oracle_ratio(draw.priors, sizes, 1),
            "estimated ratios": labelshift.likelihood_ratio(counts, 1, sizes),
            "saddlepoint": labelshift.exact_weights(draw.priors, sizes, 1, seen, "saddlepoint"),
        }
        rows = [
            row("weights: distance", name, total, _apart(exact, w, seen))
            for name, w in others.items()
        ]
    return [*rows, row("weights: distance", "largest weight", total, largest)]


def _apart(exact: Float64, weights: Float64, seen: NDArray[np.int64]) -> float:
    return float(seen @ np.abs(exact - weights / (weights @ seen))) / 2


def subsample_rows(rng: np.random.Generator, seed: int) -> list[Row]:
    """By N: coverage with known ratios on all records and on the N̄ = ⌊N/2⌋ of Theorem 2.2."""
    out = []
    for total in LARGE:
        draw = Scaled.of(total).draw(rng)
        sizes = [len(s) for s in draw.sites]
        for name, half in (("all records", False), ("subsample", True)):
            method = OracleWeights(draw.priors, subsample=half)
            out.append(row("subsample", name, total, _coverage(draw, method, seed)))
        largest = float(oracle_ratio(draw.priors, sizes, 1).max())
        promised = bounds.theorem_2_2_subsampled(sizes, largest).total
        out.append(row("subsample", "Theorem 2.2", total, promised))
    return out


def _coverage(draw: Draw, method: Method, seed: int) -> float:
    calibrations = calibrate(draw.sites, 0.1, method, targets=draw.target, seed=seed)
    return draw.coverage(calibrations[draw.target].thresholds[0])
