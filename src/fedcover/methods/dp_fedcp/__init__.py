"""Iterative DP-FedCP: by search, or by Algorithm 1 as published."""

from fedcover.methods.dp_fedcp.method import DPFedCP

__all__ = ["DPFedCP"]
