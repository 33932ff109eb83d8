"""The simulated study: its rows, its claims, and its figures."""

from __future__ import annotations

import numpy as np
import pytest

from fedcover.experiments import records, runner
from fedcover.experiments.compare import COMPETITORS
from fedcover.experiments.federations import Simulated
from fedcover.experiments.simulated import SCORES, SimulatedStudy
from fedcover.scores import APS

from .conftest import check_figures


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return runner.run(SimulatedStudy(), tmp_path_factory.mktemp("simulated"), 40)


def test_rows(results):
    assert len(results) == 40 * len(SCORES) * len(COMPETITORS)
    again = records.of_rows(runner.repeated(SimulatedStudy(), 0, range(7, 8)), {})
    kept = results.where(repetition=7)
    for column in again.columns:
        assert again.columns[column].tolist() == kept.columns[column].tolist()


def test_the_paper_is_found_again(results):
    """40 repetitions: standard errors of about .003 and .004; the bands are .02 and .01.

    False alarms: below 1 in 100 for another seed; this one is fixed.
    """
    rows = {a.what: a for a in SimulatedStudy().agreement(results)}
    for what in ("Global, U = 1", "Oracle, U = 1", "DP-FedCP (ours), U = 1"):
        assert rows[what].agrees, rows[what].ours
    assert not rows["DP-FedCP as published, whatever q₀"].agrees
    tampered = {**results.columns, "coverage": results.columns["coverage"] - 0.05}
    wrong = SimulatedStudy().agreement(records.Results(tampered, results.metadata))
    assert not any(a.agrees for a in wrong[:3])


def test_figures(results):
    sections = SimulatedStudy().sections(results)
    check_figures(sections)
    assert [s.name for s in sections if s.kind == "plot"] == [
        "simulated-data",
        "simulated-scores",
        "simulated-coverage-one",
        "simulated-coverage-random",
    ]


def test_the_classifier_is_bayes_with_a_uniform_prior():
    fed = Simulated(APS())
    x = np.array([[0.3, -0.2], [1.0, 2.0]])
    density = np.array([[np.exp(-((p - m) ** 2).sum() / 2) for m in fed.means] for p in x])
    np.testing.assert_allclose(fed.predict(x), density / density.sum(axis=1, keepdims=True))
