"""The experiments by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcover.experiments.cifar10 import Cifar10Study
from fedcover.experiments.imagenet import ImageNetStudy, source
from fedcover.experiments.privacy import PrivacyStudy
from fedcover.experiments.shift import ShiftStudy
from fedcover.experiments.simulated import SimulatedStudy
from fedcover.experiments.study import Study
from fedcover.experiments.theory import TheoryStudy


def studies(names: Sequence[str], logits: Path | None = None) -> list[Study]:
    """The studies of these names, on the user's own logits where given."""
    large = source(logits)
    made: dict[str, Study] = {
        "simulated": SimulatedStudy(),
        "cifar10": Cifar10Study(None if logits is None else str(logits)),
        "imagenet": ImageNetStudy(large),
        "shift": ShiftStudy(large),
        "privacy": PrivacyStudy(None if logits is None else str(logits)),
        "theory": TheoryStudy(),
    }
    return [made[name] for name in names]
