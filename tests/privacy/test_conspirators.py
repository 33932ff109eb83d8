"""Conspirators in a budget: what may be asked for, what is stated, and what is charged."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import fedcover as fc
from fedcover._io.facts import facts_of, made_of
from fedcover.methods.dp_fedcp.algorithm1 import AlgorithmOne
from fedcover.privacy import Budget, Ledger, epsilon
from fedcover.privacy.statement import PrivacyStatement, compose_parallel, compose_sequential
from tests.test_cli import run, said

SUMS = fc.Privacy(4.0, 1e-5, view="secure-sum")


def against(conspirators):
    return replace(SUMS, conspirators=conspirators)


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(0)
    return [
        fc.Site(f"s{k}", rng.random(2000), rng.integers(0, 3, 2000), n_classes=3) for k in range(5)
    ]


def test_a_number_is_only_for_secure_sums():
    for number in (0, 2):
        with pytest.raises(fc.FedcoverError, match="any number of the others may conspire"):
            fc.Privacy(4.0, 1e-5, conspirators=number)
    assert fc.Privacy(4.0, 1e-5, conspirators=1) == fc.Privacy(4.0, 1e-5)
    for wrong in (-1, 1.0, "1", True, None):
        with pytest.raises(fc.FedcoverError, match="conspirators"):
            fc.Privacy(4.0, 1e-5, view="secure-sum", conspirators=wrong)


def test_the_noise_grows_with_the_conspirators_and_the_budget_is_spent_all_the_same(sites):
    """Of five shares 5 - c must do: the sum has 5/(5 - c) of the noise for c = 0."""
    sketches = [fc.collect(sites, privacy=against(c)) for c in range(6)]
    noise = [s.table.label_noise[0] for s in sketches]
    wanted = [5 / max(1, 5 - c) for c in range(6)]
    assert np.array(noise) / noise[0] == pytest.approx(wanted)
    for c, sketch in enumerate(sketches):
        assert sketch.privacy.conspirators == c
        assert sketch.privacy.epsilon == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize("conspirators", [0, 1, 3])
def test_ledgers_of_this_process_are_charged_what_is_stated(tmp_path, sites, conspirators):
    ledgers = {s.name: Ledger(tmp_path / f"{s.name}.db", create=Budget(4.0, 1e-5)) for s in sites}
    engine = fc.engines.InProcess(ledgers=ledgers, run_name="november")
    sketch = fc.collect(sites, privacy=against(conspirators), engine=engine)
    for ledger in ledgers.values():
        spent = epsilon(ledger.state().events, 1e-5)
        assert spent == pytest.approx(sketch.privacy.epsilon, rel=1e-9)


def test_a_statement_says_what_a_viewer_may_know(sites):
    words = [fc.collect(sites, privacy=against(c)).privacy.describe() for c in range(3)]
    assert "not against a site, which knows its own share of the noise" in words[0]
    assert "no more than one site's share of the noise" in words[1]
    assert "no more than 2 sites' shares of the noise" in words[2]
    assert len({word.split("against")[1].split(":")[0] for word in words}) == 3


def test_budgets_against_different_numbers_do_not_add_up(sites):
    one, two = (fc.collect(sites[k : k + 2], privacy=against(k)) for k in (1, 3))
    with pytest.raises(fc.FedcoverError, match=r"privacy\.conspirators"):
        _ = one + two
    with pytest.raises(fc.FedcoverError, match="conspirators"):
        compose_sequential(one.privacy, two.privacy)
    with pytest.raises(fc.FedcoverError, match="conspirators"):
        compose_parallel(one.privacy, two.privacy)


def test_files_without_a_number_speak_of_one(tmp_path, sites):
    """What was written before, when there was one and no number."""
    path = tmp_path / "c.json"
    cal = fc.collect(sites, privacy=against(2)).personalise(sites[0].label_counts)
    cal.save(path)
    assert fc.Calibration.load(path).privacy == cal.privacy
    facts = facts_of(cal.privacy)
    assert facts.pop("conspirators") == 2
    assert made_of(PrivacyStatement, facts) == replace(cal.privacy, conspirators=1)


def test_conspirators_take_their_noise_off_the_sums_of_algorithm_1():
    """λ-weighted noise of the sites that are left; those of largest weight conspire."""
    mixture = (0.1, 0.2, 0.3, 0.4)
    for conspirators, left in ((0, mixture), (1, (0.1, 0.2, 0.4)), (2, (0.1, 0.4)), (3, (0.4,)),
                               (9, (0.4,))):  # fmt: skip
        case = AlgorithmOne(10.0, mixture, 3, 2, conspirators=conspirators)
        (event,) = case.secure_sum_events()
        assert event.sigma == pytest.approx(10 * math.hypot(*left))
        assert event.sensitivity == pytest.approx(0.4)
        assert case.server_events() == AlgorithmOne(10.0, mixture, 3, 2).server_events()
    few = AlgorithmOne(10.0, (0.25,) * 4, 3, 1, sites_per_round=2)
    assert few.amplified
    assert not replace(few, conspirators=1).amplified  # it knows whether it was drawn


def test_the_command_line_takes_a_number(tmp_path, sites):
    files = []
    for site in sites[:3]:
        probs = np.random.default_rng(len(files)).dirichlet(np.ones(3), len(site))
        files.append(tmp_path / f"site-{site.name}.npz")
        np.savez(files[-1], probs=probs, labels=site.labels)
    budget = ("--epsilon", 20, "--view", "secure-sum", "--conspirators", 2)
    done = run("collect", *files[:2], *budget, "--out", tmp_path / "sketch.npz")
    assert done.exit_code == 0, done.output
    assert fc.SketchResult.load(tmp_path / "sketch.npz").privacy.conspirators == 2
    joined = run("collect", files[2], "--merge", tmp_path / "sketch.npz", "--out",
                 tmp_path / "more.npz", *budget[:4])  # fmt: skip
    assert "--conspirators 2" in str(joined.exception)
    done = run("calibrate", *files, *budget, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert fc.Calibration.load(tmp_path / "out" / "s0.json").privacy.conspirators == 2
    alone = run("calibrate", *files, "--conspirators", 2, "--out", tmp_path / "out")
    assert "--conspirators without --epsilon" in str(alone.exception)
    wrong = run("calibrate", *files, "--epsilon", 4, "--conspirators", 2, "--out", tmp_path / "out")
    assert "view='server'" in str(wrong.exception)


def test_the_account_on_the_command_line_follows_the_number(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    outputs = [
        run("privacy", "--epsilon", 1, *more).output
        for more in ((), ("--conspirators", 1), ("--conspirators", 3), ("--conspirators", 0))
    ]
    assert outputs[0] == outputs[1]
    assert len(set(outputs)) == 3
    assert "3 may conspire" in outputs[2]
    published = run("privacy", "--sigma", 30, "--runs", 1)
    told = run("privacy", "--sigma", 30, "--runs", 1, "--conspirators", 1)
    assert "1 conspire" in said(told)
    assert published.output != told.output
    assert isinstance(run("privacy", "--conspirators", -1).exception, fc.FedcoverError)
