"""A user's file of logits with many labels, and what every figure must say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fedcover.report.page import Plot, Section
from tests.report.test_figures import check_texts


def logits_file(path: Path, n: int = 1500, classes: int = 100) -> str:
    """Write such a file; returns its path."""
    rng = np.random.default_rng(1)
    labels = np.arange(n) % classes
    logits = 2 * rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += np.linspace(2, 12, classes)[labels]
    np.savez(path, logits=logits.astype(np.float16), labels=labels)
    return str(path)


@pytest.fixture(scope="package")
def file(tmp_path_factory):
    return logits_file(tmp_path_factory.mktemp("logits") / "mine.npz")


def check_figures(sections: Sequence[Section]) -> None:
    """Every caption states n, α and the number of repetitions, every axis is named."""
    for plot in (s for s in sections if isinstance(s, Plot)):
        assert re.search(r"\b[nN] = ", plot.caption), plot.name
        assert re.search(r"\bα = ", plot.caption), plot.name
        assert re.search(r"\b\d+ repetitions", plot.caption), plot.name
        for figure in (plot.wide, plot.narrow):
            shown = [a for a in figure.axes if a.get_visible()]
            assert figure.get_supxlabel() or all(a.get_xlabel() for a in shown), plot.name
            named = all(len(a.get_yticks()) for a in shown)
            assert figure.get_supylabel() or shown[0].get_ylabel() or named, plot.name
            check_texts(figure)
