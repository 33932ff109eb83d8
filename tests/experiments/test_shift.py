"""The shift study: rows for every shift, and claims that can fail."""

from __future__ import annotations

import numpy as np
import pytest

from fedcover.errors import FedcoverError
from fedcover.experiments import records, runner
from fedcover.experiments.shift import KINDS, SHIFTS, WEIGHTED, ShiftStudy
from fedcover.report.page import Plot

from .conftest import check_figures


@pytest.fixture(scope="module")
def results(file, tmp_path_factory):
    return runner.run(ShiftStudy(file), tmp_path_factory.mktemp("shift"), 3)


def test_a_repetition_depends_on_its_number_and_the_seed_alone(file, results):
    again = records.of_rows(runner.repeated(ShiftStudy(file), 0, range(1, 2)), {})
    kept = results.where(repetition=1)
    for column in again.columns:
        assert again.columns[column].tolist() == kept.columns[column].tolist()


def test_rows(results):
    columns = ["repetition", "shift", "method", "coverage", "size", "threshold"]
    assert list(results.columns) == columns
    assert len(results) == 3 * len(SHIFTS) * len(KINDS)
    assert results.kinds("shift") == [50, 60, 70, 80, 90, 95]


def test_sections(file, results):
    sections = ShiftStudy(file).sections(results)
    check_figures(sections)
    plots = [s for s in sections if isinstance(s, Plot)]
    assert len(plots) == 2
    for p in plots:
        for text in ("3 repetitions", "α = 0.1", "n = 1", "file mine.npz"):
            assert text in p.caption


def _made_up(results, coverage):
    """The results with other coverages: coverage(shift, method)."""
    made = [
        coverage(s, m)
        for s, m in zip(results.columns["shift"], results.columns["method"], strict=True)
    ]
    return records.Results({**results.columns, "coverage": np.array(made)}, results.metadata)


def test_claims_hold_and_fail_as_they_should(file, results):
    study = ShiftStudy(file)
    good = _made_up(results, lambda s, m: 0.9 - 0.002 * (s - 50) * (m == "Global"))
    assert all(a.agrees for a in study.agreement(good))
    flat = _made_up(results, lambda s, m: 0.9)
    failed = [a.what for a in study.agreement(flat) if not a.agrees]
    assert failed[-1] == "Global falls with the shift"
    assert "Global at 95 %" in failed
    drifting = _made_up(results, lambda s, m: 0.9 - 0.002 * (s - 50))
    failed = [a.what for a in study.agreement(drifting) if not a.agrees]
    assert failed == [f"{m} stays at .90" for m in WEIGHTED]


def test_a_bad_file_gives_one_clear_error(tmp_path):
    (tmp_path / "bad.npz").write_text("no archive")
    with pytest.raises(FedcoverError, match=r"bad\.npz.*Allowed"):
        ShiftStudy(str(tmp_path / "bad.npz")).settings()
