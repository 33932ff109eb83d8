"""What a site keeps: on its disk before a reply leaves, for its own user only, and not for ever."""

from __future__ import annotations

import os
import stat
import threading

import pytest

import fedcover as fc
from fedcover.engines.remote import client_state as memory_module
from fedcover.engines.remote.client import guarded
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.envelope import Envelope
from tests.remote.federation import BUDGET, SUMS, Net, Server, kind, same


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path, budget=BUDGET)


def modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_only_the_sites_own_user_may_read_its_folder_whatever_the_umask(tmp_path, monkeypatch):
    before = os.umask(0)
    try:
        (tmp_path / "s0").mkdir(mode=0o777)
        net = Net(tmp_path)
        Server(net).go()
        net.node(0).handle(b"something for the log")
    finally:
        os.umask(before)
    folder = tmp_path / "s0"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found = modes(folder)
    assert {"lock", "log.txt", "site.json", "sums.bin"} < set(found)
    assert set(found.values()) == {0o600}
    assert not any(name.endswith(".part") for name in found)


def test_files_and_their_names_reach_the_disk(tmp_path, monkeypatch):
    done = []

    def fsync(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")

    monkeypatch.setattr(os, "fsync", fsync)
    ClientState(tmp_path / "m").agree("r", {"method": "sketch"})
    assert done == ["file", "folder"]


def letters_of_a_sum(net):
    """The envelopes that s0 gets in a secure sum, in order."""
    Server(net).go()
    return [one.to_bytes() for name, one, _ in net.heard if name == "s0" and one.phase == "sum"]


@pytest.mark.parametrize("stage", ["keys", "shares", "masked", "agree", "unmask"])
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_nothing_leaves_before_the_state_is_on_the_disk(tmp_path, monkeypatch, stage, call):
    """The disk fails at one of the calls of a stage: a code leaves, and the resend is answered."""
    net = Net(tmp_path)
    failed, calls = [], []

    def fault(name, envelope, answer):
        if (name, kind(envelope)) != ("s0", stage) or failed:
            return answer()
        failed.append(None)
        with monkeypatch.context() as disk:

            def fsync(handle):
                calls.append(handle)
                if len(calls) == call:
                    raise OSError(28, "No space left on device")

            disk.setattr(os, "fsync", fsync)
            reply = Envelope.of_bytes(answer())
        if len(calls) < call:  # this stage writes less
            return reply.to_bytes()
        assert (reply.phase, reply.header["code"], reply.payload) == ("refused", "internal", None)
        return None

    net.fault = fault
    assert Server(net).go().sites == ("s0", "s1", "s2", "s3")
    assert len(calls) >= min(call, 2)


def test_the_guard_is_there_before_the_charge_and_the_charge_before_the_numbers(net, monkeypatch):
    order = []
    for where, name in (("ClientState", "keep_summed"), ("ClientState", "keep_sum_state")):
        real = getattr(memory_module.ClientState, name)

        def spied(self, *facts, real=real, name=name):
            order.append(name)
            return real(self, *facts)

        monkeypatch.setattr(f"fedcover.engines.remote.client_state.{where}.{name}", spied)
    real_answer = fc.privacy.Ledger.answer

    def charged(self, *facts):
        order.append("charge")
        return real_answer(self, *facts)

    monkeypatch.setattr(fc.privacy.Ledger, "answer", charged)

    def fault(name, envelope, answer):
        order.clear()
        reply = answer()
        if kind(envelope) == "masked":
            assert order == ["keep_summed", "charge", "keep_sum_state"]
        if kind(envelope) == "agree":
            assert order == ["keep_summed", "keep_sum_state"]
        return reply

    net.fault = fault
    Server(net).go()


def test_a_resent_letter_waits_for_the_first(net, monkeypatch):
    """Two processes of one site: the second gets the same reply, and one charge is made."""
    captured = []
    real = fc.methods.Sketch.answer
    going, free = threading.Event(), threading.Event()

    def slow(self, query, site):
        going.set()
        assert free.wait(10)
        return real(self, query, site)

    def fault(name, envelope, answer):
        if (name, kind(envelope)) != ("s0", "masked"):
            return answer()
        monkeypatch.setattr(fc.methods.Sketch, "answer", slow)
        threads = [threading.Thread(target=lambda: captured.append(answer())) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert going.wait(10)
        free.set()
        for thread in threads:
            thread.join()
        monkeypatch.setattr(fc.methods.Sketch, "answer", real)
        return captured[0]

    net.fault = fault
    first = Server(net).go()
    assert len(set(captured)) == 1
    assert net.answers() == dict.fromkeys(net.ledgers, 1)
    net.fault = None
    assert same(first, Server(net).go())


def test_a_folder_serves_one_site(net, monkeypatch):
    Server(net).go()
    mine = net.node(0)
    other = net.node(1)
    wrong = type(other)(other.site, mine.state, other.policy)
    hello = Envelope("hello", "r", 0, {"method": "sketch", "privacy": vars(SUMS)}).to_bytes()
    assert Envelope.of_bytes(wrong.handle(hello)).header["code"] == "data"
    assert "is that of site 's0', not of 's1'" in net.log("s0")


@pytest.mark.parametrize("name", ["run-*.json", "site.json", "sums.bin", "sum-*.json"])
@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b"\xff\xff"])
def test_damaged_memory_answers_nothing(tmp_path, name, damage):
    net = Net(tmp_path)

    def fault(one, envelope, answer):
        if (one, kind(envelope)) == ("s0", "agree"):
            (path,) = (tmp_path / "s0").glob(name)
            path.write_bytes(damage)
        return answer()

    net.fault = fault
    server = Server(net)
    assert len(server.go().sites) == 4  # its numbers had left; the others open the sum
    assert server.coordinator.missing == {"s0": "did not answer the stage 'agree'"}
    reply = next(r for n, one, r in net.heard if n == "s0" and kind(one) == "agree")
    assert Envelope.of_bytes(reply).header["code"] in ("data", "agreement")


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(fc.errors.FileError, match="cannot be made and closed to others"):
        ClientState(tmp_path / "file" / "state")


