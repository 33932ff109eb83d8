"""A run as the people at the server describe it, in Flower's run configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fedcover import checks
from fedcover.errors import FedcoverError
from fedcover.methods.base import Method, under_budget
from fedcover.methods.dp_fedcp.method import DPFedCP
from fedcover.methods.pooled import EstimatedWeights, Pooled
from fedcover.methods.sketch.method import Sketch
from fedcover.options import make
from fedcover.privacy.statement import Privacy


class Setting(NamedTuple):
    """A key of the run configuration: what it is unless set, and what it says."""

    usual: Any
    says: str


KEYS: dict[str, Setting] = {
    "run": Setting(
        "fedcover", "name of the run; the same name again repeats it, and costs nothing"
    ),
    "method": Setting("sketch", "sketch, dp-fedcp, pooled or estimated-weights"),
    "options": Setting("", "options of the method, such as bins=512 or rounds=20, with commas"),
    "alpha": Setting("0.1", "error rates α, with commas"),
    "certify": Setting(0.0, "probability with which coverage is to be 1-α or more; 0 for none"),
    "epsilon": Setting(0.0, "privacy budget ε of the run; 0 for none"),
    "delta": Setting(1e-5, "its δ"),
    "unit": Setting("record", "what is protected: record or site"),
    "relation": Setting("replace", "neighbours: replace or add-remove"),
    "view": Setting("secure-sum", "who looks: secure-sum, or server, which needs more noise"),
    "sites": Setting(2, "how many sites must be there to begin"),
    "threshold": Setting(0, "fewest sites that may be left in a secure sum; 0 for two thirds"),
    "roster": Setting("", "file with the public keys of all sites; needed for secure sums"),
    "seconds": Setting(120.0, "how long to wait for the replies of one stage"),
    "resends": Setting(2, "how often a letter is sent again to those that did not answer"),
    "seed": Setting(0, "seed of subsampling and of the choice of participants"),
    "out": Setting(
        "runs", "folder at the server; a run writes into a folder of its own name in it"
    ),
}
"""What a run configuration may hold."""

LONGEST_NAME = 100

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
    certify: float
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
        values = {key: _typed(key, config.get(key, usual)) for key, (usual, _) in KEYS.items()}
        good = all(c.isalnum() or c in "-_." for c in values["run"]) and values["run"].strip(".")
        if not good or len(values["run"]) > LONGEST_NAME:
            raise FedcoverError(
                f"run is {values['run']!r:.80}",
                allowed=f"up to {LONGEST_NAME} letters, digits, '-', '_' and '.'",
                fix="Name the run, for example november-2",
            )
        checks.choice(values["method"], "method", list(METHODS))
        checks.whole(values["sites"], "sites", 1)
        checks.whole(values["threshold"], "threshold", 0)
        checks.whole(values["resends"], "resends", 0)
        checks.whole(values["seed"], "seed", 0)
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
    def folder(self) -> Path:
        """Where the run writes, at the server."""
        return Path(self.out) / self.run

    def fewest(self, n_sites: int) -> int | None:
        """The fewest sites that may be left in a secure sum; None where there is none."""
        if not self.sums:
            return None
        return self.threshold or -(-2 * n_sites // 3)

    @property
    def sums(self) -> bool:
        """Whether there are secure sums in it."""
        return self.privacy is not None and self.view == "secure-sum"

    def make_method(self) -> Method:
        """The method with its options, 'key=value' with commas."""
        options = [part.strip() for part in self.options.split(",") if part.strip()]
        made: Method = make(METHODS, self.method, options, "method")
        return under_budget(made, self.privacy)

    @property
    def known_as(self) -> str:
        """The name of what runs, by which sites know it."""
        made = self.make_method()
        return next(name for name, kind in METHODS.items() if isinstance(made, kind))


def _typed(key: str, value: Any) -> Any:
    """A value of the kind its key has; a whole number will do where a broken one may stand."""
    kind = type(KEYS[key].usual)
    if kind is float and type(value) is int:
        return float(value)
    if key == "alpha" and type(value) in (int, float):
        return str(value)
    if type(value) is not kind:
        words = {str: "a text in quotes", int: "a whole number", float: "a number"}
        raise FedcoverError(
            f"{key} is {value!r:.80}",
            allowed=f"{words[kind]}: {KEYS[key].says}",
            fix="Correct it in pyproject.toml or in --run-config",
        )
    return value
