"""Figure 2 and the five methods of the appendix: ten agents on CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedcover.experiments.agreeing import claim, number
from fedcover.experiments.compare import plain, rows_of
from fedcover.experiments.federations import cifar10, cifar10_records
from fedcover.experiments.readings import CIFAR10
from fedcover.experiments.records import Results
from fedcover.experiments.simulated import ALPHA, BUDGET, COMPETITORS
from fedcover.experiments.study import Agreement, Row
from fedcover.scores import APS

if TYPE_CHECKING:
    from fedcover.report.page import Section, Table

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
    quick: ClassVar[int] = 12

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
        rows = []
        for s, (name, score) in enumerate(SCORES.items()):
            fed = cifar10(cifar10_records(self.logits, TEMPERATURE), score)
            draw = fed.draw(np.random.default_rng([seed, r, s]))
            rows += [{"u": name, **row} for row in rows_of(draw, COMPETITORS, ALPHA, r)]
        return rows

    def sections(self, results: Results) -> Sequence[Section]:
        from fedcover.experiments.drawing import histograms, sideways, violins
        from fedcover.report.both import plot

        facts = results.facts["settings"]
        below = (
            f"{results.repetitions} repetitions, α = {ALPHA}, n = {sum(facts['sizes'])} "
            f"calibration records, 50 of them at agent 4, and {facts['n_test']} test records; "
            f"{facts['data']}, temperature {TEMPERATURE:g}."
        )
        five = {m: {u: results.values("coverage", u=u, method=m) for u in SCORES} for m in FIVE}
        out: list[Section] = [
            plot(
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
        for u in SCORES:
            values = {m: results.values("coverage", u=u, method=m) for m in COMPETITORS}
            out.append(
                plot(
                    f"cifar10-coverage-{'one' if u == 'U = 1' else 'random'}",
                    f"Coverage of all methods, {u}",
                    within(values),
                    f"Empirical coverage at agent 4, {u}: {below} Dashed: target 1-α; orange: "
                    "mean. Published: T = 200, K = 20, η = 10⁻³, γ = 10⁻⁶, mean of all iterates, "
                    "start q₀ as named.",
                    f"Histograms of coverage by method, {u}",
                    histograms,
                    values,
                    1 - ALPHA,
                    "coverage (share of test records)",
                    limits=(0.6, 1.0),
                )
            )
        sizes = {m: results.values("size", u="random U", method=m) for m in COMPETITORS}
        out.append(
            plot(
                "cifar10-sizes",
                "How large are the sets?",
                "A method that covers too little has smaller sets, not better ones.",
                f"Mean number of labels in a set, random U: {below} White mark: median; bar: "
                "middle half of the repetitions.",
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
        whose = "our" if results.facts["settings"]["data"] == SHIPPED else "your file's"
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
            ordered("Fig. 2", get["Global"], ours),
            claim(
                "Fig. 2",
                "low end of Local",
                f"≈ {CIFAR10['Local low']:.2f}",
                f"{low:.3f}",
                "1 % quantile within 0.03",
                agrees=abs(low - CIFAR10["Local low"]) <= 0.03,
            ),
            claim(
                "Fig. 2",
                "DP-FedCP at the published settings",
                "≈ .90",
                "; ".join(
                    f"q₀ = {q}: {get[f'published, q₀ = {q}'].mean():.3f}" for q in ("0", "0.5", "1")
                ),
                "depends on q₀, which the paper does not state",
                agrees=abs(get["published, q₀ = 0.5"].mean() - 0.9) < 0.02,
            ),
        ]


def file_text(path: str) -> str:
    """A user's file in words, with what tells its contents apart."""
    return f"file {Path(path).name}, SHA-256 {sha256(Path(path).read_bytes()).hexdigest()[:12]}"


def within(values: Mapping[str, Any]) -> str:
    """Which methods are near the target on average, in a sentence."""
    off = {m: v.mean() - (1 - ALPHA) for m, v in values.items()}
    groups = {
        "within .01 of the target on average": [m for m in off if abs(off[m]) <= 0.01],
        "below": [m for m in off if off[m] < -0.01],
        "above": [m for m in off if off[m] > 0.01],
    }
    return " ".join(
        f"{text.capitalize()}: {'; '.join(found) or 'none'}."
        for text, found in groups.items()
        if found or text.startswith("within")
    )


def ordered(figure: str, low: Any, high: Any) -> Agreement:
    """That Global covers less than DP-FedCP, on average and repetition by repetition."""
    return claim(
        figure,
        "Global covers less than DP-FedCP",
        "yes",
        f"by {(high - low).mean():.3f}, in {100 * (low < high).mean():.0f} % of repetitions",
        "by at least 0.01",
        agrees=bool((high - low).mean() >= 0.01),
    )


def method_table(
    results: Results,
    methods: Sequence[str],
    groups: Mapping[str, Mapping[str, Any]],
    title: str,
    below: str,
) -> Table:
    """Coverage and set size of all methods; `groups` names rows of the results to tell apart."""
    from fedcover.report.page import Table

    rows = []
    for m in methods:
        cells = [m]
        for which in groups.values():
            v, size = (results.values(c, method=m, **which) for c in ("coverage", "size"))
            cells += [f"{v.mean():.3f} ± {v.std():.3f}", f"{size.mean():.2f} ± {size.std():.2f}"]
        rows.append(cells)
    columns = ["method"] + [f"{what}, {g}" for g in groups for what in ("coverage", "set size")]
    return Table(
        title,
        columns,
        rows,
        f"Mean ± standard deviation over the repetitions; set size: labels per set. {below}",
    )
