"""The experiments by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcover.experiments.simulated import SimulatedStudy
from fedcover.experiments.study import Study


def studies(names: Sequence[str], logits: Path | None = None) -> list[Study]:
    """The studies of these names, on the user's own logits where given."""
    made: dict[str, Study] = {"simulated": SimulatedStudy()}
    return [made[name] for name in names]
