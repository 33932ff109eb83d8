"""The experiments by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcover.errors import FedcoverError
from fedcover.experiments.cifar10 import Cifar10Study
from fedcover.experiments.demo.study import DemoStudy
from fedcover.experiments.federations import n_classes
from fedcover.experiments.imagenet import FEWEST, ImageNetStudy, source
from fedcover.experiments.privacy import PrivacyStudy
from fedcover.experiments.shift import ShiftStudy
from fedcover.experiments.simulated import SimulatedStudy
from fedcover.experiments.study import Study
from fedcover.experiments.theory import TheoryStudy

TAKERS = {"cifar10", "imagenet", "shift", "privacy"}
"""Studies that can run on a user's outputs."""


def studies(names: Sequence[str], logits: Path | None = None) -> list[Study]:
    """The studies of these names.

    Parameters
    ----------
    names
        One study, or several.
    logits
        The user's own outputs. One study takes them or says why not; of several, those take them
        that have as many classes.
    """
    path = None if logits is None else str(logits)
    if path is not None and not set(names) & TAKERS:
        raise FedcoverError(
            f"{names[0]} does not use a file of logits",
            allowed="logits for " + ", ".join(sorted(TAKERS)),
            fix="Leave --logits out",
        )
    classes = 0 if path is None else n_classes(path)
    many = classes >= FEWEST
    if path is not None and len(names) > 1 and not many and classes != 10:
        raise FedcoverError(
            f"{path} has {classes} classes",
            allowed=f"10 classes, or at least {FEWEST}",
            fix="Give outputs of a model for CIFAR-10 or for many labels",
        )
    small = path if len(names) == 1 or not many else None
    large = source(logits if len(names) == 1 or many else None)
    made: dict[str, Study] = {
        "simulated": SimulatedStudy(),
        "cifar10": Cifar10Study(small),
        "imagenet": ImageNetStudy(large),
        "shift": ShiftStudy(large),
        "privacy": PrivacyStudy(None, path) if many else PrivacyStudy(path, source(None)),
        "theory": TheoryStudy(),
        "demo": DemoStudy(),
    }
    return [made[name] for name in names]
