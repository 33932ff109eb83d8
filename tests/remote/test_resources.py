"""What a server can make a site keep: a bounded number of files, names and replies."""

from __future__ import annotations

import os

import pytest

from fedcover.engines.remote import client_state
from fedcover.engines.remote.client_state import MOST_FILES
from fedcover.engines.remote.envelope import Envelope
from fedcover.securesum import SumSpec, state
from fedcover.securesum import client as sum_client
from fedcover.wire import Message
from tests.remote.federation import OPEN, SERVER_VIEW, SUMS, Net, Server, same
from tests.remote.test_policy import PRIVATE, code, hello, question, tell

PER_FILE = 4096
"""What a small file takes on the disk."""


def on_disk(folder):
    """Files, and the blocks they take."""
    sizes = [entry.stat().st_size for entry in os.scandir(folder)]
    return len(sizes), sum(-(-size // PER_FILE) * PER_FILE for size in sizes)


def letter(phase, run, header=None, payload=None):
    return Envelope(phase, run, 0, header or {}, payload).to_bytes()


def keys_query(net, run, number=0, sites=("s0", "s1", "s2", "s3")):
    """An invitation to a sum, as a server writes it."""
    terms = SumSpec(f"{run}/{number}/x", sites, {"table": (3, 4)}, question(SUMS), 3)
    return terms.to_message()


def flooded(net, times):
    """So many runs, each with a hello and an invitation to a sum; the codes of what was refused."""
    node, codes = net.node(0), set()
    said = {"method": "sketch", "privacy": {**PRIVATE, "view": "secure-sum"}}
    for k in range(times):
        for request in (
            letter("hello", f"run {k}", said),
            letter("sum", f"run {k}", None, keys_query(net, f"run {k}")),
        ):
            reply = Envelope.of_bytes(node.handle(request))
            if reply.phase == "refused":
                codes.add(reply.header["code"])
    return codes


def test_hellos_and_sums_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(client_state, "MOST_FILES", {"run": 20, "sum": 20, "reply": 20})
    monkeypatch.setattr(sum_client, "MOST_NAMES", 30)
    net = Net(tmp_path)
    assert flooded(net, 100) == {"agreement"}
    names = [path.name for path in (tmp_path / "s0").iterdir()]
    assert sum(name.startswith("run-") for name in names) <= 20
    kept = state.State.of_bytes((tmp_path / "s0/sums.bin").read_bytes())
    assert len(kept.used) == 30


def test_the_latest_run_is_not_the_one_that_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(client_state, "MOST_FILES", {"run": 20, "sum": 20, "reply": 20})
    net = Net(tmp_path)
    for k in range(50):
        assert hello(net, run=f"r{k}").phase == "hello"
        assert tell(net, "ask", f"r{k}", payload=question(SERVER_VIEW)).phase == "ask"
    assert code(tell(net, "ask", "r0", payload=question(SERVER_VIEW))) == "hello"
    hello(net, run="r0")  # the ledger has what the folder has forgotten
    assert tell(net, "ask", "r0", payload=question(SERVER_VIEW)).phase == "ask"
    assert net.answers()["s0"] == 50


def test_numbers_whose_guard_was_forgotten_are_not_summed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(client_state, "MOST_FILES", {"run": 20, "sum": 2, "reply": 20})
    net = Net(tmp_path)
    first = Server(net, run="one").go()
    assert same(first, Server(net, run="one").go())
    for k in range(3):
        Server(net, run=f"other {k}").go()
    before = net.answers()
    reply = None
    try:
        Server(net, run="one").go()
    except Exception as error:
        reply = str(error)
    assert reply is not None
    assert "does not agree" in reply
    assert "this site's memory knows nothing" in net.log("s0")
    assert net.answers() == before


def test_a_site_with_too_many_names_goes_on_after_its_memory_is_cleared(tmp_path, monkeypatch):
    """The operator's way out, which the refusal names; what was charged is not sent again."""
    monkeypatch.setattr(sum_client, "MOST_NAMES", 3)
    net = Net(tmp_path)
    for k in range(3):
        Server(net, run=f"{k}").go()
    with pytest.raises(Exception, match="does not agree"):
        Server(net, run="3").go()
    for name in net.ledgers:
        for path in (*(tmp_path / name).glob("sum-*.json"), tmp_path / name / "sums.bin"):
            path.unlink()
    before = net.answers()
    with pytest.raises(Exception, match="does not agree"):
        Server(net, run="0").go()
    assert net.answers() == before
    assert Server(net, run="3").go().sites == ("s0", "s1", "s2", "s3")


def test_kept_replies_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(client_state, "MOST_FILES", {"run": 20, "sum": 20, "reply": 20})
    net = Net(tmp_path, policy=OPEN)
    hello(net)
    for k in range(100):
        assert tell(net, "ask", number=k, payload=question(SERVER_VIEW)).phase == "ask"
    assert len(list((tmp_path / "s0").glob("reply-*"))) <= 20


def test_free_answers_do_not_fill_the_ledger(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcover.privacy.ledger.MOST_ANSWERS", 10)
    net = Net(tmp_path)
    hello(net)
    asked = question(SERVER_VIEW)
    loud = Message(asked.kind, asked.arrays, {**asked.numbers, "table_sigma": 1e12})
    found = [tell(net, "ask", number=k, payload=loud) for k in range(15)]
    assert [reply.phase for reply in found[:10]] == ["ask"] * 10
    assert {code(reply) for reply in found[10:]} == {"budget"}
    assert net.answers()["s0"] == 10


@pytest.mark.slow
def test_11000_hellos_and_sums_do_not_fill_the_disk(tmp_path):
    net = Net(tmp_path)
    assert sum_client.MOST_NAMES < 11_000
    assert flooded(net, 11_000) == {"agreement"}  # the sums, once there were too many
    files, size = on_disk(tmp_path / "s0")
    assert files < sum(MOST_FILES.values()) + 10
    assert size < 10 << 20
    assert (tmp_path / "s0.ledger").stat().st_size < 100_000
    assert "remove sums.bin and all sum-*.json" in net.log("s0")
