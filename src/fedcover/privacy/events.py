"""What was released, as frozen facts. Methods emit events; only `accounting` turns them into ε.

An event speaks for one unit of privacy (a record, or a whole site) under one neighbouring relation,
as one party sees it. The same run has other events in another view.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcover import checks
from fedcover.errors import FedcoverError


@dataclass(frozen=True)
class GaussianRelease:
    """`count` vectors, each with Gaussian noise of standard deviation `sigma` per entry.

    Discrete Gaussian noise on integers is accounted for as continuous. The two differ by O(1/σ²) in
    integer units (σ = .85: ε 8.15 for 8; σ = 5.3: 1.000 for 1), so methods scale their integers
    until σ is 50 or more; `distributed.NoiseShares.true_epsilon` computes the exact value.

    Attributes
    ----------
    what
        What the vectors say, in plain words.
    sigma
        Standard deviation of the noise that the viewer cannot remove.
    sensitivity
        How far one unit can move a vector, in Euclidean norm.
    count
        How many vectors, each with fresh noise; they may depend on earlier ones.
    sampled
        (S, n) if each vector comes from S of n sites drawn anew and in secret; then the unit is a
        site and the relation is replacement.
    """

    what: str
    sigma: float
    sensitivity: float
    count: int = 1
    sampled: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        checks.real(self.sigma, "sigma", 0, float("inf"))
        checks.real(self.sensitivity, "sensitivity", 0, float("inf"))
        checks.whole(self.count, "count", 1)
        if self.sampled is not None:
            sample, population = self.sampled
            checks.whole(sample, "sampled", 1)
            if checks.whole(population, "sampled", 1) < sample:
                raise FedcoverError(
                    f"sampled is {self.sampled}",
                    allowed="(S, n) with S ≤ n",
                    fix="A sample is not larger than its population",
                )

    @property
    def noise_multiplier(self) -> float:
        """σ / Δ: the noise in units of what one record or site can change."""
        return self.sigma / self.sensitivity if self.sensitivity > 0 else float("inf")


@dataclass(frozen=True)
class ExactRelease:
    """Something that depends on the data and left without noise: ε is infinite."""

    what: str


Event = GaussianRelease | ExactRelease
