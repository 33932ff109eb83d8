"""What a site makes of the result: its own calibration, if the result can be one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover.calibration import Cost
from fedcover.engines.base import Publication
from fedcover.engines.remote.codes import CODES
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.result_message import fit_message, result_header, sketch_message
from fedcover.methods.base import Task
from fedcover.methods.sketch.result import SketchResult
from fedcover.position import TOP
from fedcover.privacy.statement import PrivacyStatement
from fedcover.wire import Message
from tests.remote.federation import OPEN, SERVER_VIEW, Net, Server, made, silent

pytestmark = pytest.mark.filterwarnings("ignore::fedcover.FedcoverWarning")

METHOD = fc.methods.DPFedCP(rounds=3, solver="averaging", start=0.95)
COST = Cost(5, 100, 200)
STATED = PrivacyStatement(2.0, 1e-5)


def warm_sites():
    return [
        fc.Site(
            s.name, s.scores, s.labels, n_classes=3, temperature=2.0, label_names=("a", "b", "c"),
            score=fc.scores.APS(u=1.0),
        )
        for s in made()
    ]  # fmt: skip


@pytest.fixture
def finished(tmp_path):
    """A server after an exact run of DP-FedCP, with its fits."""
    net = Net(tmp_path, warm_sites(), policy=OPEN)
    server = Server(net, METHOD, None)
    return server, server.go()


def facts(**more):
    task = Task(("s0", "s1", "s2", "s3"), 3, (0.1, 0.2))
    return {**result_header(Publication(METHOD, task, {}, None, COST), (), None), **more}


def test_a_fit_becomes_the_calibration_of_the_in_process_engine(finished):
    server, fits = finished
    have = server.coordinator.inform({n: fit_message(f) for n, f in fits.items()}, facts())
    assert have == ["s0", "s1", "s2", "s3"]
    wanted = fc.calibrate(list(server.net.sites.values()), (0.1, 0.2), METHOD, seed=0)
    for name in have:
        found = fc.Calibration.load(server.net.folder / f"{name}.json")
        assert plain_facts(found) == plain_facts(replace(wanted[name], cost=COST))
        assert np.array_equal(found.thresholds, wanted[name].thresholds)
        assert np.array_equal(found.distances, wanted[name].distances)
        assert np.array_equal(found.ratios, wanted[name].ratios)
    assert "only if Algorithm 1 has converged" in found.guarantee


def plain_facts(cal):
    """All but the arrays."""
    arrays = ("thresholds", "distances", "ratios")
    return {key: value for key, value in vars(cal).items() if key not in arrays}


def test_a_sketch_becomes_the_sites_own_calibration(tmp_path):
    net = Net(tmp_path, warm_sites())
    server = Server(net, privacy=SERVER_VIEW)
    table = server.go()
    sketch = SketchResult(
        table=table, privacy=STATED, cost=COST,
        score=server.task.score,
    )  # fmt: skip
    net.heard.clear()
    have = server.coordinator.inform(
        dict.fromkeys(net_names(net), sketch_message(sketch)), {"alphas": [0.1]}
    )
    assert have == net_names(net)
    for site in net.sites.values():
        found = fc.Calibration.load(tmp_path / f"{site.name}.json")
        own = sketch.personalise(site.label_counts, 0.1, name=site.name)
        assert np.array_equal(found.thresholds, own.thresholds)
        assert np.array_equal(found.distances, own.distances)
        assert np.array_equal(found.coverage_error, own.coverage_error)
        assert (found.temperature, found.label_names) == (2.0, ("a", "b", "c"))
    for _, _, reply in net.heard:  # the label mix that went in stays home
        assert set(Envelope.of_bytes(reply).header) == {"of"}
        assert Envelope.of_bytes(reply).payload is None


def net_names(net):
    return [site.name for site in net.sites.values()]


def test_sites_that_do_not_take_the_result_are_named(finished):
    server, fits = finished
    server.net.fault = silent("s2")
    server.net.sites[3] = fc.Site("s3", [0.5, 0.6], [0, 1], n_classes=2)
    have = server.coordinator.inform({n: fit_message(f) for n, f in fits.items()}, facts())
    assert have == ["s0", "s1"]
    assert set(server.coordinator.missing) == {"s2", "s3"}
    assert "asked 2 time" in server.coordinator.missing["s2"]
    assert server.coordinator.missing["s3"] == CODES["query"][0]


def changed(message, key, value):
    arrays, numbers = dict(message.arrays), dict(message.numbers)
    (numbers if key in numbers else arrays)[key] = value
    return Message(message.kind, arrays, numbers)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("positions", np.full((2, 3), np.nan)),
        ("positions", np.full((2, 3), TOP + 1)),
        ("positions", np.full((2, 3), -1)),
        ("positions", np.full((2, 4), 1)),
        ("positions", np.full((2, 3), 1.0)),
        ("ratios", -np.ones(3)),
        ("records", np.ones(4)),
        ("total", float("nan")),
        ("available", 0),
        ("counted", -1),
    ],
)
def test_results_that_cannot_be_are_not_written(finished, key, value):
    server, fits = finished
    path = server.net.folder / "s0.json"
    bad = changed(fit_message(fits["s0"]), key, value)
    assert server.coordinator.inform({"s0": bad}, facts()) == []
    assert server.coordinator.missing == {"s0": CODES["query"][0]}
    assert not path.exists()


def words(text):
    return np.frombuffer(text.encode(), np.uint8)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("words", words("{")),
        ("words", words("[]")),
        ("words", words('{"error": 1, "alarms": []}')),
        ("words", words('{"error": ""}')),
        ("words", words('{"error": "", "alarms": ["\\u001b[2J"]}')),
        ("words", words('{"error": "' + "x" * (1 << 16) + '", "alarms": []}')),
        ("words", np.array([255, 254], np.uint8)),
        ("coverage_error", np.ones(3)),
        ("coverage_error", np.full(2, np.nan)),
        ("coverage_error", np.ones(2, np.int64)),
    ],
)
def test_what_a_method_says_of_a_fit_is_checked(finished, key, value):
    server, fits = finished
    assert (
        server.coordinator.inform({"s0": changed(fit_message(fits["s0"]), key, value)}, facts())
        == []
    )
    assert not (server.net.folder / "s0.json").exists()


def test_what_a_method_says_of_a_fit_reaches_the_site(finished):
    server, fits = finished
    said = {"error": "off by ≤ 2 %", "alarms": ("few records",), "coverage_error": np.ones(2) / 50}
    message = fit_message(replace(fits["s0"], **said))
    assert server.coordinator.inform({"s0": message}, facts()) == ["s0"]
    found = fc.Calibration.load(server.net.folder / "s0.json")
    assert found.guarantee.endswith("; off by ≤ 2 %")
    assert "target 's0': few records" in found.notes
    assert found.coverage_error.tolist() == [0.02, 0.02]


@pytest.mark.parametrize(
    "more",
    [
        {"method": "none"}, {"options": {"rounds": -1}}, {"options": {"x": 1}}, {"cost": {"x": 1}},
        {"cost": None}, {"n_sites": 0}, {"alphas": []}, {"alphas": [2.0]}, {"alphas": None},
        {"privacy": {"epsilon": 1}}, {"privacy": []},
    ],
)  # fmt: skip
def test_facts_that_cannot_be_are_not_written(finished, more):
    server, fits = finished
    assert server.coordinator.inform({"s0": fit_message(fits["s0"])}, facts(**more)) == []
    assert not (server.net.folder / "s0.json").exists()
    assert server.coordinator.missing == {"s0": CODES["query"][0]}


def test_that_a_site_fails_over_its_own_label_mix_does_not_show(tmp_path, monkeypatch):
    """A sketch made to fail for some label mixes would tell one bit of them each time."""
    net = Net(tmp_path)
    server = Server(net, privacy=SERVER_VIEW)
    sketch = SketchResult(table=server.go(), privacy=STATED, cost=COST, score=server.task.score)

    def fails(self, *counts, **more):
        raise ValueError("label 2")

    monkeypatch.setattr(SketchResult, "personalise", fails)
    assert server.coordinator.inform({"s0": sketch_message(sketch)}, {"alphas": [0.1]}) == ["s0"]
    assert "label 2" in net.log("s0")
    assert not (tmp_path / "s0.json").exists()
