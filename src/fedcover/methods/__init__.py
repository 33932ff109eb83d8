"""The calibration methods, by the names users pick them by."""

from fedcover.methods.dp_fedcp.method import DPFedCP
from fedcover.methods.exponential import ExponentialMechanism
from fedcover.methods.local import Local
from fedcover.methods.pooled import EstimatedWeights, OracleWeights, Pooled
from fedcover.methods.quantile_average import QuantileAverage
from fedcover.methods.quantile_of_quantiles import QuantileOfQuantiles
from fedcover.methods.sketch.method import Sketch
from fedcover.methods.tdigest import TDigest

__all__ = [
    "DPFedCP",
    "EstimatedWeights",
    "ExponentialMechanism",
    "Local",
    "OracleWeights",
    "Pooled",
    "QuantileAverage",
    "QuantileOfQuantiles",
    "Sketch",
    "TDigest",
]
