"""Engines carry queries and replies between a protocol's two halves. They know no quantiles."""

from fedcover.engines.inprocess import InProcess

__all__ = ["InProcess"]
