"""A deployment gives what the in-process engine gives, bit for bit, even in several attempts."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from tests.flower.conftest import SITES
from tests.flower.deployment import until

pytestmark = pytest.mark.deployment

LINES = """
data = "data/site-NAME.npz"
state = "state/NAME"
out = "calibrations/NAME.json"
exact = true
seed = 0
"""


@pytest.fixture(scope="module")
def deployment(deploy):
    with deploy(lines=LINES, ledgers=False) as made:
        yield made


@pytest.fixture(scope="module")
def sites(deployment):
    paths = [deployment.folder / f"data/site-{name}.npz" for name in SITES]
    return [fc.Site.from_file(path, seed=0) for path in paths]


def loaded(deployment):
    paths = {name: deployment.folder / f"calibrations/{name}.json" for name in SITES}
    return {name: fc.Calibration.load(path) for name, path in paths.items()}


def test_an_exact_sketch_is_that_of_the_in_process_engine(deployment, sites):
    text = deployment.run(run="exact", epsilon=0.0, alpha="0.05,0.1")

    assert "calibrations at harbour, lakeside, northgate" in text
    sketch = fc.collect(sites)
    stored = fc.SketchResult.load(deployment.folder / "runs/exact/sketch.npz")
    assert np.array_equal(stored.table.table, sketch.table.table)
    for site in sites:
        here = sketch.personalise(site.label_counts, [0.05, 0.1])
        assert np.array_equal(loaded(deployment)[site.name].thresholds, here.thresholds)


def test_dp_fedcp_goes_on_after_a_lost_node_and_a_lost_superlink(deployment, sites):
    settings = {"run": "search", "method": "dp-fedcp", "epsilon": 0.0, "resends": 0}
    rounds = deployment.folder / "runs/search/rounds"

    first = deployment.start_run(**settings, seconds=60.0)  # the lost node costs them
    until(lambda: (rounds / "1.round").exists(), "two rounds are done", 200)
    deployment.kill("harbour")
    deployment.processes[first].wait(timeout=200)
    assert "site 'harbour' has not answered round" in deployment.log(first)
    assert "no budget is spent twice" in deployment.log(first)

    deployment.restart_node("harbour")
    done = len(list(rounds.glob("*.round")))
    second = deployment.start_run(**settings, seconds=90.0)
    until(lambda: len(list(rounds.glob("*.round"))) > done, "one more round is done", 200)
    deployment.kill("superlink")
    deployment.processes[second].wait(timeout=60)
    kept = {path.name: path.stat().st_mtime_ns for path in rounds.glob("*.round")}
    assert len(kept) > done >= 2

    deployment.start_superlink()
    text = deployment.run(**settings, seconds=90.0)

    assert "calibrations at harbour, lakeside, northgate" in text
    assert kept.items() <= {p.name: p.stat().st_mtime_ns for p in rounds.glob("*.round")}.items()
    here = fc.calibrate(sites, 0.1, fc.methods.DPFedCP(), seed=0)
    for name, cal in loaded(deployment).items():
        assert np.array_equal(cal.thresholds, here[name].thresholds)
        assert cal.cost.rounds == here[name].cost.rounds
