"""The calibration methods, one file or folder each, and the one list that names them.

base.py          what a method is: a server half that asks, a site half that answers
queries.py       what a server asks, read and checked
replies.py       what sites sent, read and checked
registry.py      the list; `register` adds one from elsewhere
sketch/          one noisy table for every target and level
dp_fedcp/        the paper's method, by search or as published
pooled.py        the reference points that see all scores
site_quantiles.py    every site alone, and what is made of the sites' own quantiles
tdigest.py, exponential.py    the other competitors
"""

from fedcover.methods.dp_fedcp.method import DPFedCP
from fedcover.methods.exponential import ExponentialMechanism
from fedcover.methods.pooled import EstimatedWeights, OracleWeights, Pooled
from fedcover.methods.registry import Entry, register, unregister
from fedcover.methods.site_quantiles import Local, QuantileAverage, QuantileOfQuantiles
from fedcover.methods.sketch.method import Sketch
from fedcover.methods.tdigest import TDigest

__all__ = [
    "DPFedCP",
    "Entry",
    "EstimatedWeights",
    "ExponentialMechanism",
    "Local",
    "OracleWeights",
    "Pooled",
    "QuantileAverage",
    "QuantileOfQuantiles",
    "Sketch",
    "TDigest",
    "register",
    "unregister",
]
