"""The calibration methods, by the names users pick them by."""

from fedcover.protocols.dp_fedcp import DPFedCP
from fedcover.protocols.local import Local
from fedcover.protocols.pooled import EstimatedWeights, OracleWeights, Pooled
from fedcover.protocols.sketch import Sketch

__all__ = ["DPFedCP", "EstimatedWeights", "Local", "OracleWeights", "Pooled", "Sketch"]
