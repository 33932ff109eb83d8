"""A site between messages: stages in order, retries, and a state that is only bytes."""

from __future__ import annotations

import numpy as np
import pytest

from fedcover import securesum, wire
from fedcover.errors import FedcoverError
from fedcover.securesum.spec import VERSION
from fedcover.securesum.state import State
from fedcover.wire import Message
from tests.securesum.driving import STAGES, Federation, changed, identity_of


def test_a_retry_gets_the_same_reply_in_every_stage():
    sites = Federation(4)
    for stage in STAGES:
        query = sites.to(stage)["s1"]
        first = sites.answer("s1", query)
        state = sites.states["s1"]
        assert wire.encode(sites.answer("s1", query)) == wire.encode(first)
        assert sites.states["s1"] == state
    sites.run()
    sites.check(sites.names)


def test_a_retry_does_not_look_at_the_data_again():
    sites = Federation(4)
    query = sites.to("masked")["s1"]
    first = sites.answer("s1", query)
    sites.values["s1"] = {"x": np.zeros(5, dtype=np.int64)}
    assert wire.encode(sites.answer("s1", query)) == wire.encode(first)


NOT_DUE = [(n, one) for n in range(6) for one in STAGES[1:] if (*STAGES, "")[n] != one]


@pytest.mark.parametrize(("done", "asked"), NOT_DUE)
def test_only_the_stage_that_is_due_is_answered(done, asked):
    """All other stages are refused: earlier ones, later ones, and any before or after the run."""
    sites, other = Federation(4), Federation(4)
    while sites.result is None and STAGES.index(sites.stage) < done:
        sites.step()
    query = other.to(asked, absent={"keys": ["s3"]})["s0"]  # not a retry: its bytes are others
    before = sites.states["s0"]
    with pytest.raises(FedcoverError, match=f"stage '{asked}'"):
        sites.answer("s0", query)
    assert sites.states["s0"] == before


@pytest.mark.parametrize("stage", STAGES[1:])
def test_queries_of_another_run_are_refused(stage):
    sites, other = Federation(4, run="november"), Federation(4, run="december")
    sites.to(stage)
    with pytest.raises(FedcoverError, match="another run"):
        sites.answer("s0", other.to(stage)["s0"])


def test_a_run_has_its_name_once():
    sites = Federation(4)
    sites.run()
    query = sites.spec.to_message()
    with pytest.raises(FedcoverError, match="'november' was started"):
        sites.answer("s0", query)
    later = securesum.SumSpec("december", sites.names, {"x": (5,)})
    sites.answer("s0", later.to_message())
    sites.answer("s0", later.to_message())  # a retry
    for again in ("november", "december"):
        other = securesum.SumSpec(again, sites.names, {"x": (6,)}).to_message()
        with pytest.raises(FedcoverError, match=f"'{again}' was started"):
            sites.answer("s0", other)


def test_a_new_run_gives_up_an_unfinished_one():
    sites = Federation(4)
    query = sites.to("agree")["s0"]
    sites.answer("s0", securesum.SumSpec("december", sites.names, {"x": (5,)}).to_message())
    with pytest.raises(FedcoverError, match="stage 'agree'"):
        sites.answer("s0", query)


def test_many_runs_one_after_the_other():
    states = None
    for run in ("november", "december", "january"):
        sites = Federation(3, run=run)
        sites.states = states or sites.states
        sites.run()
        sites.check(sites.names)
        states = sites.states


@pytest.mark.parametrize("done", range(1, 6))
def test_the_state_round_trips_after_every_stage(done):
    sites = Federation(4)
    for _ in range(done):
        sites.step(absent={"masked": ["s3"]})
    for name in ("s0", "s1", "s2"):
        data = sites.states[name]
        state = State.of_bytes(data)
        assert state.to_bytes() == data
        assert State.of_bytes(state.to_bytes()) == state
        assert state.answered == done


def test_secrets_are_forgotten_as_soon_as_they_can_be():
    sites = Federation(4)
    sites.to("masked")
    early = State.of_bytes(sites.states["s0"])
    secrets = [early.mask_key, early.share_key, early.seed]
    assert all(len(secret) == 32 and secret in sites.states["s0"] for secret in secrets)
    sites.step()
    assert not any(secret in sites.states["s0"] for secret in secrets)
    held = State.of_bytes(sites.states["s0"]).held
    assert len(held) == 4
    sites.run()
    late = State.of_bytes(sites.states["s0"])
    assert (late.spec, late.held, late.advertised, late.survivors) == (None, {}, {}, ())
    for shares in held.values():  # of each site the seed was opened, and the key is gone
        assert shares[32:] not in sites.states["s0"]


