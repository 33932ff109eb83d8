"""Theory against practice: the paper's theorems beside what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as students_t

from fedcover.experiments import theory_run as run
from fedcover.experiments import theory_weights
from fedcover.experiments.agreeing import claim
from fedcover.experiments.compare import ALPHA, method_seed, plain
from fedcover.experiments.federations import Simulated
from fedcover.experiments.records import Results
from fedcover.experiments.study import Agreement, Row
from fedcover.scores import APS

if TYPE_CHECKING:
    from fedcover.report.page import Section

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class TheoryStudy:
    """Every theorem that can be measured, on the simulated data with random U."""

    name: ClassVar[str] = "theory"
    title: ClassVar[str] = "Theory against practice: which bounds hold, and by how much?"
    repetitions: ClassVar[int] = 200
    quick: ClassVar[int] = 10

    def settings(self) -> dict[str, Any]:
        return plain(
            {
                "alpha": ALPHA,
                "score": "APS, random U",
                "sizes": list(Simulated.sizes),
                "priors": str(Simulated.priors.tolist()),
                "gamma": run.GAMMA,
                "step": run.STEP,
                "local_steps": run.LOCAL_STEPS,
                "rounds": run.ROUNDS,
                "start": run.START,
                "gradient_noise": list(run.NOISES),
                "gammas": list(run.GAMMAS),
                "checkpoints": list(run.LONG),
                "local_steps_tried": list(run.LOCAL),
                "steps_tried": list(run.STEPS),
                "records_exact_weights": list(theory_weights.TOTALS),
                "records_subsample": list(theory_weights.LARGE),
            }
        )

    def repetition(self, seed: int, r: int) -> list[Row]:
        rng = np.random.default_rng([seed, r])
        draw = Simulated(APS()).draw(rng)
        problem = run.Problem.of(draw, ALPHA)
        return [
            *run.smoothing_rows(draw, problem),
            *run.convergence_rows(problem, rng),
            *run.coverage_rows(draw, problem, rng),
            *run.published_rows(problem, rng),
            *run.lost_noise_rows(rng),
            *theory_weights.weight_rows(rng, method_seed(seed, r)),
            *theory_weights.subsample_rows(rng, method_seed(seed, r)),
        ]

    def sections(self, results: Results) -> Sequence[Section]:
        from fedcover.experiments import theory_figures

        return theory_figures.sections(results)

    def agreement(self, results: Results) -> Sequence[Agreement]:
        quiet, noisy = (f"σ_g = {s:g}" for s in run.NOISES)
        parts = ("rounds", "local steps", "step")
        share = worst_draw(results, "smoothing", "measured", "Theorem 3.1")
        out = [_bound("Theorem 3.1", "|Q^γ - Q| ≤ γ, every γ", share, "in no draw above it")]
        for noise, compare, band in (
            (quiet, worst_draw, "in no draw above it"),
            (noisy, worst, "on average not above it"),
        ):
            measured = f"measured, {noise}"
            share = max(compare(results, p, measured, f"Theorem 4.1, {noise}") for p in parts)
            out.append(_bound("Theorem 4.1", f"excess loss by T, K and η, {noise}", share, band))
        for noise in (quiet, noisy):
            share = worst(results, "best step", f"measured, {noise}", f"Corollary 4.2, {noise}")
            out.append(_bound("Corollary 4.2", f"excess loss at η*, {noise}", share))
        for name in ("Theorem 4.1", "Theorem 4.1 repaired"):
            share = worst(results, "lost noise", "measured", name)
            out.append(_bound(name, "excess loss of one site, γ = 1, σ_g = 20", share))
        for what, part, name in (
            ("coverage lost to smoothing, by γ", "smoothed coverage", "Theorem 4.3"),
            ("coverage lost after T rounds", "coverage", "Theorem 4.3, measured ε"),
        ):
            share = worst_draw(results, part, "measured", name)
            out.append(_bound("Theorem 4.3", what, share, "in no draw above it"))
        return [*out, _convergence(results), _exact(results), _subsample(results)]


def worst(results: Results, part: str, measured: str, bound: str) -> float:
    """The largest mean of what is measured over the mean of its bound, where there is one."""
    at, found = means(results, part, measured)
    limits = dict(zip(*means(results, part, bound), strict=True))
    pairs = zip(at.tolist(), found.tolist(), strict=True)
    return max(y / limits[x] for x, y in pairs if limits.get(x, 0.0) > 0)


def worst_draw(results: Results, part: str, measured: str, bound: str) -> float:
    """The largest share of its bound in any single draw, for bounds that hold without noise."""
    found, limits = (
        dict(zip(zip(m["repetition"], m["x"], strict=True), m["y"], strict=True))
        for m in (results.where(part=part, curve=c).columns for c in (measured, bound))
    )
    return max(float(y / limits[k]) for k, y in found.items() if limits.get(k, 0.0) > 0)


def means(results: Results, part: str, curve: str) -> tuple[Float64, Float64]:
    """x of a curve and the mean of y over the repetitions; x is 0 where it is no grid.

    A bound that is infinite for a draw says nothing, and the draw is left out.
    """
    mine = results.where(part=part, curve=curve)
    finite = np.isfinite(mine.columns["y"])
    x, y = mine.columns["x"][finite], mine.columns["y"][finite]
    if part == "best step":
        return np.zeros(1), np.array([y.mean()])
    at = np.unique(x)
    return at, np.array([y[x == one].mean() for one in at])


def _each(results: Results, part: str, curve: str) -> Float64:
    return np.asarray(results.values("y", part=part, curve=curve), dtype=np.float64)


def _bound(where: str, what: str, share: float, band: str = "on average not above it") -> Agreement:
    holds = share <= 1
    text = f"holds: at most {share:.2g} of it" if holds else f"fails: {share:.2g} times the bound"
    return claim(where, what, "a bound", text, band, agrees=holds)


def _convergence(results: Results) -> Agreement:
    ends = {q: _each(results.where(x=200.0), "published", f"q₀ = {q}").mean() for q in ("0", "1")}
    text = "; ".join(f"q₀ = {q}: {v:.3f} off" for q, v in ends.items())
    return claim(
        "Section 5",
        "q̄_T at T = 200, K = 20, η = 10⁻³, γ = 10⁻⁶",
        "has converged",
        text,
        "within .01 of the exact quantile",
        agrees=max(ends.values()) <= 0.01,
    )


def _exact(results: Results) -> Agreement:
    inside, off = True, []
    for total in theory_weights.TOTALS:
        mine = results.where(x=float(total))
        v = _each(mine, "weights: coverage", "exact")
        top = _each(mine, "weights: distance", "largest weight").mean()
        slack = students_t.ppf(0.999, len(v) - 1) * v.std(ddof=1) / np.sqrt(len(v))
        inside &= bool(1 - ALPHA - slack <= v.mean() <= 1 - ALPHA + top + slack)
        off.append(f"{v.mean():.3f}")
    totals = f"N = {theory_weights.TOTALS[0]} to {theory_weights.TOTALS[-1]}"
    return claim(
        "Theorem 2.1",
        f"coverage with exact weights, {totals}",
        "in [1-α, 1-α + E max p]",
        ", ".join(off),
        "confidence interval of 99.8 %",
        agrees=inside,
    )


def _subsample(results: Results) -> Agreement:
    mine, shares = results.where(part="subsample"), []
    for total in theory_weights.LARGE:
        at = mine.where(x=float(total))
        half, limit = (at.values("y", curve=c).mean() for c in ("subsample", "Theorem 2.2"))
        shares.append(abs(half - (1 - ALPHA)) / limit)
    return _bound("Theorem 2.2", "error of the coverage on a subsample, by N", max(shares))
