"""A deployment is driven from Python like any other engine: `collect` and `calibrate`, no sites."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import fedcover as fc
from fedcover.engines.remote.codes import CODES
from fedcover.privacy.ledger import Ledger
from tests.remote.federation import (
    BUDGET,
    OPEN,
    SERVER_VIEW,
    SKETCH,
    SUMS,
    Net,
    coordinator,
    made,
    silent,
)

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

ALPHAS = (0.1, 0.2)
NAMES = ["s0", "s1", "s2", "s3"]
ENOUGH = (200, 210, 220, 230)  # records that a budget of ε = 2 does not drown


def equal(one, two, but=frozenset({"cost"})):
    """Whether two results are the same to the bit, but for what envelopes add to the bytes."""
    for f in fields(one):
        if f.name not in but:
            here, there = getattr(one, f.name), getattr(two, f.name)
            arrays = isinstance(here, np.ndarray)
            assert here.tobytes() == there.tobytes() if arrays else here == there, f.name


def own(net, name):
    return fc.Calibration.load(net.folder / f"{name}.json")


def test_a_collection(tmp_path):
    net = Net(tmp_path, policy=OPEN)
    engine = coordinator(net, alpha=ALPHAS)
    sketch, here = fc.collect(engine=engine), fc.collect(made())
    assert sketch.table.table.tobytes() == here.table.table.tobytes()
    equal(sketch, here, {"table", "cost"})
    assert sketch.cost.rounds == here.cost.rounds
    assert sketch.cost.bytes_up > here.cost.bytes_up
    assert (engine.informed, engine.missing) == (NAMES, {})
    assert engine.publication.published is sketch
    for site in made():
        equal(own(net, site.name), here.personalise(site, ALPHAS))


@pytest.mark.parametrize("privacy", [SERVER_VIEW, SUMS])
def test_a_private_collection_is_charged_once(tmp_path, privacy):
    net = Net(tmp_path, made(sizes=ENOUGH), budget=BUDGET)
    sketch = fc.collect(None, SKETCH, privacy, coordinator(net))
    assert sketch.privacy == fc.collect(made(sizes=ENOUGH), SKETCH, privacy).privacy
    before = net.heads()
    for path in net.ledgers.values():
        assert Ledger(path).state().spent == pytest.approx(2.0, abs=1e-6)
    again = fc.collect(None, SKETCH, privacy, coordinator(net))
    assert again.table.table.tobytes() == sketch.table.table.tobytes()
    assert net.heads() == before
    with pytest.raises(fc.FedcoverError, match="not enough privacy budget"):
        fc.collect(None, SKETCH, privacy, coordinator(net, run="december"))
    assert net.heads() == before


def test_a_renewed_collection_adds_what_was_spent(tmp_path):
    net = Net(tmp_path, made(sizes=ENOUGH))
    first = fc.collect(None, SKETCH, SERVER_VIEW, coordinator(net))
    engine = coordinator(net, run="december")
    second = fc.collect(None, SKETCH, SERVER_VIEW, engine, previous=first)
    assert second.privacy.events == first.privacy.events * 2
    mine = own(net, "s0").privacy
    assert mine.word == "ledger"
    assert mine.epsilon == pytest.approx(2.0, abs=1e-6)  # what this run was charged
    assert mine.reported.events == second.privacy.events


def test_a_calibration(tmp_path):
    net = Net(tmp_path, policy=OPEN)
    engine = coordinator(net)
    cals = fc.calibrate(None, ALPHAS, fc.methods.DPFedCP(), engine=engine, seed=1)
    here = fc.calibrate(made(), ALPHAS, fc.methods.DPFedCP(), seed=1)
    assert list(cals) == list(here) == NAMES
    for name, cal in here.items():
        equal(cals[name], cal)
        equal(own(net, name), cal)
    assert (engine.informed, engine.missing) == (NAMES, {})
    assert engine.traffic.rounds == here["s0"].cost.rounds


def test_targets_by_counts_and_groups(tmp_path):
    net = Net(tmp_path, policy=OPEN)
    targets = {"north": ["s0", "s1"], "clinic": [10, 0, 3], "mine": ["s2"], "s3": "s3"}
    engine = coordinator(net)
    cals = fc.calibrate(None, ALPHAS, targets=targets, engine=engine)
    here = fc.calibrate(made(), ALPHAS, targets=targets)
    for name, cal in here.items():
        equal(cals[name], cal)
    assert engine.informed == ["s2", "s3"]  # the others have no target of their own
    equal(own(net, "s3"), here["s3"])
    assert own(net, "s2").thresholds.tobytes() == here["mine"].thresholds.tobytes()
    assert not (net.folder / "s0.json").exists()


def test_a_repeated_run_asks_no_site_again(tmp_path):
    net = Net(tmp_path / "net", policy=OPEN)
    kept = fc.engines.Checkpoint(tmp_path / "rounds")
    first = fc.calibrate(None, ALPHAS, engine=coordinator(net, checkpoint=kept))
    net.heard.clear()
    again = fc.calibrate(None, ALPHAS, engine=coordinator(net, checkpoint=kept))  # and no seed
    assert {envelope.phase for _, envelope, _ in net.heard} == {"hello", "finish"}
    for name in NAMES:
        equal(again[name], first[name], set())


def test_who_is_missing_and_why(tmp_path):
    net = Net(tmp_path, policy=OPEN)
    net.fault = silent("s1")
    engine = coordinator(net, resends=0)
    engine.retry = replace(engine.retry, quorum=3)
    cals = fc.calibrate(None, ALPHAS, engine=engine)
    assert list(cals) == engine.informed == ["s0", "s2", "s3"]
    assert list(engine.missing) == ["node 1"]
    net.fault = silent("s2", stage="finish")
    engine = coordinator(net, resends=0, run="december")
    fc.calibrate(None, ALPHAS, engine=engine)
    assert engine.informed == ["s0", "s1", "s3"]
    assert list(engine.missing) == ["s2"]


def test_too_few_sites_say_why(tmp_path):
    with pytest.raises(fc.FedcoverError) as found:
        fc.collect(engine=coordinator(Net(tmp_path)))  # without a budget
    assert CODES["privacy"][0] in str(found.value)


REFUSED = {
    "sites": ({"sites": made(), "method": fc.methods.DPFedCP()}, "Leave sites out"),
    "auto": ({"method": "auto"}, "must agree to it before they say who they are"),
    "sketch": ({"method": fc.methods.Sketch()}, "fedcover.collect with this engine"),
    "certify": ({"certify": 0.9}, "fedcover.collect with this engine"),
    "no roster": ({"method": fc.methods.DPFedCP(), "privacy": SUMS}, "fedcover.collect"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_before_any_message(tmp_path, case):
    net = Net(tmp_path, policy=OPEN)
    given, says = REFUSED[case]
    with pytest.raises(fc.FedcoverError, match=says):
        fc.calibrate(engine=coordinator(net), **given)
    assert net.heard == []


def test_a_secure_sum_needs_a_roster(tmp_path):
    """Else the statement would promise what holds only against somebody who sees no reply."""
    net = Net(tmp_path)
    with pytest.raises(fc.FedcoverError, match="without roster"):
        fc.collect(None, SKETCH, SUMS, coordinator(net, secure=False))
    assert net.heard == []


def test_no_sites_and_an_engine_that_has_none():
    with pytest.raises(fc.FedcoverError, match="only a Coordinator has them elsewhere"):
        fc.calibrate()
    with pytest.raises(fc.FedcoverError, match="only a Coordinator has them elsewhere"):
        fc.collect(engine=fc.engines.FlowerSimulation())


@pytest.mark.parametrize(
    "wrong",
    [{"alpha": 2.0}, {"alpha": ()}, {"certify": 0.0}, {"certify": 1.0}, {"min_survivors": 0},
     {"run": ""}, {"resends": -1}],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused_before_a_run(tmp_path, wrong):
    with pytest.raises(fc.FedcoverError):
        coordinator(Net(tmp_path), **wrong)


def test_more_survivors_than_sites_cannot_be_asked_for(tmp_path):
    net = Net(tmp_path, budget=BUDGET)
    before = net.heads()
    with pytest.raises(fc.FedcoverError):
        fc.collect(None, SKETCH, SUMS, coordinator(net, min_survivors=9))
    assert not net.asked("keys")
    assert net.heads() == before


class AtTheSite:
    """Its last step is at the site: there is no fit that could be sent there."""

    label, most_rounds = "At the site", 1

    def server(self, task):
        raise AssertionError("nothing is asked")


def test_what_could_not_be_published_is_refused_before_any_message(outside, tmp_path):
    net = Net(tmp_path)
    with pytest.raises(fc.FedcoverError, match="an option of method Large quantile that cannot"):
        fc.calibrate(method=outside.LargeQuantile(rank=object()), engine=coordinator(net))
    fc.methods.register(fc.methods.Entry("at-the-site", AtTheSite, ("x",)))
    try:
        with pytest.raises(fc.FedcoverError, match=r"Derive it from .*ServerMethod"):
            fc.calibrate(method=AtTheSite(), engine=coordinator(net))
    finally:
        fc.methods.unregister("at-the-site")
    assert net.heard == []
