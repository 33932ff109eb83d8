"""fedcover: prediction sets that keep their promise at every site of a federation."""

from fedcover import _moved, bounds, diagnostics, engines, labelshift, methods, privacy, scores
from fedcover.api import calibrate, collect
from fedcover.calibration import Calibration, Cost
from fedcover.errors import FedcoverError, FedcoverWarning, FileError
from fedcover.methods.sketch.result import SketchResult
from fedcover.prediction import PredictionSets
from fedcover.privacy.statement import Privacy
from fedcover.quantile import weighted_quantile
from fedcover.report import plots as _plots  # noqa: F401 (results find their figures there)
from fedcover.site import Site, softmax

_moved.install()

__version__ = "0.1.0"

__all__ = [
    "Calibration",
    "Cost",
    "FedcoverError",
    "FedcoverWarning",
    "FileError",
    "PredictionSets",
    "Privacy",
    "Site",
    "SketchResult",
    "bounds",
    "calibrate",
    "collect",
    "diagnostics",
    "engines",
    "labelshift",
    "methods",
    "privacy",
    "scores",
    "softmax",
    "weighted_quantile",
]
