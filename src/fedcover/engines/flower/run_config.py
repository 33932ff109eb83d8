"""A run as the people at the server describe it, in Flower's run configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcover import checks
from fedcover.engines.base import usual_survivors
from fedcover.engines.flower.settings import read_settings, setting
from fedcover.errors import FedcoverError
from fedcover.methods import registry
from fedcover.methods.base import Method, under_budget
from fedcover.options import make
from fedcover.privacy.statement import Privacy

LONGEST_NAME = 100

LEAST = (("sites", 1), ("conspirators", 0), ("threshold", 0), ("resends", 0), ("seed", 0))
"""Settings in whole numbers, and the least that each may be."""


@dataclass(frozen=True)
class Run:
    """A run: what to do, with whom, and how long to wait. The fields are its settings."""

    run: str = setting(
        "name of the run; the same name again repeats it, and costs nothing", "fedcover"
    )
    method: str = setting("method by its name: " + ", ".join(registry.names()), "sketch")
    options: str = setting("options of the method, such as bins=512 or rounds=20, with commas", "")
    alpha: str = setting("error rates α, with commas", "0.1")
    certify: float = setting(
        "probability with which coverage is to be 1-α or more; 0 for none", 0.0
    )
    epsilon: float = setting("privacy budget ε of the run; 0 for none", 0.0)
    delta: float = setting("its δ", 1e-5)
    unit: str = setting("what is protected: record or site", "record")
    relation: str = setting("neighbours: replace or add-remove", "replace")
    view: str = setting("who looks: secure-sum, or server, which needs more noise", "secure-sum")
    sites: int = setting("how many sites must be there to begin", 2)
    conspirators: int = setting("how many other sites may conspire with who sees a secure sum", 1)
    threshold: int = setting(
        "fewest sites that may be left in a secure sum; 0 for two thirds, or as many more as "
        "conspirators ask for",
        0,
    )
    roster: str = setting("file with the public keys of all sites; needed for secure sums", "")
    key: str = setting("file with the coordinator's private key: it signs what it publishes", "")
    seconds: float = setting("how long to wait for the replies of one stage", 120.0)
    resends: int = setting("how often an envelope is sent again to those that did not answer", 2)
    seed: int = setting("seed of subsampling and of the choice of participants", 0)
    out: str = setting(
        "folder at the server; a run writes into a folder of its own name in it", "runs"
    )

    def __post_init__(self) -> None:
        good = all(c.isalnum() or c in "-_." for c in self.run) and self.run.strip(".")
        if not good or len(self.run) > LONGEST_NAME:
            raise FedcoverError(
                f"run is {self.run!r:.80}",
                allowed=f"up to {LONGEST_NAME} letters, digits, '-', '_' and '.'",
                fix="Name the run, for example november-2",
            )
        registry.for_real_sites(self.method)
        for key, least in LEAST:
            checks.whole(getattr(self, key), key, least)
        checks.real(self.seconds, "seconds", 0, 1e6, open_low=True)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """The run of a configuration; keys that are not known are refused."""
        if type(config.get("alpha")) in (int, float):  # one level may stand without quotes
            config = {**config, "alpha": str(config["alpha"])}
        fix = "Correct it in pyproject.toml or in --run-config"
        return read_settings(cls, config, what="the run configuration", fix=fix)

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
        kind = (self.unit, self.relation, self.view, self.conspirators)
        return Privacy(self.epsilon, self.delta, *kind)

    @property
    def folder(self) -> Path:
        """Where the run writes, at the server."""
        return Path(self.out) / self.run

    def min_survivors(self, n_sites: int) -> int | None:
        """The fewest sites that may be left in a secure sum; None where there is none."""
        usual = usual_survivors(n_sites, self.conspirators)
        return (self.threshold or usual) if self.sums else None

    @property
    def sums(self) -> bool:
        """Whether there are secure sums in it."""
        return self.privacy is not None and self.privacy.secure_sum

    def make_method(self) -> Method:
        """The method with its options, 'key=value' with commas."""
        options = [part.strip() for part in self.options.split(",") if part.strip()]
        made: Method = make(registry.classes(), self.method, options, "method")
        return under_budget(made, self.privacy)
