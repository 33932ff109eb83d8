"""What carries the messages of a method: base and inprocess, remote, and flower on top of it.

InProcess            all sites in this program
FlowerSimulation     all sites on this machine, as virtual clients; with the extra `flower`
Coordinator          sites on other machines, over any transport; RetryPolicy says how long it
                     waits, Checkpoint where it keeps finished rounds
Engine               what they are, and what a new one derives from
"""

from fedcover.engines.base import Engine
from fedcover.engines.flower.simulation import FlowerSimulation
from fedcover.engines.inprocess import InProcess
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.engines.remote.coordinator import Coordinator
from fedcover.engines.remote.transport import RetryPolicy

__all__ = ["Checkpoint", "Coordinator", "Engine", "FlowerSimulation", "InProcess", "RetryPolicy"]
