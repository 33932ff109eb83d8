"""What the server publishes, as a message to the sites; each makes its own calibration of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from fedcover import checks
from fedcover.calibration import Calibration, Cost, privacy_facts, privacy_from
from fedcover.conclusion import calibration_of
from fedcover.errors import FedcoverError
from fedcover.privacy.statement import PrivacyStatement
from fedcover.protocols.base import Fit
from fedcover.protocols.message import Message
from fedcover.site import Site
from fedcover.sketch.file import from_bytes, to_bytes
from fedcover.sketch.result import SketchResult

ARRAYS = ("thresholds", "ratios", "records", "unseen")
NUMBERS = ("total", "available", "blurred")


def sketch_message(sketch: SketchResult) -> Message:
    """A sketch, as the bytes of its file."""
    return Message("sketch-file", {"file": np.frombuffer(to_bytes(sketch), np.uint8)})


def fit_message(fit: Fit) -> Message:
    """The fit of one target."""
    arrays = {name: np.asarray(getattr(fit, name), dtype=np.float64) for name in ARRAYS}
    numbers = {name: getattr(fit, name) for name in NUMBERS}
    if fit.counted is not None:
        numbers["counted"] = fit.counted
    return Message("fit", arrays, numbers)


def fit_facts(
    method: str, label: str, statement: PrivacyStatement | None, cost: Cost, n_sites: int
) -> dict[str, Any]:
    """What a site needs to know besides its fit."""
    return {
        "method": method,
        "label": label,
        "privacy": privacy_facts(statement),
        "cost": asdict(cost),
        "n_sites": n_sites,
    }


def calibration_from(message: Message, facts: Mapping[str, Any], site: Site) -> Calibration:
    """The calibration of this site, from what was published and what it alone knows."""
    alphas = checks.alphas(facts.get("alphas", ()))
    if message.kind == "sketch-file":
        sketch = from_bytes(message.arrays["file"].tobytes())
        if sketch.n_classes != site.n_classes or sketch.score != site.score:
            raise FedcoverError(
                "a sketch of other classes or another score",
                allowed="a sketch that this site took part in",
                fix="Check the run's settings",
            )
        return sketch.personalise(site.label_counts, alphas, name=site.name)
    from fedcover.engines.network.rules import METHODS

    facts_of_fit: dict[str, Any] = {name: message.arrays[name] for name in ARRAYS}
    facts_of_fit |= {name: message.numbers[name] for name in NUMBERS}
    fit = Fit(**facts_of_fit, counted=message.numbers.get("counted"))  # type: ignore[arg-type]
    if fit.thresholds.shape != (len(alphas), site.n_classes):
        raise FedcoverError(
            f"thresholds of shape {fit.thresholds.shape}",
            allowed=f"{(len(alphas), site.n_classes)}",
            fix="Server and site run different versions of fedcover",
        )
    return calibration_of(
        fit,
        site.name,
        alphas,
        METHODS[facts["method"]][0],
        privacy_from(facts["privacy"]),
        Cost(**facts["cost"]),
        facts["n_sites"],
        site.score,
        site.temperature,
        site.label_names,
    )
