"""Figure 3b: noise on the gradients and what it costs, and the figure that the paper lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedcover import methods
from fedcover.experiments.agreeing import claim
from fedcover.experiments.cifar10 import SHIPPED, file_text
from fedcover.experiments.compare import Competitor, plain, rows_of
from fedcover.experiments.federations import Draw, Simulated, cifar10, cifar10_records
from fedcover.experiments.published import (
    DELTA,
    LOCAL_STEPS,
    ROUNDS,
    Published,
    expected_mixture,
    record_noise,
    true_epsilons,
)
from fedcover.experiments.readings import NOISE_SPREAD
from fedcover.experiments.records import Results
from fedcover.experiments.study import Agreement, Row
from fedcover.privacy.statement import Privacy
from fedcover.privacy.views import imagenet_mixture
from fedcover.scores import APS

if TYPE_CHECKING:
    from fedcover.report.page import Section

ALPHA = 0.1
SIGMAS = (10.0, 30.0, 60.0, 100.0)
STARTS = (0.5, 1.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
TEMPERATURE = 1.6
FEDERATIONS = ("CIFAR-10", "simulated")


@dataclass(frozen=True)
class PrivacyStudy:
    """What privacy costs: the paper's sweep of σ_g with its true ε, then all methods against ε.

    logits : a file of logits of ten classes; None for the CIFAR-10 ones shipped here.
    """

    logits: str | None = None
    name: ClassVar[str] = "privacy"
    title: ClassVar[str] = "Privacy: what does noise cost, and what does it buy?"
    repetitions: ClassVar[int] = 200
    quick: ClassVar[int] = 2

    def settings(self) -> dict[str, Any]:
        return plain(
            {
                "alpha": ALPHA,
                "logits": file_text(self.logits) if self.logits else SHIPPED,
                "temperature": TEMPERATURE,
                "score": "APS, random U",
                "gradient_noise": list(SIGMAS),
                "starts": list(STARTS),
                "starts_by_turns": "even repetitions take the first, odd ones the second",
                "rounds": ROUNDS,
                "local_steps": LOCAL_STEPS,
                "epsilons": list(EPSILONS),
                "delta": DELTA,
                "relation": "replace",
                "view": "secure-sum",
            }
        )

    def repetition(self, seed: int, r: int) -> list[Row]:
        start = STARTS[r % len(STARTS)]
        rows = []
        for f, name in enumerate(FEDERATIONS):
            draw = self._draw(name, np.random.default_rng([seed, r, f]))
            rows += [{"federation": name, **row} for row in _sweep(draw, start, r)]
            rows += [{"federation": name, **row} for row in _budgets(draw, start, r)]
        return rows

    def _draw(self, name: str, rng: np.random.Generator) -> Draw:
        if name == "simulated":
            return Simulated(APS()).draw(rng)
        return cifar10(cifar10_records(self.logits, TEMPERATURE), APS()).draw(rng)

    def sections(self, results: Results) -> Sequence[Section]:
        from fedcover.experiments import privacy_figures

        return privacy_figures.sections(results)

    def agreement(self, results: Results) -> Sequence[Agreement]:
        found = {q: sweep_of(results, "CIFAR-10", q) for q in STARTS}
        spread = {q: {s: float(v.std()) for s, v in by.items()} for q, by in found.items()}
        out = [
            claim(
                "Fig. 3b",
                f"spread of the coverage at σ_g = {s}, CIFAR-10",
                f"≈ {NOISE_SPREAD[s]:g}",
                _by_start({q: f"{spread[q][float(s)]:.3f}" for q in STARTS}),
                "both within .01",
                agrees=all(abs(spread[q][float(s)] - NOISE_SPREAD[s]) <= 0.01 for q in STARTS),
            )
            for s in NOISE_SPREAD
        ]
        grows = all(list(by.values()) == sorted(by.values()) for by in spread.values())
        out.append(
            claim(
                "Fig. 3b",
                "the spread grows with σ_g",
                "yes",
                _by_start(
                    {q: f"{by[SIGMAS[0]]:.3f} → {by[SIGMAS[-1]]:.3f}" for q, by in spread.items()}
                ),
                "at every step",
                agrees=grows,
            )
        )
        largest = {q: found[q][SIGMAS[-1]] for q in STARTS}
        out.append(
            claim(
                "Fig. 3b",
                "skewed to over-coverage at σ_g = 100",
                "yes",
                _by_start({q: f"median {np.median(v):.3f}" for q, v in largest.items()}),
                "median above 1-α for both q₀",
                agrees=all(np.median(v) > 1 - ALPHA for v in largest.values()),
            )
        )
        return [*out, *_theorem()]


def _theorem() -> list[Agreement]:
    """What Theorem 4.4 claims for the sweep beside the truth."""
    found = [true_epsilons(s, imagenet_mixture(), 1000) for s in SIGMAS]
    claimed = [e["claimed, ImageNet"] for e in found]
    says = "claims " + ", ".join("nothing" if c is None else f"{c:.3g}" for c in claimed)
    out = []
    for what, key in (("one label", "secure sum"), ("1000 labels", "secure sum, all labels")):
        truth = [e[key] or 0.0 for e in found]
        out.append(
            claim(
                "Theorem 4.4",
                f"ε at σ_g = 10 … 100, ImageNet's λ, {what}",
                says,
                ", ".join(f"{e:.3g}" for e in truth),
                "not below the true ε (sums, a whole site)",
                agrees=all(c is None or c >= e for c, e in zip(claimed, truth, strict=True)),
            )
        )
    return out


def sweep_of(results: Results, federation: str, start: float) -> dict[float, Any]:
    """Coverages of the noise sweep by σ_g."""
    mine = results.where(part="sweep", federation=federation, method=_start_name(start))
    return {s: mine.values("coverage", sigma=s) for s in SIGMAS}


def epsilon_mixture(federation: str) -> tuple[float, ...]:
    """λ^i of a federation of this study, on average."""
    if federation == "simulated":
        return expected_mixture(Simulated.priors, Simulated.sizes, 1)
    fed = cifar10(cifar10_records(None, TEMPERATURE), APS())
    return expected_mixture(fed.priors, fed.sizes, fed.target)


def _sweep(draw: Draw, start: float, r: int) -> list[Row]:
    """Algorithm 1 at the published settings with each σ_g."""
    rows = []
    for sigma in SIGMAS:
        for row in rows_of(draw, {_start_name(start): Published(start, sigma)}, ALPHA, r):
            rows.append({"part": "sweep", "sigma": sigma, "epsilon": np.nan, **row})
    return rows


def _budgets(draw: Draw, start: float, r: int) -> list[Row]:
    """Every method at every true ε, and none without privacy."""
    target = [s.name for s in draw.sites].index(draw.target)
    plain_rows = rows_of(draw, {"no privacy": Competitor(methods.EstimatedWeights())}, ALPHA, r)
    rows = [{"part": "budget", "sigma": np.nan, "epsilon": np.inf, **row} for row in plain_rows]
    for epsilon in EPSILONS:
        sigma = record_noise(draw.sites, target, epsilon)
        budget = Privacy(epsilon, DELTA, view="secure-sum")
        competitors: dict[str, Competitor | Published] = {
            f"published, {_start_name(start)}": Published(start, sigma, subsample=False),
            "DP-FedCP": Competitor(methods.DPFedCP(), budget),
            "Sketch": Competitor(methods.Sketch(), budget),
            "Sketch, guaranteed": Competitor(methods.Sketch(mode="guaranteed"), budget),
            "Exponential, trusted server": Competitor(methods.ExponentialMechanism(epsilon)),
        }
        for row in rows_of(draw, competitors, ALPHA, r):
            used = sigma if row["method"].startswith("published") else np.nan
            rows.append({"part": "budget", "sigma": used, "epsilon": epsilon, **row})
    return rows


def _start_name(start: float) -> str:
    return f"q₀ = {start:g}"


def _by_start(texts: dict[float, str]) -> str:
    return "; ".join(f"{_start_name(q)}: {text}" for q, text in texts.items())
