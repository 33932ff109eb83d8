"""`fedcover ledger`: show, set-budget, export."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedcover._io.facts import digest
from fedcover.errors import FedcoverError
from fedcover.methods.base import Message
from fedcover.privacy import accounting
from fedcover.privacy.events import GaussianRelease
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import Budget
from tests.test_cli import run as command
from tests.test_cli import said

EVENT = GaussianRelease("label counts", sigma=20.0, sensitivity=1.0)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "mercy.ledger"
    ledger = Ledger(path, create=Budget(2.0, 1e-5))
    ledger.answer(
        "run[b]-7/round-1",
        Message("counts"),
        [EVENT],
        lambda: Message("counts", {"n": np.arange(3)}),
    )
    return path


def run(*arguments):
    return command("ledger", *arguments)


def test_show(path):
    done = run("show", path)
    assert done.exit_code == 0, done.output
    spent = accounting.epsilon([EVENT], 1e-5)
    for part in ("run[b]-7/round-1", "label counts", "noise 20", f"{spent:.4f}",
                 f"{2 - spent:.4f}", "ε = 2 at δ = 1e-05"):  # fmt: skip
        assert part in said(done)
    assert Ledger(path).state().describe() in said(done)


def test_set_budget(path):
    assert run("set-budget", path, "--epsilon", 3).exit_code == 0
    assert run("set-budget", path, "--delta", 1e-6).exit_code == 0
    assert Ledger(path).state().budget == Budget(3.0, 1e-6)
    done = run("set-budget", path, "--epsilon", 0.01)
    assert Ledger(path).state().describe() in said(done)  # which says that too much is spent
    for wrong in ([], ["--epsilon", -1], ["--epsilon", 2, "--unit", "site"]):
        done = run("set-budget", path, *wrong)
        assert isinstance(done.exception, FedcoverError)
    assert len(Ledger(path).state().entries) == 5


def test_create(tmp_path):
    path = tmp_path / "new.ledger"
    assert isinstance(run("set-budget", path, "--epsilon", 2).exception, FedcoverError)
    assert isinstance(run("set-budget", path, "--epsilon", 2, "--create").exception, FedcoverError)
    assert not path.exists()
    new = ("set-budget", path, "--epsilon", 2, "--delta", 1e-5, "--unit", "site", "--create")
    assert run(*new).exit_code == 0
    assert Ledger(path).state().budget == Budget(2, 1e-5, "site", "replace")
    assert isinstance(run(*new).exception, FedcoverError)


def test_export_can_be_checked_without_fedcover(path, tmp_path):
    out = tmp_path / "statement.json"
    assert run("export", path, "--out", out).exit_code == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    state = Ledger(path).state()
    assert report["statement"] == state.describe()
    assert (report["unit"], report["relation"], report["delta"]) == ("record", "replace", 1e-5)
    assert report["epsilon_spent"] == state.spent
    last = "0" * 64
    for item in report["entries"]:
        assert item["entry"]["previous"] == last
        last = digest(json.dumps(item["entry"], sort_keys=True, separators=(",", ":")))
        assert item["hash"] == last
    assert report["head"] == last == state.head
    assert isinstance(run("export", path, "--out", tmp_path / "no" / "x").exception, FedcoverError)
