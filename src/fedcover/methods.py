"""The calibration methods, by the names users pick them by."""

from fedcover.protocols.dp_fedcp import DPFedCP
from fedcover.protocols.exponential import ExponentialMechanism
from fedcover.protocols.local import Local
from fedcover.protocols.pooled import EstimatedWeights, OracleWeights, Pooled
from fedcover.protocols.quantile_average import QuantileAverage
from fedcover.protocols.quantile_of_quantiles import QuantileOfQuantiles
from fedcover.protocols.sketch import Sketch
from fedcover.protocols.tdigest import TDigest

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
