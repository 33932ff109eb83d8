"""What users can import, and what importing costs them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

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


def private_names(tree: ast.Module) -> Iterator[str]:
    """Underscored names that a test imports from the package or takes from what it imported."""
    ours = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedcover"):
            ours |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.attr if node.value.id in ours | {"fc"} else ""
            yield from re.findall(r"^_[a-zA-Z].*", name)
    yield from (name for name in ours if re.match("_[a-zA-Z]", name))


def test_tests_use_no_private_name_of_the_package():
    """Or they would hold the code still where no user can see a difference."""
    found = {
        f"{path.name}: {name}"
        for path in Path(__file__).parent.rglob("*.py")
        for name in private_names(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()
