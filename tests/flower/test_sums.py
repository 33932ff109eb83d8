"""Private sketches through secure sums in a deployment, when machines fail on the way."""

from __future__ import annotations

import pytest

import fedcover as fc
from fedcover.privacy.ledger import Ledger
from tests.flower.conftest import SITES
from tests.flower.deployment import until

pytestmark = pytest.mark.deployment

LINES = """
data = "data/site-NAME.npz"
state = "state/NAME"
out = "calibrations/NAME.json"
ledger = "ledgers/NAME.db"
key = "keys/NAME"
roster = "keys/roster"
least-sum = 2
conspirators = 0
"""


@pytest.fixture
def deployment(deploy):  # one for each test: budgets and dead machines stay
    with deploy(lines=LINES, ledgers=True) as made:
        yield made


def states(deployment):
    folder = deployment.folder
    ledgers = ((folder / f"ledgers/{name}.db", folder / f"keys/{name}") for name in SITES)
    return [Ledger(path, key=key).state() for path, key in ledgers]


def test_a_superlink_killed_in_the_middle_of_a_sum_costs_no_budget(deployment):
    settings = {"run": "broken", "threshold": 3, "epsilon": 2.0, "alpha": "0.1,0.2"}
    deployment.start_run(**settings)
    until(lambda: all(s.answers for s in states(deployment)), "all sites have answered", 250)
    deployment.kill("superlink")
    before = [(s.spent, s.head) for s in states(deployment)]
    assert not list(deployment.folder.glob("calibrations/*"))
    deployment.start_superlink()

    text = deployment.run(**settings)

    assert "calibrations at harbour, lakeside, northgate" in text
    assert [(s.spent, s.head) for s in states(deployment)] == before
    assert all(spent == pytest.approx(2, abs=1e-6) for spent, _ in before)
    for name in SITES:
        cal = fc.Calibration.load(deployment.folder / f"calibrations/{name}.json")
        assert cal.target == name
        assert cal.thresholds.shape == (2, 4)
        assert cal.privacy.epsilon == pytest.approx(2, abs=1e-6)
    at_server = {p.name for p in deployment.folder.glob("runs/**/*") if p.is_file()}
    heads = {"ledger-heads.json", "ledger-heads.json.lock"}
    own = {"sketch.npz", "run.json", "0.round", "0.survivors"} | heads
    assert at_server == own  # no calibration


def test_a_sum_goes_on_without_a_node_that_dies(deployment):
    fewest = {"threshold": 2, "conspirators": 0}  # two of three are enough where all are trusted
    name = deployment.start_run(run="two-left", **fewest, epsilon=2.0, seconds=60.0, resends=0)
    sent = 3  # hello, keys, shares: the others must take its masks out of the sum
    until(lambda: deployment.log("harbour").count("Sent successfully") >= sent, "dealt shares", 250)
    deployment.kill("harbour")
    deployment.processes[name].wait(timeout=280)

    assert "calibrations at lakeside, northgate" in deployment.log(name)
    sketch = fc.SketchResult.load(deployment.folder / "runs/two-left/sketch.npz")
    assert sketch.sites == ("lakeside", "northgate")
    assert sketch.table.records == 230 + 180
    for left in sketch.sites:
        cal = fc.Calibration.load(deployment.folder / f"calibrations/{left}.json")
        assert cal.n_sites == 2
        assert (cal.thresholds <= 1).all()
