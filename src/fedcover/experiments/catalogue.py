"""The experiments by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcover.experiments.cifar10 import Cifar10Study
from fedcover.experiments.imagenet import FEWEST, ImageNetStudy, source
from fedcover.experiments.outputs import n_classes
from fedcover.experiments.privacy import PrivacyStudy
from fedcover.experiments.shift import ShiftStudy
from fedcover.experiments.simulated import SimulatedStudy
from fedcover.experiments.study import Study
from fedcover.experiments.theory import TheoryStudy


def studies(names: Sequence[str], logits: Path | None = None) -> list[Study]:
    """The studies of these names, on the user's own logits where given."""
    large, small = source(logits), None if logits is None else str(logits)
    wide = small is not None and names == ("privacy",) and n_classes(small) >= FEWEST
    made: dict[str, Study] = {
        "simulated": SimulatedStudy(),
        "cifar10": Cifar10Study(small),
        "imagenet": ImageNetStudy(large),
        "shift": ShiftStudy(large),
        "privacy": PrivacyStudy(None, small) if wide else PrivacyStudy(small, source(None)),
        "theory": TheoryStudy(),
    }
    return [made[name] for name in names]
