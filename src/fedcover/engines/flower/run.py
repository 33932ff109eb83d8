"""A run as the people at the server describe it, in Flower's run configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.privacy.statement import Privacy
from fedcover.protocols.base import Method
from fedcover.protocols.dp_fedcp import DPFedCP
from fedcover.protocols.pooled import EstimatedWeights, Pooled
from fedcover.protocols.sketch import Sketch

KEYS: dict[str, Any] = {
    "run": "fedcover",
    "method": "sketch",
    "options": "",
    "alpha": "0.1",
    "epsilon": 0.0,
    "delta": 1e-5,
    "unit": "record",
    "relation": "replace",
    "view": "secure-sum",
    "sites": 2,
    "threshold": 0,
    "roster": "",
    "seconds": 120.0,
    "resends": 2,
    "seed": 0,
    "out": "fedcover-run",
}
"""What a run configuration may hold, with what it is otherwise."""

METHODS: dict[str, type[Any]] = {
    "sketch": Sketch,
    "dp-fedcp": DPFedCP,
    "pooled": Pooled,
    "estimated-weights": EstimatedWeights,
}


@dataclass(frozen=True)
class Run:
    """A run: what to do, with whom, and how long to wait. Fields as in the run configuration."""

    run: str
    method: str
    options: str
    alpha: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    view: str
    sites: int
    threshold: int
    roster: str
    seconds: float
    resends: int
    seed: int
    out: str

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """The run of a configuration; keys that are not known are refused."""
        if unknown := sorted(set(config) - set(KEYS)):
            raise FedcoverError(
                f"the run configuration has {unknown[0]!r}",
                allowed=", ".join(KEYS),
                fix="Correct it in pyproject.toml or in --run-config",
            )
        values = {key: type(usual)(config.get(key, usual)) for key, usual in KEYS.items()}
        checks.choice(values["method"], "method", list(METHODS))
        checks.whole(values["sites"], "sites", 1)
        checks.whole(values["resends"], "resends", 0)
        checks.real(values["seconds"], "seconds", 0, 1e6, open_low=True)
        return cls(**values)

    @property
    def alphas(self) -> tuple[float, ...]:
        """The levels."""
        try:
            levels = [float(part) for part in self.alpha.split(",")]
        except ValueError:
            raise FedcoverError(
                f"alpha is {self.alpha!r}",
                allowed="numbers in (0, 1) with commas",
                fix="alpha='0.1' or alpha='0.05,0.1'",
            ) from None
        return checks.alphas(levels)

    @property
    def privacy(self) -> Privacy | None:
        """The budget; none for epsilon 0."""
        if self.epsilon == 0:
            return None
        return Privacy(self.epsilon, self.delta, self.unit, self.relation, self.view)

    @property
    def sums(self) -> bool:
        """Whether there are secure sums in it."""
        return self.privacy is not None and self.view == "secure-sum"

    def make_method(self) -> Method:
        """The method with its options, 'key=value' with commas."""
        from fedcover.cli.common import make

        options = [part.strip() for part in self.options.split(",") if part.strip()]
        made: Method = make(METHODS, self.method, options, "method")
        return made
