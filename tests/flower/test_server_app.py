"""The server app of the documentation, with sites in this process instead of Flower's grid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import fedcover as fc
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import Budget
from tests.remote.federation import Net, made

pytest.importorskip("flwr")

PAGE = (Path(__file__).parents[2] / "docs/flower.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Your own server app")[1]


@pytest.fixture
def net(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fedcover.engines.flower.transport.GridTransport", lambda grid: grid)
    made_so = Net(tmp_path / "sites", made(sizes=[300] * 4), budget=Budget(8.0, 1e-5))
    lines = [
        f"{name} {key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()}"
        for name, key in made_so.roster.items()
    ]
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/roster").write_text("\n".join(lines))
    return made_so


def test_it_collects_through_secure_sums_and_a_repeated_run_costs_nothing(net, capsys):
    scope = {}
    exec(re.search(r"```python\n(.*?)```", SECTION, re.DOTALL)[1], scope)
    scope["main"](net, None)
    assert capsys.readouterr().out == "calibrations at s0 s1 s2 s3\n"
    sketch = fc.SketchResult.load("runs/november/sketch.npz")
    assert sketch.privacy.epsilon == pytest.approx(4)
    assert net.asked("unmask")
    before = net.heads()
    for name, path in net.ledgers.items():
        assert Ledger(path).state().spent == pytest.approx(4, abs=1e-6)
        own = fc.Calibration.load(net.folder / f"{name}.json")
        assert own.alpha == (0.05, 0.1)
        assert (own.privacy.word, own.privacy.view) == ("ledger", sketch.privacy.view)
        assert own.privacy.epsilon == pytest.approx(4, abs=1e-6)
        assert own.privacy.reported.events == sketch.privacy.events
    scope["main"](net, None)
    assert net.heads() == before
    again = fc.SketchResult.load("runs/november/sketch.npz")
    assert (again.table.table == sketch.table.table).all()
