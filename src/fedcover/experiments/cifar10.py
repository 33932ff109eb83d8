"""Figure 2 and the five methods of the appendix: ten agents on CIFAR-10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fedcover.experiments.compare import ALPHA, BUDGET, COMPETITORS, plain, rows_by_score
from fedcover.experiments.federations import cifar10, cifar10_records, file_text
from fedcover.experiments.records import Results
from fedcover.experiments.sections import (
    CIFAR10,
    answered,
    claim,
    coverage_by_score,
    method_table,
    number,
    ordered,
    published,
    within,
)
from fedcover.experiments.study import Agreement, Row
from fedcover.report.figures.charts import sideways, violins
from fedcover.report.page import Section, responsive
from fedcover.scores import APS

TEMPERATURE = 1.6
SCORES = {"random U": APS(), "U = 1": APS(u=1.0)}
FIVE = ("Local", "Global", "Oracle", "Estimated", "DP-FedCP")
"""The methods of the paper's comparison."""

SHIPPED = "ResNet-56 trained for fedcover, 94.23 % right"


@dataclass(frozen=True)
class Cifar10Study:
    """The paper's ten agents on CIFAR-10: every method, published and our settings.

    logits : the user's own file of logits; None for those shipped.
    """

    logits: str | None = None
    name: ClassVar[str] = "cifar10"
    title: ClassVar[str] = "CIFAR-10: who keeps the promise at the agent with 50 records?"
    repetitions: ClassVar[int] = 1000
    quick: ClassVar[int] = 40

    def settings(self) -> dict[str, Any]:
        records = cifar10_records(self.logits, TEMPERATURE)
        fed = cifar10(records, APS())
        return plain(
            {
                "data": file_text(self.logits) if self.logits else SHIPPED,
                "alpha": ALPHA,
                "temperature": TEMPERATURE,
                "sizes": list(fed.sizes),
                "priors": "55 % own label, 5 % each other label",
                "target": "agent 4",
                "records": len(records.labels),
                "n_test": len(records.labels) - fed.pool,
                "methods": list(COMPETITORS),
                "scores": list(SCORES),
                "budget": BUDGET,
            }
        )

    def repetition(self, seed: int, r: int) -> list[Row]:
        records = cifar10_records(self.logits, TEMPERATURE)
        return rows_by_score(SCORES, lambda score: cifar10(records, score), seed, r)

    def sections(self, results: Results) -> Sequence[Section]:
        run = results.settings
        below = (
            f"{results.repetitions} repetitions, α = {ALPHA}, n = {sum(run['sizes'])} "
            f"calibration records, 50 of them at agent 4, and {run['n_test']} test records; "
            f"{run['data']}, temperature {TEMPERATURE:g}."
        )
        five = {m: {u: results.values("coverage", u=u, method=m) for u in SCORES} for m in FIVE}
        out: list[Section] = [
            responsive(
                "cifar10-five",
                "Who covers 90 % at agent 4?",
                "Random U. " + within({m: five[m]["random U"] for m in FIVE}),
                f"Empirical coverage at agent 4: {below} U is the random part of the score "
                "ρ + U·f̂[y]. Dashed: target 1-α; white mark: median; bar: middle half of the "
                "repetitions.",
                "Violins of coverage of five methods, with random U and with U = 1",
                violins,
                five,
                1 - ALPHA,
                "method",
                "coverage (share of test records)",
            )
        ]
        names = "cifar10", "Coverage of all methods", "agent 4"
        out += coverage_by_score(*names, results, list(COMPETITORS), below)
        random = results.where(u="random U")
        sizes, refused = answered({m: random.values("size", method=m) for m in COMPETITORS})
        out.append(
            responsive(
                "cifar10-sizes",
                "How large are the sets?",
                "A method that covers too little has smaller sets, not better ones.",
                f"Mean number of labels in a set, random U: {below} White mark: median; bar: "
                f"middle half of the repetitions.{refused}",
                "Violins of the mean set size by method",
                sideways,
                sizes,
                "mean set size (labels)",
            )
        )
        groups = {u: {"u": u} for u in SCORES}
        out.append(
            method_table(results, list(COMPETITORS), groups, "All methods in numbers", below)
        )
        return out

    def agreement(self, results: Results) -> Sequence[Agreement]:
        get = {m: results.values("coverage", u="random U", method=m) for m in COMPETITORS}
        ours, low = get["DP-FedCP"], float(np.quantile(get["Local"], 0.01))
        whose = "our" if results.settings["data"] == SHIPPED else "your file's"
        missed = number("Fig. 2", "Global, random U", CIFAR10["Global"], get["Global"], 0.02)
        return [
            replace(missed, band=f"{missed.band}; {whose} network, not the paper's"),
            number("Fig. 2", "DP-FedCP (ours), random U", CIFAR10["DP-FedCP"], ours, 0.01),
            claim(
                "Fig. 2",
                "spread of DP-FedCP (ours)",
                f"sd ≈ {CIFAR10['DP-FedCP sd']:.3f}",
                f"sd {ours.std():.3f}",
                "within 0.005",
                agrees=abs(ours.std() - CIFAR10["DP-FedCP sd"]) <= 0.005,
            ),
            *(
                number("Fig. 5a", f"{m}, random U", CIFAR10["DP-FedCP"], get[m], 0.01)
                for m in ("Oracle", "Estimated")
            ),
            ordered("Fig. 2", get["Global"], ours),
            claim(
                "Fig. 2",
                "low end of Local",
                f"≈ {CIFAR10['Local low']:.2f}",
                f"{low:.3f}",
                "1 % quantile within 0.03",
                agrees=abs(low - CIFAR10["Local low"]) <= 0.03,
            ),
            *published("Fig. 2", {q: get[f"published, q₀ = {q}"] for q in ("0", "0.5", "1")}),
        ]
