"""DP-FedCP (Algorithms 1 and 2): the weighted quantile without the scores leaving the sites.

Round one collects label counts, from which the server computes the ratios ŵ of every target. The
quantile then follows in one of two ways:

- by search (search.py, the default): the server asks for Σ_k ŵ 1{V_k ≤ q} at a few points q,
  narrows the bracket of every (target, α, label), and is done in a handful of rounds;
- by averaging (averaging.py): the published algorithm, K local gradient steps per round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.labelshift.ratios import calibration_mixture, subsample_sizes
from fedcover.privacy import noise
from fedcover.protocols import averaging, search
from fedcover.protocols.base import (
    AtServer,
    Fit,
    Message,
    ServerHalf,
    Task,
    ask_all,
    counts_reply,
    read_counts,
    target_ratios,
)
from fedcover.site import Site

PAPER_STEP, PAPER_LOCAL_STEPS = 1e-3, 20


@dataclass(frozen=True)
class DPFedCP(AtServer):
    """DP-FedCP: federated weighted quantiles for all targets, levels and labels in one run.

    Give neither `step` nor `local_steps` for the search, which converges to within `gamma` of the
    exact weighted quantile (never below it) in a handful of rounds. Give either for Algorithm 1;
    the other then takes its published value.

    Parameters
    ----------
    rounds
        T, at most how many rounds follow the counts.
    local_steps
        K, gradient steps of a site per round; published: 20.
    step
        η, the step size; published: 1e-3.
    gamma
        γ. In Algorithm 1 the parameter of the Moreau envelope; in the search the width of the final
        bracket. Either way the quantile is off by at most γ at convergence (Theorem 3.1).
    participation
        Each site takes part in a round with this probability.
    sites_per_round
        Or S, a fixed number of sites per round.
    start
        q₀ of Algorithm 1, in [0, 1].
    average
        What Algorithm 1 returns: the mean of all iterates ("all", published), of the second half
        ("tail"), or the last iterate ("last").
    subsample
        Use N̄^i ∧ N^i records of each site (Theorem 2.4). Off by default: it serves the proof and
        costs half of the data.
    mixture
        "calibration" for ŵ by eq. (7) with π_i = N^i/N; "counts" for eq. (10) as printed, which
        equals it when label counts are in proportion to the calibration sizes.
    gradient_noise
        σ_g, standard deviation of the Gaussian noise a site adds to every gradient of Algorithm 1.
        Noise alone is no privacy statement: no ε is claimed for it.
    count_noise
        σ̄ of the discrete Gaussian noise a site adds to its label counts, which are then cut off
        below at 1 (Algorithm 2).
    """

    rounds: int = 200
    local_steps: int | None = None
    step: float | None = None
    gamma: float = 1e-6
    participation: float = 1.0
    sites_per_round: int | None = None
    start: float = 0.5
    average: str = "tail"
    subsample: bool = False
    mixture: str = "calibration"
    gradient_noise: float = 0.0
    count_noise: float = 0.0

    label: ClassVar[str] = "DP-FedCP"
    shares_scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked = {
            "rounds": checks.whole(self.rounds, "rounds", 1),
            "gamma": checks.real(self.gamma, "gamma", 0, 1, open_low=True),
            "participation": checks.real(self.participation, "participation", 0, 1, open_low=True),
            "start": checks.real(self.start, "start", 0, 1),
            "average": checks.choice(self.average, "average", ["tail", "all", "last"]),
            "mixture": checks.choice(self.mixture, "mixture", ["calibration", "counts"]),
            "gradient_noise": checks.real(self.gradient_noise, "gradient_noise", 0, 1e100),
            "count_noise": checks.real(self.count_noise, "count_noise", 0, 1e12),
        }
        if self.local_steps is not None:
            checked["local_steps"] = checks.whole(self.local_steps, "local_steps", 1)
        if self.step is not None:
            checked["step"] = checks.real(self.step, "step", 0, np.inf, open_low=True)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.sites_per_round is not None:
            checks.whole(self.sites_per_round, "sites_per_round", 1)
            if self.participation < 1:
                raise FedcoverError(
                    "participation and sites_per_round are both set",
                    allowed="one of them",
                    fix="Leave participation at 1.0 for a fixed number of sites",
                )
        needs_steps = self.participation < 1 or self.sites_per_round or self.gradient_noise
        if not isinstance(self.subsample, (bool, np.bool_)):
            raise FedcoverError(
                f"subsample is {self.subsample!r}", allowed="True or False", fix="Change subsample"
            )
        if self.searches:
            search.schedule(self.gamma, self.rounds)  # refuses a gamma out of reach
        if self.searches and needs_steps:
            raise FedcoverError(
                "partial participation or gradient noise without step or local_steps",
                allowed="the search asks every site, and without noise",
                fix="Give step=1e-3 for Algorithm 1, or drop the option",
            )

    @classmethod
    def paper(cls, start: float = 0.5, **options: object) -> Self:
        """The published settings: T=200, K=20, η=1e-3, γ=1e-6, plain average, N̄=⌊N/2⌋, eq. (10).

        `start` is q₀, which the paper does not state and which decides the result: these settings
        do not converge. One draw of the N̄ records serves all query labels, where the paper draws
        anew for each; the law of every single label is the same. Other options override these.
        """
        published: dict[str, object] = {
            "rounds": 200,
            "local_steps": PAPER_LOCAL_STEPS,
            "step": PAPER_STEP,
            "gamma": 1e-6,
            "average": "all",
            "subsample": True,
            "mixture": "counts",
        }
        return cls(start=start, **{**published, **options})  # type: ignore[arg-type]

    @property
    def searches(self) -> bool:
        """Whether the quantile is found by search rather than by Algorithm 1."""
        return self.step is None and self.local_steps is None

    @property
    def most_rounds(self) -> int:
        if self.searches:
            return 1 + len(search.schedule(self.gamma, self.rounds))
        return 2 + self.rounds

    @property
    def guarantee(self) -> str:
        promise = (
            "1-α up to the error of the estimated label distributions (Theorem 2.4), if records of "
            "one label look alike at all sites (label shift)"
        )
        if self.searches:
            return promise
        return promise + "; and only if Algorithm 1 has converged, which nothing here checks"

    @property
    def reveals(self) -> str:
        what = "weighted score counts below" if self.searches else "gradient steps at"
        noisy = [
            f"{name} with noise {value:g}"
            for name, value in (("counts", self.count_noise), ("gradients", self.gradient_noise))
            if value > 0
        ]
        noise_text = f" ({', '.join(noisy)}; no ε claimed)" if noisy else ", without privacy noise"
        return f"label counts and {what} query points{noise_text}; no raw score"

    def server(self, task: Task) -> ServerHalf:
        if self.sites_per_round is not None and self.sites_per_round > len(task.sites):
            raise FedcoverError(
                f"sites_per_round is {self.sites_per_round} for {len(task.sites)} sites",
                allowed=f"a whole number from 1 to {len(task.sites)}",
                fix="Ask for fewer sites per round",
            )
        rng = checks.generator(task.seed, "dp-fedcp")
        query = Message("counts", numbers={"count_noise": self.count_noise})
        counts, sizes = read_counts(task, (yield ask_all(task, query)))
        by_size = sizes if self.mixture == "calibration" else None
        ratios = target_ratios(task, counts, by_size)
        used = subsample_sizes(sizes, rng) if self.subsample else sizes
        seed = int(rng.integers(2**31))
        if self.searches:
            found, totals = yield from search.thresholds(
                task, ratios, used, seed, self.gamma, self.rounds
            )
        else:
            found, totals = yield from averaging.thresholds(
                task,
                ratios,
                sizes,
                used,
                seed,
                rng,
                rounds=self.rounds,
                local_steps=self.local_steps or PAPER_LOCAL_STEPS,
                step=self.step or PAPER_STEP,
                gamma=self.gamma,
                participation=self.participation,
                sites_per_round=self.sites_per_round,
                start=self.start,
                average=self.average,
                noise=self.gradient_noise,
            )
        cal = calibration_mixture(counts, sizes if by_size is not None else counts.sum(axis=1))
        n = int(used.sum())
        return {
            target.name: Fit(found[t], ratios[t], cal, n, float(totals[t]))
            for t, target in enumerate(task.targets)
        }

    def answer(self, query: Message, site: Site) -> Message:
        match query.kind:
            case "counts":
                return _counts(query, site)
            case "mass":
                return search.answer(query, site)
            case "totals":
                return averaging.answer_totals(query, site)
            case "steps":
                return averaging.answer_steps(query, site)
        raise FedcoverError(
            f"query {query.kind!r} is unknown",
            allowed="counts, mass, totals, steps",
            fix="Server and site run different versions of fedcover",
        )


def _counts(query: Message, site: Site) -> Message:
    sigma = float(query.numbers["count_noise"])
    reply = counts_reply(site)
    if sigma == 0:
        return reply
    noisy = site.label_counts + noise.discrete_gaussian(sigma, site.n_classes)
    return Message("counts", {"label_counts": np.maximum(1, noisy)}, reply.numbers)
