"""DP-FedCP (Algorithms 1 and 2): the weighted quantile without the scores leaving the sites.

Round one collects label counts, from which the server computes the ratios ŵ of every target. The
quantile then follows in one of two ways:

- by search (search.py, the default): the server asks for Σ_k ŵ 1{V_k ≤ q} at a few points q,
  narrows the bracket of every (target, α, label), and is done in a handful of rounds;
- by averaging (algorithm1.py): the published algorithm, K local gradient steps per round.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, fields
from typing import ClassVar, Self

import numpy as np

from fedcover import checks
from fedcover.checks import refuse_gone
from fedcover.errors import FedcoverError
from fedcover.labelshift.weights import subsample_sizes
from fedcover.methods.base import Float64, Message, ServerHalf, ServerMethod, Task, ask_all
from fedcover.methods.dp_fedcp import algorithm1, search
from fedcover.methods.queries import read_real
from fedcover.methods.replies import (
    counts_reply,
    estimated_guarantee,
    read_counts,
    target_ratios,
    weighted_fit,
)
from fedcover.methods.sketch.method import Sketch
from fedcover.position import scores_at
from fedcover.privacy import noise
from fedcover.privacy.randomness import SYSTEM, Randomness
from fedcover.site import Site

MOST_COUNT_NOISE = 1e12
"""Largest deviation of the noise of label counts."""


@dataclass(frozen=True)
class DPFedCP(ServerMethod):
    """DP-FedCP: federated weighted quantiles for all targets, levels and labels in one run.

    By default the quantile is found by search, to within `gamma` above the exact one, in a handful
    of rounds. Setting any option that only Algorithm 1 has (marked *) chooses Algorithm 1.
    "DP" is the paper's name: without an account of all that is released, no ε is claimed.

    Parameters
    ----------
    rounds
        T, at most how many rounds follow the counts.
    local_steps
        * K, gradient steps of a site per round.
    step
        * η, the step size.
    gamma
        γ. In Algorithm 1 the parameter of the Moreau envelope; in the search the width of the final
        bracket, relative to its distance to the nearer end, 0 or 1, and less where scores crowd.
        Either way the quantile is off by at most γ at convergence (Theorem 3.1).
    participation
        * Each site takes part in a round with this probability.
    sites_per_round
        * Or S, a fixed number of sites per round.
    start
        * q₀, in [0, 1]; without it Algorithm 1 starts from one round of the search.
    average
        * What is returned: the mean of all iterates ("all", published), of the second half
        ("tail"), or the last iterate ("last").
    subsample
        Use N̄^i ∧ N^i records of each site (Theorem 2.4). Off by default: it serves the proof and
        costs half of the data.
    mixture
        "calibration" for ŵ by eq. (7) with π_i = N^i/N; "counts" for eq. (10) as printed, which
        equals it when label counts are in proportion to the calibration sizes.
    gradient_noise
        * σ_g, standard deviation of the Gaussian noise a site adds to every gradient. Noise alone
        is no privacy statement: no ε is claimed for it.
    count_noise
        σ̄ of the discrete Gaussian noise a site adds to its label counts, which are then cut off
        below at 1 (Algorithm 2).
    solver
        "search", "averaging" (Algorithm 1), or "auto" as described above.
    """

    rounds: int = 200
    local_steps: int = 20
    step: float = 1e-3
    gamma: float = 1e-6
    participation: float = 1.0
    sites_per_round: int | None = None
    start: float | None = None
    average: str = "tail"
    subsample: bool = False
    mixture: str = "calibration"
    gradient_noise: float = 0.0
    count_noise: float = 0.0
    solver: str = "auto"
    mode: InitVar[object] = None
    public_counts: InitVar[object] = None

    label: ClassVar[str] = "DP-FedCP"
    shares_scores: ClassVar[bool] = False
    only_averaging: ClassVar[tuple[str, ...]] = (
        "local_steps",
        "step",
        "participation",
        "sites_per_round",
        "start",
        "average",
        "gradient_noise",
    )

    def __post_init__(self, mode: object, public_counts: object) -> None:
        refuse_gone(mode=mode, public_counts=public_counts)
        checked = {
            "rounds": checks.whole(self.rounds, "rounds", 1),
            "local_steps": checks.whole(self.local_steps, "local_steps", 1),
            "step": checks.real(self.step, "step", 0, np.inf, open_low=True),
            "gamma": checks.real(self.gamma, "gamma", 0, 1, open_low=True),
            "participation": checks.real(self.participation, "participation", 0, 1, open_low=True),
            "average": checks.choice(self.average, "average", ["tail", "all", "last"]),
            "subsample": checks.flag(self.subsample, "subsample"),
            "mixture": checks.choice(self.mixture, "mixture", ["calibration", "counts"]),
            "gradient_noise": checks.real(self.gradient_noise, "gradient_noise", 0, 1e100),
            "count_noise": checks.real(self.count_noise, "count_noise", 0, MOST_COUNT_NOISE),
            "solver": checks.choice(self.solver, "solver", ["auto", "search", "averaging"]),
        }
        if self.start is not None:
            checked["start"] = checks.real(self.start, "start", 0, 1)
        if self.sites_per_round is not None:
            checked["sites_per_round"] = checks.whole(self.sites_per_round, "sites_per_round", 1)
            if self.participation < 1:
                raise FedcoverError(
                    "participation and sites_per_round are both set",
                    allowed="one of them",
                    fix="Leave participation at 1.0 for a fixed number of sites",
                )
        usual = {f.name: f.default for f in fields(self)}
        special = [n for n in self.only_averaging if getattr(self, n) != usual[n]]
        if self.solver == "auto":
            checked["solver"] = "averaging" if special else "search"
        elif self.solver == "search" and special:
            raise FedcoverError(
                f"solver='search' with {', '.join(special)}",
                allowed="options of Algorithm 1 with solver='averaging' only",
                fix="Drop them, or leave solver out",
            )
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.solver == "search":
            search.bits_per_round(self.gamma, self.rounds)  # refuses a gamma out of reach

    @classmethod
    def paper(cls, start: float = 0.5, **options: object) -> Self:
        """The published settings: T=200, K=20, η=1e-3, γ=1e-6, plain average, N̄=⌊N/2⌋, eq. (10).

        `start` is q₀, which the paper does not state and which decides the result: these settings
        do not converge. One draw of the N̄ records serves all query labels, where the paper draws
        anew for each; the law of every single label is the same. A label whose level exceeds the
        weight of all records gets its exact threshold 1. Other options override these.
        """
        published: dict[str, object] = {
            "rounds": 200,
            "local_steps": 20,
            "step": 1e-3,
            "gamma": 1e-6,
            "average": "all",
            "subsample": True,
            "mixture": "counts",
            "solver": "averaging",
        }
        return cls(start=start, **{**published, **options})  # type: ignore[arg-type]

    @property
    def most_rounds(self) -> int:
        if self.solver == "search":
            return 1 + search.most_rounds(self.gamma, self.rounds)
        return 2 + self.rounds + (self.start is None)

    @property
    def guarantee(self) -> str:
        promise = estimated_guarantee(self.subsample)
        if self.solver == "search":
            return promise
        return promise + "; and only if Algorithm 1 has converged, which nothing here checks"

    @property
    def reveals(self) -> str:
        searches = self.solver == "search"
        what = "weighted score counts below" if searches else "gradient steps at"
        noisy = [
            f"{name} with noise {value:g}"
            for name, value in (("counts", self.count_noise), ("gradients", self.gradient_noise))
            if value > 0
        ]
        noise_text = ", without privacy noise"
        if noisy:
            noise_text = (
                f" ({', '.join(noisy)}; the true ε is still infinite, because numbers of records "
                "and weight totals leave exactly)"
            )
        near = f"; each threshold lies within {self.gamma:g} of one record's score"
        return (
            f"every site sent the server its label counts and {what} query points{noise_text}; "
            f"no raw score{near if searches else ''}; every site received the label weights of all "
            "targets, which show their label mixes"
        )

    def with_budget(self) -> Sketch:
        """What runs under a privacy budget: the sketch, which is DP-FedCP's weighted curve for all
        targets at once. Asking for each target's own histogram cost more noise at equal ε.
        """
        if self != DPFedCP():
            raise FedcoverError(
                "privacy together with options of DPFedCP",
                allowed="privacy with DPFedCP() or Sketch()",
                fix="The noise follows from privacy, and it runs as the sketch; drop the options",
            )
        return Sketch()

    def server(self, task: Task) -> ServerHalf:
        if self.sites_per_round is not None and self.sites_per_round > len(task.sites):
            raise FedcoverError(
                f"sites_per_round is {self.sites_per_round} for {len(task.sites)} sites",
                allowed=f"a whole number from 1 to {len(task.sites)}",
                fix="Ask for fewer sites per round",
            )
        rng = checks.generator(task.seed, "dp-fedcp")
        query = Message("counts", numbers={"count_noise": self.count_noise})
        counts = read_counts(task, (yield ask_all(task, query)))
        # Eq. (7) and eq. (10): the same where label counts are in proportion to the sizes.
        by_size = counts.sizes if self.mixture == "calibration" else None
        ratios = target_ratios(task, counts, by_size)
        used = subsample_sizes(counts.sizes, rng) if self.subsample else counts.sizes
        # A number for all sites and rounds: each must use the same subsample in every round, or G
        # would be a different function each time.
        seed = int(rng.integers(2**31))
        if self.solver == "search":
            thresholds, totals = yield from search.quantiles(
                task, ratios, used, seed, self.gamma, self.rounds
            )
        else:
            start: float | Float64 | None = self.start
            if start is None:
                # Steps of η are small against the way from an arbitrary q₀, and a mean of the
                # iterates would keep that way in it: one round of the search starts near the end.
                near, _ = yield from search.quantiles(task, ratios, used, seed, 1.0, 1)
                start = scores_at(near)
            thresholds, totals = yield from algorithm1.thresholds(
                task,
                ratios,
                counts.sizes,
                used,
                seed,
                rng,
                rounds=self.rounds,
                local_steps=self.local_steps,
                step=self.step,
                gamma=self.gamma,
                participation=self.participation,
                sites_per_round=self.sites_per_round,
                start=start,
                average=self.average,
                noise=self.gradient_noise,
            )
        return {
            target.name: weighted_fit(
                task, target, thresholds[t], ratios[t], float(totals[t]), counts, used
            )
            for t, target in enumerate(task.targets)
        }

    @classmethod
    def answer(cls, query: Message, site: Site, source: Randomness = SYSTEM) -> Message:
        match query.kind:
            case "counts":
                return _counts(query, site, source)
            case "mass":
                return search.answer(query, site)
            case "totals":
                return algorithm1.answer_totals(query, site)
            case "steps":
                return algorithm1.answer_steps(query, site, source)
        raise FedcoverError(
            f"query {query.kind!r} is unknown",
            allowed="counts, mass, totals, steps",
            fix="Server and site run different versions of fedcover",
        )


def _counts(query: Message, site: Site, source: Randomness) -> Message:
    sigma = read_real(query, "count_noise", 0, MOST_COUNT_NOISE)
    reply = counts_reply(site)
    if sigma == 0:
        return reply
    # Cut off at 1 after the noise, which touches the data no more; so ratios stay finite (Algorithm
    # 2).
    noisy = site.label_counts + noise.discrete_gaussian(sigma, site.n_classes, source)
    return Message("counts", {"label_counts": np.maximum(1, noisy)}, {"size": len(site)})
