"""Who does not belong is refused, and sees what to do. `deploy` checks that all of it ends."""

from __future__ import annotations

import pytest

from fedcover.engines.remote.codes import CODES
from tests.flower.deployment import marked, until

pytestmark = pytest.mark.deployment

LINES = """
data = "data/site-NAME.npz"
state = "state/NAME"
out = "calibrations/NAME.json"
exact = true
coordinator = "keys/coordinator.pub"
"""

OTHER_VERSION = """
from flwr.serverapp import ServerApp

from fedcover.engines.flower.apps import client_app, conduct
from fedcover.engines.flower.run_config import Run
from fedcover.engines.flower.transport import GridTransport
from fedcover.engines.remote import envelope

client = client_app()
server = ServerApp()


@server.main()
def main(grid, context):
    envelope.VERSION += 1  # at the server alone
    conduct(Run.of(context.run_config), GridTransport(grid))
"""


@pytest.fixture(scope="module")
def deployment(deploy):
    with deploy(lines=LINES, ledgers=False, nodes=("lakeside",)) as made:
        yield made
        assert len(marked(made.mark)) >= 3  # SuperLink, SuperNode, what they start


def test_a_wrong_certificate_is_refused(deployment):
    strange = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 2 -subj"
    files = ("-keyout", "keys/strange.key", "-out", "keys/strange.crt")
    deployment.command(*strange.split(), "/CN=somebody else", *files)
    deployment.start_node("northgate", ca="keys/strange.crt")
    until(lambda: "CERTIFICATE_VERIFY_FAILED" in deployment.log("northgate"), "it is refused")
    deployment.kill("northgate")


def test_an_unregistered_key_is_refused(deployment):
    make = ("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", "keys/stranger")
    deployment.command(*make)
    deployment.start_node("harbour", key="keys/stranger")
    deployment.processes["harbour"].wait(timeout=60)
    assert "Failed to activate SuperNode" in deployment.log("harbour")


def test_private_runs_need_a_ledger_and_results_a_signature(deployment):
    """Both by the site's own rules, in one run: one site refuses at hello, the other at the end."""
    rules = (deployment.folder / "sites/lakeside.toml").read_text()
    strict = rules.replace("lakeside", "northgate").replace("exact = true\n", "")
    deployment.configure("northgate", strict)
    deployment.start_node("northgate")
    for name in ("lakeside", "northgate"):
        until(lambda name=name: "SuperNode ID" in deployment.log(name), f"{name} is in")

    settings = {"run": "unsigned", "epsilon": 4.0, "view": "server", "key": ""}
    text = deployment.run(**settings, sites=1, seconds=60.0, resends=0)

    assert CODES["privacy"][0] in text
    assert "lakeside: " + CODES["signature"][0] in text
    assert "calibrations at no site" in text
    assert not list(deployment.folder.glob("calibrations/*"))
    deployment.kill("northgate")


def test_another_version_is_refused(deployment):
    app = deployment.folder / "app-of-tomorrow"
    app.mkdir()
    (app / "pyproject.toml").write_text((deployment.folder / "app/pyproject.toml").read_text())
    (app / "fedcover_app.py").write_text(OTHER_VERSION)

    text = deployment.run("app-of-tomorrow", sites=1, epsilon=0.0, seconds=60.0, resends=0)

    assert "(code 'version')" in text
    log = (deployment.folder / "state/lakeside/log.txt").read_text()
    assert "Install the same version" in text
    assert "Install the same version" in log
