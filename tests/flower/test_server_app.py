"""The server app of the documentation, with sites in this process instead of Flower's grid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import fedcover as fc
from fedcover.identity import fingerprint, keys_of
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_entries import Budget
from tests.remote.federation import Net, identity, made

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
        assert own.privacy.reported == sketch.privacy
    scope["main"](net, None)
    assert net.heads() == before
    again = fc.SketchResult.load("runs/november/sketch.npz")
    assert (again.table.table == sketch.table.table).all()


def test_what_a_run_with_a_key_publishes_is_signed(net, tmp_path):
    from fedcover.engines.flower.apps import conduct
    from fedcover.engines.flower.run_config import Run

    key = identity("the coordinator")
    data = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    (tmp_path / "keys/coordinator").write_bytes(data)
    trusted = {"coordinator": key.public_key()}
    given = {"epsilon": 4.0, "view": "server", "sites": 4, "seconds": 0.1}
    conduct(Run.of({**given, "run": "plain"}), net)
    with pytest.raises(fc.FileError, match="unsigned"):
        fc.SketchResult.load("runs/plain/sketch.npz", trusted)
    done = conduct(Run.of({**given, "run": "signed", "key": "keys/coordinator"}), net)
    assert [one.name for one in fc.SketchResult.load("runs/signed/sketch.npz", trusted).signed_by]
    assert done.informed == ["s0", "s1", "s2", "s3"]
    finish = [one for _, one in net.asked("finish") if one.run == "signed"]
    assert len(finish) == 4
    assert all(one.header["signature"]["run"] == "signed" for one in finish)


def test_a_node_with_a_key_and_the_coordinators(net, tmp_path):
    from fedcover.engines.flower.site_config import SiteConfig, read_coordinator, read_key

    key = identity("s0")
    public = key.public_key()
    data = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    (tmp_path / "keys/s0").write_bytes(data)
    (tmp_path / "keys/s0.pub").write_bytes(
        public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    )
    config = SiteConfig("d.npz", "state", key="keys/s0", coordinator="keys/s0.pub")
    assert fingerprint(read_key(config).public_key()) == fingerprint(public)
    assert [fingerprint(k) for k in keys_of(read_coordinator(config), "coordinator")] == [
        fingerprint(public)
    ]
    none = SiteConfig("d.npz", "state")
    assert (read_key(none), read_coordinator(none)) == (None, None)