def test_no_secret_is_in_any_message_before_the_last_stage():
    sites = Federation(4)
    sites.to("masked")
    known = [State.of_bytes(s) for s in sites.states.values()]
    secrets = [s for k in known for s in (k.mask_key, k.share_key, k.seed)]
    sites.to("unmask")
    sent = [wire.encode(reply) for reply in sites.heard.values()]
    assert not any(secret in text for secret in secrets for text in sent)
    sites.run()
    sent = [wire.encode(reply) for reply in sites.heard.values()]
    assert not any(secret in text for secret in secrets for text in sent)


def test_keys_are_fresh_in_every_run():
    advertised = set()
    for run in ("november", "december"):
        sites = Federation(3, run=run)
        sites.step()
        for name in sites.names:
            keys = sites.heard["keys", name].arrays["card"].tobytes()
            advertised |= {keys[:32], keys[32:64], keys[64:96]}
    assert len(advertised) == 2 * 3 * 3


@pytest.mark.parametrize("damage", ["cut", "empty", "message", "version", "noise", "missing"])
def test_a_state_that_cannot_be_read_is_refused(damage):
    sites = Federation(3)
    sites.step()
    good = sites.states["s0"]
    state = wire.decode(good)
    sites.states["s0"] = {
        "cut": good[:-1],
        "empty": b"",
        "message": wire.encode(sites.spec.to_message()),
        "version": wire.encode(changed(state, version=VERSION + 1)),
        "noise": bytes(range(256)),
        "missing": wire.encode(changed(state, {"seed": None})),
    }[damage]
    with pytest.raises(FedcoverError, match=r"state .* cannot be read"):
        sites.answer("s0", sites.queries["s0"])


@pytest.mark.parametrize("version", [0, 1, VERSION + 1, float(VERSION), None])
@pytest.mark.parametrize("stage", STAGES)
def test_queries_of_another_version_are_refused_with_what_to_do(stage, version):
    sites = Federation(3)
    query = sites.to(stage)["s0"]
    numbers = {k: v for k, v in query.numbers.items() if k != "version"}
    numbers |= {} if version is None else {"version": version}
    with pytest.raises(FedcoverError, match="version"):
        sites.answer("s0", Message(query.kind, query.arrays, numbers))


@pytest.mark.parametrize("kind", ["keys", "secure-sum/", "secure-sum/sum", "counts", ""])
def test_other_kinds_of_messages_are_refused(kind):
    sites = Federation(3)
    with pytest.raises(FedcoverError, match="of no stage"):
        sites.answer("s0", Message(kind, {}, {"version": VERSION}))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"x": np.zeros(4, dtype=np.int64)},
        {"x": np.zeros((5, 1), dtype=np.int64)},
        {"x": np.zeros(5)},
        {"x": np.zeros(5, dtype=bool)},
        {"x": np.zeros(5, dtype=np.int64), "y": np.zeros(1, dtype=np.int64)},
    ],
)
def test_a_contribution_that_does_not_fit_is_refused(values):
    sites = Federation(3)
    query = sites.to("masked")["s0"]
    good, sites.values["s0"] = sites.values["s0"], values
    before = sites.states["s0"]
    with pytest.raises(FedcoverError, match="the contribution"):
        sites.answer("s0", query)
    assert sites.states["s0"] == before
    sites.values["s0"] = good
    sites.run()
    sites.check(sites.names)


def test_the_contribution_is_asked_for_with_what_the_run_is_about():
    """The site can look at the query, the number of sites and the threshold, and refuse."""
    sites = Federation(4, query=Message("histogram", {"cuts": np.arange(3.0)}, {"sigma": 2.5}))
    query = sites.to("masked")["s0"]
    told = []

    def contribute(spec):
        told.append(spec)
        return Message("sum", sites.values["s0"])

    site = securesum.Participant("s0", identity_of("s0"), sites.roster)
    site.answer(query, sites.states["s0"], contribute)
    (spec,) = told
    assert (spec.run, spec.sites, spec.threshold) == ("november", sites.names, 3)
    assert spec.shapes == {"x": (5,)}
    assert spec.query.numbers == {"sigma": 2.5}
    assert spec.query.arrays["cuts"].tolist() == [0, 1, 2]


def test_errors_hold_no_data_and_no_secrets():
    sites = Federation(3)
    sites.values["s0"] = {"x": np.full(5, 987654321.5)}
    query = sites.to("masked")["s0"]
    with pytest.raises(FedcoverError) as e:
        sites.answer("s0", query)
    assert "98765" not in str(e.value)


def test_a_participant_stands_in_its_own_roster():
    sites = Federation(3)
    for name, roster in (
        ("s0", {n: k for n, k in sites.roster.items() if n != "s0"}),
        ("s0", sites.roster | {"s0": sites.roster["s1"]}),
        ("eve", sites.roster),
    ):
        with pytest.raises(FedcoverError, match="roster's key of"):
            securesum.Participant(name, identity_of("s0"), roster)
