"""Figure 1: three Gaussians, two agents, one of them small and of another label mix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedcover.experiments.compare import ALPHA, BUDGET, COMPETITORS, plain, rows_by_score
from fedcover.experiments.federations import Simulated
from fedcover.experiments.records import Results
from fedcover.experiments.sections import (
    SIMULATED,
    claim,
    coverage_by_score,
    method_table,
    number,
    published,
)
from fedcover.experiments.study import Agreement, Row
from fedcover.report.figures.charts import Line, lines, points
from fedcover.report.page import Section, responsive
from fedcover.scores import APS

SCORES = {"U = 1": APS(u=1.0), "random U": APS()}


@dataclass(frozen=True)
class SimulatedStudy:
    """The paper's simulated data: every method, with the published and with our settings."""

    name: ClassVar[str] = "simulated"
    title: ClassVar[str] = "Simulated data: who keeps the promise at the small agent?"
    repetitions: ClassVar[int] = 1000
    quick: ClassVar[int] = 200

    def settings(self) -> dict[str, Any]:
        return plain(
            {
                "alpha": ALPHA,
                "sizes": list(Simulated.sizes),
                "priors": str(Simulated.priors.tolist()),
                "classifier": "Bayes, uniform prior",
                "n_test": Simulated(APS()).n_test,
                "methods": list(COMPETITORS),
                "scores": list(SCORES),
                "budget": BUDGET,
            }
        )

    def repetition(self, seed: int, r: int) -> list[Row]:
        return rows_by_score(SCORES, Simulated, seed, r)

    def sections(self, results: Results) -> Sequence[Section]:
        below = (
            f"{results.repetitions} repetitions, α = {ALPHA}, n = 1050 calibration records, 50 of "
            f"them at agent 2, and {results.settings['n_test']} test records; Bayes "
            "classifier with a uniform prior."
        )
        out: list[Section] = []
        rng = np.random.default_rng(0)
        fed = Simulated(APS(u=1.0))
        data = {
            f"agent {i + 1}: {size} records": fed.points(rng, size, fed.priors[i])
            for i, size in enumerate(fed.sizes)
        }
        out.append(
            responsive(
                "simulated-data",
                "What do the data look like?",
                "Agent 2 sees mostly class 3 and has only 50 records of its own.",
                f"Calibration records by class, as drawn for one of the {below} No unit: simulated "
                "coordinates.",
                "Two scatter plots of simulated records",
                points,
                data,
                ["class 1", "class 2", "class 3"],
                "x₁ (no unit)",
                "x₂ (no unit)",
            )
        )
        out.append(
            responsive(
                "simulated-scores",
                "How hard is each class?",
                "Scores of the classes differ, so a quantile of the wrong mix misses.",
                "Distribution functions of the scores by class, U = 1, n = 20,000 records each; "
                "the score is shown on a logarithmic scale of its distance from 1. The classes are "
                f"the same in all {results.repetitions} repetitions; α = {ALPHA}.",
                "Distribution functions of scores by class",
                lines,
                _score_curves(fed),
                "1 - score (share of probability)",
                "share of records with a smaller score",
                log="x",
                marks=False,
            )
        )
        names = "simulated", "Coverage at agent 2", "agent 2"
        out += coverage_by_score(*names, results, list(COMPETITORS), below)
        groups = {u: {"u": u} for u in SCORES}
        out.append(
            method_table(results, list(COMPETITORS), groups, "All methods in numbers", below)
        )
        return out

    def agreement(self, results: Results) -> Sequence[Agreement]:
        u = "U = 1"
        get = {m: results.values("coverage", u=u, method=m) for m in COMPETITORS}
        return [
            number("Fig. 1", "Global, U = 1", SIMULATED["Global"], get["Global"], 0.02),
            number("Fig. 1", "Oracle, U = 1", SIMULATED["Oracle"], get["Oracle"], 0.01),
            number(
                "Fig. 1", "DP-FedCP (ours), U = 1", SIMULATED["DP-FedCP"], get["DP-FedCP"], 0.01
            ),
            claim(
                "Fig. 1",
                "Local spreads more widely than DP-FedCP (ours)",
                "yes",
                f"sd {get['Local'].std():.3f} against {get['DP-FedCP'].std():.3f}",
                "by at least a half",
                agrees=bool(get["Local"].std() >= 1.5 * get["DP-FedCP"].std()),
            ),
            *published("Fig. 1", {q: get[f"published, q₀ = {q}"] for q in ("0", "0.5", "1")}),
        ]


def _score_curves(fed: Simulated) -> dict[str, Any]:
    rng, out = np.random.default_rng(1), {}
    for k in range(3):
        prior = np.eye(3)[k]
        x, y = fed.points(rng, 20_000, prior)
        away = 1 - np.sort(fed.score.of_labels(fed.predict(x), y, rng))
        at = np.linspace(0, len(away) - 1, 300).astype(np.int64)
        out[f"class {k + 1}"] = Line(np.maximum(away[at], 1e-6), at / len(away))
    return out
