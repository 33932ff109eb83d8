"""What users can import, and what importing costs them."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

import fedcover as fc

NAMES = {
    "Calibration", "Cost", "FedcoverError", "FedcoverWarning", "FileError", "PredictionSets",
    "Privacy", "Site", "SketchResult", "bounds", "calibrate", "collect", "diagnostics", "engines",
    "labelshift", "methods", "privacy", "scores", "softmax", "weighted_quantile",
}  # fmt: skip


def test_exported_names_are_the_documented_ones():
    assert set(fc.__all__) == NAMES
    assert fc.__all__ == sorted(fc.__all__)
    for name in fc.__all__:
        assert hasattr(fc, name)


def test_no_function_or_class_is_public_by_accident():
    visible = {
        name
        for name, value in vars(fc).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert visible == {n for n in NAMES if not isinstance(getattr(fc, n), types.ModuleType)}


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("methods", {"DPFedCP", "Entry", "EstimatedWeights", "ExponentialMechanism", "Local",
                     "OracleWeights", "Pooled", "QuantileAverage", "QuantileOfQuantiles", "Sketch",
                     "TDigest", "register", "unregister"}),
        ("engines", {"Checkpoint", "Coordinator", "Engine", "FlowerSimulation", "InProcess",
                     "RetryPolicy"}),
        ("labelshift", {"MixEstimate", "calibration_mixture", "confusion", "effective_size",
                        "exact_weights", "from_unlabelled", "group_sites", "guess_mix",
                        "likelihood_ratio", "oracle_ratio", "subsample_sizes"}),
    ],
)  # fmt: skip
def test_submodules_export_the_documented_names(module, names):
    assert set(getattr(fc, module).__all__) == names


def test_all_scores_are_there():
    assert set(fc.scores.ALL) == {"APS", "RAPS", "SAPS", "LAC", "Margin", "TopK"}


def test_everything_public_has_a_docstring():
    for name in fc.__all__:
        assert getattr(fc, name).__doc__, name


def test_importing_is_light():
    heavy = ["torch", "flwr", "matplotlib", "sklearn", "numba", "pandas", "pyarrow", "jinja2"]
    code = f"import fedcover, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_changes_no_global_state():
    code = (
        "import warnings, numpy as np; f = list(warnings.filters); s = np.random.get_state()[1][0];"
        "e = np.geterr(); import fedcover;"
        "assert f == warnings.filters and e == np.geterr() and s == np.random.get_state()[1][0]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert fc.__version__ == version("fedcover")
