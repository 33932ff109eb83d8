"""The figures that results draw of themselves: what `calibration.plot()` and its like show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedcover.calibration import Calibration
from fedcover.errors import FedcoverError
from fedcover.methods.sketch.result import SketchResult
from fedcover.prediction import PredictionSets
from fedcover.results import figure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_of.register(Calibration)
def _calibration(result: Calibration, width: float) -> Figure:
    """The threshold of every label."""
    from fedcover.report.figures import results, style

    names = [str(name) for name in result.label_names or range(result.n_classes)]
    levels = [f"α = {a:g}" for a in result.alpha]
    figure = results.thresholds(result.thresholds, names, levels, result.target, width=width)
    return style.in_notebooks(figure)


@figure_of.register(SketchResult)
def _sketch(result: SketchResult, width: float) -> Figure:
    """Where the records are, by label and score."""
    from fedcover.report import sketch
    from fedcover.report.figures import style

    return style.in_notebooks(sketch.heat(result.table, result.label_names).draw(width))


@figure_of.register(PredictionSets)
def _sets(result: PredictionSets, width: float) -> Figure:
    """How many labels the sets hold."""
    from fedcover.report.figures import results, style

    if not len(result):
        raise FedcoverError(
            "there are no sets to draw", allowed="at least one record", fix="Predict some"
        )
    sizes = {f"α = {a:g}": np.atleast_2d(result.sizes)[k] for k, a in enumerate(result.alpha)}
    figure = results.sizes(sizes, result.n_classes, width=width)
    return style.in_notebooks(figure)