def test_the_log_does_not_grow_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_module, "MOST_LOG", 5000)
    monkeypatch.setattr(memory_module, "MOST_LINE", 1000)
    memory = ClientState(tmp_path / "m")
    for k in range(200):
        memory.log(f"{k} " + "x" * 10**6)
    memory.log("the last \ud800")
    files = {path.name: path.stat().st_size for path in memory.folder.iterdir()}
    assert set(files) == {"log.txt", "log.1.txt"}
    assert max(files.values()) < 7000
    assert "the last \\ud800" in (memory.folder / "log.txt").read_text()


def test_a_server_cannot_write_lines_of_its_own_into_the_log(net):
    facts = {"method": "sketch", "privacy": {**vars(SUMS), "unit": "x\n2026-01-01 all is well"}}
    net.node(0).handle(Envelope("hello", "r", 0, facts).to_bytes())
    assert len(net.log("s0").splitlines()) == 1

    def answer(envelope):
        raise fc.FedcoverError("one\ntwo\rthree", allowed="four", fix="Five")

    guarded(Envelope("ask", "r").to_bytes(), net.node(0).state, answer)
    assert len(net.log("s0").splitlines()) == 2

    def fail(envelope):
        raise ValueError("\x1b[2J\u202e one\n2026-01-01T00:00:00 all is well")

    guarded(Envelope("ask", "r").to_bytes(), net.node(0).state, fail)
    lines = net.log("s0").splitlines()
    assert all(line.isprintable() for line in lines)
    assert "2026-01-01T00:00:00 all is well" in net.log("s0")
    assert not any(line.startswith("2026-01-01") for line in lines)
