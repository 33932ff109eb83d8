"""The paper's experiments, reproduced and surpassed (`fedcover reproduce`), and the demo.

- `study`: what an experiment is: its settings, and rows of one repetition
- `runner`: repetitions over cores or Ray, resumable, the same for any number of workers
- `records`: results as a parquet table with settings, versions and seeds
- `sections`: sections and pages of the report, and what the paper's figures show, read by eye, with
  our results beside it
- `federations`: the paper's federations, drawn anew for every repetition
- `algorithm1`: Algorithm 1 as published, compiled, and the ε that its noise really has
- `compare`: coverage of many methods on one draw
- `simulated`, `cifar10`, `imagenet`, `shift`, `privacy`, `theory`: one experiment each: its
  repetition, its figures, its agreement with the paper
- `theory_measures`: what the last of them measures
- `demo`: the experiment of `fedcover demo`, a package
- `playground`: a page in which one moves the numbers of a federation

A new experiment is a frozen class with the members of `study.Study` in a module of its own, and
its name and object below.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedcover.errors import FedcoverError

if TYPE_CHECKING:
    from fedcover.experiments.study import Study

PAPER = ("simulated", "cifar10", "imagenet", "shift", "privacy", "theory")
"""The paper's experiments, in the order of the report."""

NAMES = (*PAPER, "demo")

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
    # Here, because the command line shows the names, and nothing else of them, at every start.
    from fedcover.experiments.cifar10 import Cifar10Study
    from fedcover.experiments.demo.study import DemoStudy
    from fedcover.experiments.federations import n_classes
    from fedcover.experiments.imagenet import FEWEST, ImageNetStudy, source
    from fedcover.experiments.privacy import PrivacyStudy
    from fedcover.experiments.shift import ShiftStudy
    from fedcover.experiments.simulated import SimulatedStudy
    from fedcover.experiments.theory import TheoryStudy

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
