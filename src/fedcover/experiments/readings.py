"""What the paper's figures show, read by eye; its text gives no numbers for them.

Plassier et al., ICML 2023, Figures 1 to 3 and the violin plots of its appendix. Target .90.
"""

from __future__ import annotations

SIMULATED = {"Global": 0.80, "Oracle": 0.90, "DP-FedCP": 0.90}
"""Figure 1: centres of the coverage histograms."""

CIFAR10 = {"Global": 0.845, "DP-FedCP": 0.90, "DP-FedCP sd": 0.015, "Local low": 0.78}
"""Figure 2, target agent 4."""

IMAGENET = {"Global": 0.825, "DP-FedCP": 0.90, "DP-FedCP sd": 0.008}
"""Figure 3a."""

SHIFT = {50: 0.90, 60: 0.885, 70: 0.866, 80: 0.846, 90: 0.825, 95: 0.815}
"""Figure 3c: coverage of Global by shift in per cent; DP-FedCP stays at .90."""

NOISE_SPREAD = {10: 0.01, 100: 0.04}
"""Figure 3b: spread of the coverage of DP-FedCP by σ_g, skewed to over-coverage."""

PUBLISHED = 0.90
"""Coverage of DP-FedCP in Figures 1 to 3, whose settings lack the start q₀."""
