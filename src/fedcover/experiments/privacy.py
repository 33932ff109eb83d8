"""Figure 3b: noise on the gradients and what it costs, and the figure that the paper lacks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedcover import methods
from fedcover.experiments import federations, imagenet
from fedcover.experiments.agreeing import claim, signed
from fedcover.experiments.cifar10 import SHIPPED, TEMPERATURE
from fedcover.experiments.compare import ALPHA, Competitor, plain, rows_of
from fedcover.experiments.federations import Draw, Resampled, Simulated, cifar10
from fedcover.experiments.outputs import cifar10_records, file_text
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
from fedcover.privacy.randomness import SeededBytes
from fedcover.privacy.statement import Privacy
from fedcover.privacy.views import imagenet_mixture
from fedcover.scores import APS

if TYPE_CHECKING:
    from fedcover.report.page import Section

SIGMAS = (0.0, 10.0, 30.0, 60.0, 100.0)
SWEEPS = {
    "ImageNet": {
        "q₀ = 0": Published(0.0),
        "q₀ = 0, one run for all labels": Published(0.0, common=True),
    },
    "CIFAR-10": {"q₀ = 0.5": Published(0.5), "q₀ = 1": Published(1.0)},
    "simulated": {"q₀ = 0.5": Published(0.5), "q₀ = 1": Published(1.0)},
}
"""What the noise sweep is run with; on ImageNet, which the paper swept, from the q₀ of Fig. 3a."""

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
CERTIFY = 0.95
"""Probability with which a certified coverage is at least 1-α."""

FEDERATIONS = ("CIFAR-10", "simulated")
"""Where all methods are compared at the same ε."""


@dataclass(frozen=True)
class PrivacyStudy:
    """What privacy costs: the paper's sweep of σ_g with its true ε, then all methods against ε.

    logits : a file of logits of ten classes; None for the CIFAR-10 ones shipped here.
    large : a file of logits of a hundred classes or more; None for the synthetic stand-in.
    """

    logits: str | None = None
    large: str | None = None
    name: ClassVar[str] = "privacy"
    title: ClassVar[str] = "Privacy: what does noise cost, and what does it buy?"
    repetitions: ClassVar[int] = 200
    quick: ClassVar[int] = 5

    def settings(self) -> dict[str, Any]:
        return plain(
            {
                "alpha": ALPHA,
                "logits": file_text(self.logits) if self.logits else SHIPPED,
                "temperature": TEMPERATURE,
                "score": "APS, random U",
                "gradient_noise": list(SIGMAS),
                "sweeps": str({name: list(kinds) for name, kinds in SWEEPS.items()}),
                "shift": imagenet.SHIFT,
                "large": file_text(self.large) if self.large else imagenet.STANDIN,
                "synthetic": self.large is None,
                "large_sizes": list(self._federation("ImageNet").sizes),
                "large_labels": imagenet.records_of(self.large).n_classes,
                "mixtures": json.dumps({f: self._mixture(f) for f in SWEEPS}),
                "rounds": ROUNDS,
                "local_steps": LOCAL_STEPS,
                "epsilons": list(EPSILONS),
                "certify": CERTIFY,
                "delta": DELTA,
                "relation": "replace",
                "view": "secure-sum",
            }
        )

    def repetition(self, seed: int, r: int) -> list[Row]:
        rows, source = [], SeededBytes(seed, r)
        for f, (name, kinds) in enumerate(SWEEPS.items()):
            draw = self._federation(name).draw(np.random.default_rng([seed, r, f]))
            found = _sweep(draw, kinds, source)
            if name in FEDERATIONS:
                found += _budgets(draw, kinds, source)
            rows += [{"federation": name, **row} for row in found]
        return rows

    def _federation(self, name: str) -> Simulated | Resampled:
        if name == "simulated":
            return Simulated(APS())
        if name == "CIFAR-10":
            return cifar10(cifar10_records(self.logits, TEMPERATURE), APS())
        return federations.imagenet(imagenet.records_of(self.large), APS(), imagenet.SHIFT)

    def _mixture(self, name: str) -> tuple[float, ...]:
        """λ^i of a federation, on average."""
        fed = self._federation(name)
        found = expected_mixture(fed.priors, fed.sizes, fed.target)
        return tuple(round(share, 6) for share in found)

    def sections(self, results: Results) -> Sequence[Section]:
        from fedcover.experiments import privacy_figures

        return privacy_figures.sections(results)

    def agreement(self, results: Results) -> Sequence[Agreement]:
        rows = []
        for kind in SWEEPS["ImageNet"]:
            found = sweep_of(results, "ImageNet", kind)
            rows += _spreads(kind, {s: found[s] for s in SIGMAS if s})
        return [*(replace(a, what=imagenet.marked(results, a.what)) for a in rows), *_theorem()]


def _spreads(kind: str, found: dict[float, Any]) -> list[Agreement]:
    """What the paper shows of the noise sweep, beside coverages by σ_g > 0."""
    spread = {s: float(v.std()) for s, v in found.items()}
    middle = {s: float(np.median(v)) for s, v in found.items()}
    rows = [
        claim(
            "Fig. 3b",
            f"spread of the coverage at σ_g = {s}, {kind}",
            f"≈ {paper:g}",
            f"sd {spread[s]:.3f}",
            "within a factor of 2",
            agrees=paper / 2 <= spread[s] <= 2 * paper,
            difference=signed(spread[s] - paper),
        )
        for s, paper in NOISE_SPREAD.items()
    ]
    grows = claim(
        "Fig. 3b",
        f"the spread grows with σ_g, {kind}",
        "yes",
        " → ".join(f"{sd:.3f}" for sd in spread.values()),
        "from the smallest to the largest σ_g",
        agrees=spread[SIGMAS[-1]] > spread[SIGMAS[1]],
    )
    centred = claim(
        "Fig. 3b",
        f"the median stays near .90 or above, {kind}",
        "yes",
        "medians " + ", ".join(f"{m:.3f}" for m in middle.values()),
        "none below .88",
        agrees=all(m >= 1 - ALPHA - 0.02 for m in middle.values()),
    )
    return [*rows, grows, centred]


def _theorem() -> list[Agreement]:
    """What Theorem 4.4 claims for the sweep beside the truth."""
    found = [true_epsilons(s, imagenet_mixture(), 1000) for s in SIGMAS if s]
    claimed = [e["claimed, ImageNet"] for e in found]
    says = "claims " + ", ".join("nothing" if c is None else f"{c:.3g}" for c in claimed)
    out = []
    for what, key in (("one label", "secure sum"), ("1000 labels", "secure sum, all labels")):
        truth = [float(np.inf if (true := e[key]) is None else true) for e in found]
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


def sweep_of(results: Results, federation: str, kind: str) -> dict[float, Any]:
    """Coverages of the noise sweep by σ_g."""
    mine = results.where(part="sweep", federation=federation, method=kind)
    return {s: mine.values("coverage", sigma=s) for s in SIGMAS}


def _sweep(draw: Draw, kinds: Mapping[str, Published], source: SeededBytes) -> list[Row]:
    """Algorithm 1 at the published settings with each σ_g."""
    rows = []
    for sigma in SIGMAS:
        competitors = {kind: replace(one, noise=sigma) for kind, one in kinds.items()}
        for row in rows_of(draw, competitors, source):
            rows.append({"part": "sweep", "sigma": sigma, "epsilon": np.nan, **row})
    return rows


def _budgets(draw: Draw, kinds: Mapping[str, Published], source: SeededBytes) -> list[Row]:
    """Every method at every true ε, and none without privacy."""
    target = [s.name for s in draw.sites].index(draw.target)
    plain_rows = rows_of(draw, {"no privacy": Competitor(methods.EstimatedWeights())}, source)
    rows = [{"part": "budget", "sigma": np.nan, "epsilon": np.inf, **row} for row in plain_rows]
    for epsilon in EPSILONS:
        sigma = record_noise(draw.sites, target, epsilon)
        budget = Privacy(epsilon, DELTA, view="secure-sum")
        competitors: dict[str, Competitor | Published] = {
            **{
                f"published, {kind}": replace(one, noise=sigma, subsample=False)
                for kind, one in kinds.items()
            },
            "Sketch": Competitor(methods.Sketch(), budget),
            "Sketch, certified": Competitor(methods.Sketch(), budget, CERTIFY),
            "Exponential, trusted server": Competitor(methods.ExponentialMechanism(epsilon)),
        }
        for row in rows_of(draw, competitors, source):
            used = sigma if row["method"].startswith("published") else np.nan
            rows.append({"part": "budget", "sigma": used, "epsilon": epsilon, **row})
    return rows
