"""Lines of the table of agreement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcover.experiments.study import Agreement


def number(
    figure: str, what: str, paper: float, ours: NDArray[np.float64], band: float
) -> Agreement:
    """A mean over repetitions beside a value read off a figure."""
    mean = float(ours.mean())
    return Agreement(
        figure,
        what,
        f"{paper:.3f}",
        f"{mean:.3f} ± {ours.std():.3f}",
        f"{mean - paper:+.3f}",
        abs(mean - paper) <= band,
        f"within {band:g}",
    )


def claim(figure: str, what: str, paper: str, ours: str, band: str, *, agrees: bool) -> Agreement:
    """A claim in words beside what was found."""
    return Agreement(figure, what, paper, ours, "", agrees, band)
