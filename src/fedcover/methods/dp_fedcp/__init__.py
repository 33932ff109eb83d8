"""Iterative DP-FedCP: by search, or by Algorithm 1 as published.

method.py       its two halves, and its options
search.py       the quantile by search, which is the default
algorithm1.py   the quantile as published, without noise or with it, and what the noisy one releases
steps.py        the inner loop of the latter, compiled
"""

from fedcover.methods.dp_fedcp.method import DPFedCP

__all__ = ["DPFedCP"]
