"""The paper's CIFAR-10 federation on real ResNet-56 outputs, 300 repetitions.

Standard errors are below .0025, so the tolerances stand for false alarms below one in 10³ for
each mean, and the comparison of DP-FedCP with Estimated Weights is exact up to γ.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import fedcover as fc

from .federations import Cifar10, coverages
from .test_simulated import show

pytestmark = pytest.mark.statistical

OUTPUTS = (
    Path(os.environ.get("FEDCOVER_DATA", Path(__file__).parents[3] / "shared" / "data"))
    / "cifar10_resnet56_test_logits.npz"
)


@pytest.fixture(scope="module")
def federation():
    if not OUTPUTS.exists():
        pytest.skip(f"{OUTPUTS.name} is not in the folder FEDCOVER_DATA")
    return Cifar10(OUTPUTS, fc.scores.APS())


def test_coverage_of_every_method(federation):
    methods = {
        "Local": fc.methods.Local(),
        "Global": fc.methods.Pooled(),
        "Oracle": fc.methods.OracleWeights(Cifar10.priors),
        "Estimated": fc.methods.EstimatedWeights(),
        "DP-FedCP": fc.methods.DPFedCP(),
    }
    found = coverages(federation, methods, 300)
    show("CIFAR-10, random U, 300 repetitions", found)
    expected = {"Local": 0.906, "Global": 0.874, "Oracle": 0.901, "Estimated": 0.901}
    for name, value in expected.items():
        assert abs(found[name].mean() - value) <= 0.008
    assert abs(found["DP-FedCP"].mean() - found["Estimated"].mean()) <= 0.005
    assert 0.03 <= found["Local"].std() <= 0.055
    assert found["Global"].std() <= 0.02


def test_thresholds_agree_with_the_exact_weighted_quantile(federation):
    worst = 0.0
    for draw in federation.draws(20):
        levels = [0.05, 0.1, 0.2]
        exact = fc.calibrate(draw.sites, levels, fc.methods.EstimatedWeights())
        found = fc.calibrate(draw.sites, levels, fc.methods.DPFedCP())
        for name in exact:
            gap = found[name].thresholds - exact[name].thresholds
            worst = max(worst, float(np.abs(gap).max()))
    print(f"\nlargest distance to the exact threshold: {worst:.2e}")
    assert worst <= 1e-6
