"""A ledger that was put back to an older copy: the server remembers, and so the site refuses."""

from __future__ import annotations

import json
import shutil
import stat

import pytest

import fedcover as fc
from fedcover.engines.remote import heads as heads_module
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.heads import LedgerHeads
from fedcover.errors import FileError
from fedcover.privacy.events import GaussianRelease
from fedcover.privacy.ledger import Ledger
from fedcover.wire import Message
from tests.remote.federation import OPEN, SERVER_VIEW, SUMS, Net, coordinator, made, with_facts

EVENT = GaussianRelease("x", 9.0, 1.0)


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path / "net", made(4, [200] * 4))


@pytest.fixture
def heads(tmp_path):
    return LedgerHeads(tmp_path / "runs" / "ledger-heads.json")


def collect(net, heads, run, privacy=SERVER_VIEW, **more):
    engine = coordinator(net, run=run, heads=heads and heads.path, **more)
    fc.collect(method=fc.methods.Sketch(bins=(0.0, 0.5, 1.0)), privacy=privacy, engine=engine)
    return engine


def spend(net, name, query):
    """The site answers somebody else."""
    ledger = Ledger(net.ledgers[name])
    ledger.answer(query, Message("q"), (EVENT,), lambda: Message("m"))


def put_back(net, name, copy):
    shutil.copy(copy, net.ledgers[name])


def now(net, name):
    state = Ledger(net.ledgers[name]).state()
    return len(state.entries), state.head


@pytest.fixture
def copy(net, tmp_path):
    """The ledger of s0 as it was before the first run."""
    return shutil.copy(net.ledgers["s0"], tmp_path / "older")


@pytest.mark.parametrize("privacy", [SERVER_VIEW, SUMS])
def test_the_heads_after_a_run_are_kept_and_the_next_run_goes_on(net, heads, privacy):
    first = collect(net, heads, "one", privacy)
    assert first.first_met == sorted(net.ledgers)
    assert heads.known() == {name: now(net, name) for name in net.ledgers}
    assert stat.S_IMODE(heads.path.stat().st_mode) == 0o600
    spend(net, "s1", "somebody else's")
    second = collect(net, heads, "two", privacy)
    assert second.first_met == []
    assert second.informed == first.informed == sorted(net.ledgers)
    assert heads.known() == {name: now(net, name) for name in net.ledgers}


def test_a_ledger_put_back_is_left_out_at_hello(net, heads, copy):
    collect(net, heads, "one")
    known = heads.known()
    put_back(net, "s0", copy)
    with pytest.raises(fc.FedcoverError, match="s0 has a ledger that is older"):
        collect(net, heads, "two")
    assert heads.known() == known
    collect(net, None, "three")  # a server that keeps nothing notices nothing


def test_another_ledger_of_the_same_length_is_left_out(net, heads, copy):
    collect(net, heads, "one")
    put_back(net, "s0", copy)
    while now(net, "s0")[0] < heads.known()["s0"][0]:
        spend(net, "s0", f"{now(net, 's0')}")
    with pytest.raises(fc.FedcoverError, match="s0 has a ledger that is older"):
        collect(net, heads, "two")


def test_a_longer_ledger_that_was_never_there_is_refused_by_the_site_itself(net, heads, copy):
    collect(net, heads, "one")
    known = heads.known()
    put_back(net, "s0", copy)
    for k in range(5):
        spend(net, "s0", f"other {k}")
    answers = net.answers()["s0"]
    with pytest.raises(fc.FedcoverError, match=r"'s0' has a ledger .*\(code 'ledger'\)"):
        collect(net, heads, "two")
    assert heads.known()["s0"] == known["s0"]
    assert net.answers()["s0"] == answers
    assert "knows this site's ledger with" in net.log("s0")


def test_a_site_that_shows_no_ledger_any_more_is_left_out(net, heads):
    collect(net, heads, "one")
    net.fault = lambda name, envelope, answer: (
        with_facts(answer(), ledger=None) if name == "s2" else answer()
    )
    with pytest.raises(fc.FedcoverError, match="s2 has a ledger that is older"):
        collect(net, heads, "two")


def test_a_ledger_put_back_in_the_middle_of_a_run_is_refused(net, heads, copy):
    def fault(name, envelope, answer):
        if (name, envelope.phase) == ("s0", "finish"):
            put_back(net, "s0", copy)
        return answer()

    net.fault = fault
    engine = collect(net, heads, "one")
    assert engine.informed == ["s1", "s2", "s3"]
    assert "older" in engine.missing["s0"]


def test_a_server_that_lies_about_the_head_gets_refusals_and_nothing_else(net, heads):
    collect(net, heads, "one")
    before = net.heads()
    count, head = now(net, "s0")
    for lie in ([count, "0" * 64], [count + 1, head], [count - 1, head], [10**9, head]):
        hello = Envelope("hello", "r", 0, {"method": "sketch", "privacy": None, "ledger": lie})
        reply = Envelope.of_bytes(net.node(0).handle(hello.to_bytes()))
        assert (reply.phase, reply.header["code"]) == ("refused", "ledger")
        assert set(reply.header) == {"code", "of"}
    assert net.heads() == before


def test_a_server_that_lost_its_file_begins_anew_and_says_so(net, heads, copy):
    collect(net, heads, "one")
    heads.path.unlink()
    put_back(net, "s0", copy)
    engine = collect(net, heads, "two")
    assert engine.first_met == sorted(net.ledgers)


@pytest.mark.parametrize("text", ["", "[]", '{"s0": 3}', '{"s0": [1, "x"]}', '{"s0": [true, "x"]}'])
def test_a_damaged_file_is_one_clear_error_before_anything_is_asked(net, heads, text):
    collect(net, heads, "one")
    heads.path.write_text(text)
    before, net.heard = net.heads(), []
    with pytest.raises(FileError, match="begins anew"):
        collect(net, heads, "two")
    assert (net.heads(), net.heard) == (before, [])


def test_sites_without_ledgers_and_servers_that_do_not_ask(tmp_path, heads):
    open_net = Net(tmp_path / "open", made(3), policy=OPEN)
    assert collect(open_net, heads, "one", None).first_met == []
    assert heads.known() == {}
    net = Net(tmp_path / "net", made(3, [200] * 3))
    collect(net, None, "one")
    for _, envelope, reply in net.heard:
        assert "ledger" not in envelope.header
        assert "ledger" not in Envelope.of_bytes(reply).header


def test_of_two_runs_at_once_the_later_head_stays(heads):
    heads.keep({"a": (3, "3" * 64), "b": (1, "1" * 64)})
    heads.keep({"a": (2, "9" * 64), "b": (1, "9" * 64)})
    assert heads.known() == {"a": (3, "3" * 64), "b": (1, "1" * 64)}
    assert json.loads(heads.path.read_text())["a"] == [3, "3" * 64]


@pytest.mark.parametrize("told", [None, 3, [1], [1, 2], [True, "a" * 64], [0, "a" * 64], ["1", "a"],
                                  [1, "a"], {"1": 2}])  # fmt: skip
def test_heads_that_cannot_be_are_none(told):
    assert heads_module.head_of({"ledger": told}) is None
    assert heads_module.head_of({}) is None
