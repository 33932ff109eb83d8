"""Sites that raise, die, are slow, lie, or answer something else: what the server makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import fedcover as fc
from fedcover.engines.remote.coordinator import Coordinator
from fedcover.engines.remote.envelope import Envelope, digest
from fedcover.engines.remote.transport import RetryPolicy
from fedcover.methods.base import Task
from fedcover.wire import Message
from tests.remote.federation import (
    OPEN,
    SERVER_VIEW,
    Net,
    Server,
    array,
    kind,
    lying,
    silent,
)

DPFEDCP = fc.methods.DPFedCP(rounds=3, solver="averaging", start=0.5)


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path, policy=OPEN)


def exact(net, **more):
    return Server(net, **{"privacy": None, **more})


def dp_fedcp(net, **more):
    return exact(net, **{"method": DPFEDCP, **more})


def test_the_rounds_of_a_method_are_those_of_the_in_process_engine(net):
    for server in (dp_fedcp(net), dp_fedcp(net, method=fc.methods.DPFedCP())):
        fits = server.go()
        sites = list(net.sites.values())
        wanted = fc.calibrate(sites, (0.1, 0.2), server.method, seed=0)
        for name, fit in fits.items():
            assert np.array_equal(fit.thresholds, wanted[name].thresholds)
        assert server.coordinator.traffic.rounds == wanted["s0"].cost.rounds


def test_a_site_that_raises_is_named_and_its_words_stay_at_home(net, monkeypatch):
    def broken(query, site, *source):
        if site.name == "s2":
            raise RuntimeError("patient 4711")
        return real(query, site, *source)

    real = fc.methods.DPFedCP.answer
    monkeypatch.setattr(fc.methods.DPFedCP, "answer", broken)
    with pytest.raises(fc.FedcoverError) as found:
        dp_fedcp(net).go()
    assert "'s2' failed (code 'internal')" in str(found.value)
    assert "4711" not in str(found.value)
    assert "patient 4711" in net.log("s2")
    assert not any(b"4711" in reply for _, _, reply in net.heard)


def test_a_site_that_is_dead_is_asked_again_and_then_named(net):
    net.fault = silent("s1", stage="steps")
    with pytest.raises(fc.FedcoverError, match=r"'s1' .* round 3 within 0\.01 s, asked 3 time"):
        dp_fedcp(net, resends=2).go()
    assert [n for n, one in net.asked("steps")] == ["s0", "s2", "s3"]  # nobody else was asked twice


@pytest.mark.parametrize("late", ["the first reply", "a second one"])
def test_a_slow_site_answers_the_letter_that_is_sent_again(net, late):
    kept = {}

    def slow(name, envelope, answer):
        if name != "s1":
            return answer()
        sent = envelope.to_bytes()
        if sent not in kept:
            kept[sent] = answer()
            return None
        return kept[sent] if late == "the first reply" else answer()

    net.fault = slow
    fits = dp_fedcp(net).go()
    net.fault = None
    again = dp_fedcp(net).go()
    assert np.array_equal(fits["s1"].thresholds, again["s1"].thresholds)


def test_the_time_of_a_stage_is_what_was_asked_for(net):
    waited = []

    class Timed(Net):
        def exchange(self, envelopes, seconds):
            waited.append(seconds)
            return {}

    timed = Timed(net.folder, policy=OPEN)
    with pytest.raises(fc.FedcoverError, match=r"0 sites .* node 0 .* within 7\.5 s"):
        Coordinator(timed, "r", RetryPolicy(7.5, 3, 4)).hello("sketch", None)
    assert waited == [7.5] * 4


def test_fewer_sites_than_the_quorum_end_the_run_and_as_many_begin_it(net):
    net.fault = silent("s1", "s3")
    with pytest.raises(fc.FedcoverError, match=r"2 sites .* at least 3"):
        exact(net, quorum=3).go()
    assert not net.asked("ask")
    net.fault = silent("s1", "s3")
    server = exact(net, quorum=2)
    assert server.go().sites == ("s0", "s2")
    assert set(server.coordinator.missing) == {"node 1", "node 3"}
    assert all("asked 2 time" in why for why in server.coordinator.missing.values())


def test_nodes_that_connect_late_are_waited_for(net, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: found.append(4))
    found = []
    net.nodes = lambda: [0, 1, 2, 3][: 2 + len(found)]
    assert len(exact(net).go().sites) == 4
    net.nodes, ticks = lambda: [0], iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: next(ticks))
    with pytest.raises(fc.FedcoverError, match="1 sites are there"):
        exact(net).go()


def of_an_earlier_round(net, name, envelope, reply):
    return next(r for n, one, r in net.heard if n == name and one.number == envelope.number - 1)


def of_another_run(net, name, envelope, reply):
    found = Envelope.of_bytes(reply)
    sent = Envelope("ask", "october", envelope.number, {}, envelope.payload).to_bytes()
    facts = {"of": digest(sent)}
    return Envelope("ask", "october", found.number, facts, found.payload).to_bytes()


def of_another_run_that_says_it_is_of_this_letter(net, name, envelope, reply):
    return reply.replace(b"november", b"october!")


def of_another_letter(net, name, envelope, reply):
    """Of the same round of a run of the same name that asked for something else there."""
    query = envelope.payload
    body = Message(query.kind, query.arrays, {**query.numbers, "step": 0.5})
    other = Envelope("ask", envelope.run, envelope.number, {}, body)
    return net.node(1).handle(other.to_bytes())


def of_another_stage(net, name, envelope, reply):
    return reply.replace(b'"stage": "ask"', b'"stage": "sum"')


def without_a_message(net, name, envelope, reply):
    return Envelope(
        "ask", envelope.run, envelope.number, Envelope.of_bytes(reply).header
    ).to_bytes()


def cut_off(net, name, envelope, reply):
    return reply[:-1]


def empty(net, name, envelope, reply):
    return b""


STALE = [
    of_an_earlier_round,
    of_another_run,
    of_another_run_that_says_it_is_of_this_letter,
    of_another_letter,
    of_another_stage,
    without_a_message,
    cut_off,
    empty,
]


@pytest.mark.parametrize("stale", STALE)
@pytest.mark.parametrize("once", [True, False])
def test_a_reply_of_something_else_is_none(net, stale, once):
    wanted = dp_fedcp(net).go()
    net.heard.clear()
    used = []

    def fault(name, envelope, answer):
        reply = answer()
        if (name, kind(envelope), envelope.number) != ("s1", "steps", 3) or (once and used):
            return reply
        used.append(envelope)
        wrong = stale(net, name, envelope, reply)
        assert wrong != reply
        return wrong

    net.fault = fault
    if once:
        fits = dp_fedcp(net).go()
        assert np.array_equal(fits["s1"].thresholds, wanted["s1"].thresholds)
    else:
        with pytest.raises(fc.FedcoverError, match=r"'s1' .* round 4 "):
            dp_fedcp(net).go()
    assert used


def test_a_reply_to_the_same_letter_from_another_site_is_that_site_lying(net):
    """All sites get the same envelope in this round, so nothing in a reply says whose it is."""
    net.fault = lambda name, envelope, answer: (
        answer() if name != "s1" or envelope.phase == "hello" else net.heard[-1][2]
    )
    with pytest.raises(fc.FedcoverError, match="'s1' answered"):
        exact(net).go()  # its declared number of records gives it away


LIES = {
    "NaN": (dp_fedcp, array("move", lambda a: np.full(a.shape, np.nan))),
    "wrong shape": (dp_fedcp, array("move", lambda a: a[..., :-1])),
    "wrong label count": (dp_fedcp, array("label_counts", lambda a: np.append(a, 1))),
    "negative counts": (dp_fedcp, array("label_counts", lambda a: -a)),
    "a float table": (exact, array("table", lambda a: a.astype(float))),
    "counts above its size": (exact, array("table", lambda a: a + 1)),
    "counts below its size": (exact, array("labels", lambda a: a * 0)),
    "another kind of array": (exact, lambda m: Message(m.kind, {"x": np.zeros(3)})),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_site_that_answers_what_cannot_be_is_named(net, lie):
    run, change = LIES[lie]
    net.fault = lying("s1", change)
    with pytest.raises(fc.FedcoverError, match=r"site 's1' answered .* cannot be"):
        run(net).go()


@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a * 1.0, lambda a: a[None]])
def test_in_a_sum_that_the_server_adds_up_itself_too(net, change):
    net.fault = lying("s1", array("table", change))
    server = Server(net, secure=False)
    with pytest.raises(fc.FedcoverError, match="site 's1' answered 'table' with something"):
        server.go()
    net.fault = None
    assert server.go().sites == ("s0", "s1", "s2", "s3")


def test_a_protocol_that_trips_over_replies_says_so_and_its_own_faults_are_shown(net, monkeypatch):
    def server(self, task: Task):
        yield dict.fromkeys(task.sites, Message("counts", numbers={"count_noise": 0.0}))
        raise ZeroDivisionError("x")

    monkeypatch.setattr(fc.methods.DPFedCP, "server", server)
    with pytest.raises(fc.FedcoverError, match=r"round 1 .*ZeroDivision"):
        dp_fedcp(net).go()
    monkeypatch.setattr(fc.methods.DPFedCP, "server", lambda self, task: iter([1 / 0]))
    with pytest.raises(ZeroDivisionError):
        dp_fedcp(net).go()


def test_a_private_run_survives_resends_in_every_stage(tmp_path):
    net = Net(tmp_path)
    lost = set()

    def fault(name, envelope, answer):
        reply = answer()
        if (name, envelope.phase, kind(envelope)) in lost:
            return reply
        lost.add((name, envelope.phase, kind(envelope)))
        return None

    net.fault = fault
    assert Server(net, privacy=SERVER_VIEW).go().sites == ("s0", "s1", "s2", "s3")
