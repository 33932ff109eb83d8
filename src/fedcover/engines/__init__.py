"""What carries the messages of a protocol: `InProcess`, and `FlowerSimulation` with an extra."""

from fedcover.engines.flower.simulation import FlowerSimulation
from fedcover.engines.inprocess import InProcess

__all__ = ["FlowerSimulation", "InProcess"]
