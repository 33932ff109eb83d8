"""A deployment with closed doors: strangers start nothing, nor does an app nobody approved run."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from fedcover.engines.remote.codes import CODES
from tests.flower.conftest import SITES, write_data
from tests.flower.deployment import Deployment, marked, until

pytestmark = pytest.mark.deployment

LINES = """
name = "NAME"
data = "data/site-NAME.npz"
state = "state/NAME"
out = "calibrations/NAME.json"
exact = true
key = "keys/NAME"
roster = "keys/roster"
approved = "approved/NAME"
"""

EVIL = """
from pathlib import Path

from flwr.app import Message
from flwr.clientapp import ClientApp

client = ClientApp()


@client.query("fedcover")
def answer(message, context):
    stolen = Path(context.node_config["key"]).read_text()
    Path("stolen-" + context.node_config["name"]).write_text(stolen)
    return Message(message.content, reply_to=message)  # without one, Flower's node waits for ever
"""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """Two sites that have approved the app: lakeside has its executor, harbour has Flower's own."""
    made = Deployment(tmp_path_factory.mktemp("closed") / "federation", SITES)
    write_data(made.folder / "data")
    try:
        for name in ("lakeside", "harbour"):
            made.configure(name, LINES.replace("NAME", name))
            made.command(
                sys.executable, "-m", "fedcover",
                "flower", "approve", "app", "--node-config", f"sites/{name}.toml",
            )  # fmt: skip
        made.start_superlink()
        made.start_door()
        made.register("lakeside", "harbour")
        made.start_node("lakeside", door=made.outer, more="--isolation process")
        made.start_executor("lakeside")
        made.start_node("harbour", door=made.outer)
        for name in ("lakeside", "harbour"):
            until(lambda name=name: "SuperNode ID" in made.log(name), f"{name} is in")
        yield made
    finally:
        made.close()
    assert marked(made.mark) == []


def test_nginx_takes_the_file(deployment):
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed: apt install nginx-light")
    words = ("-p", str(deployment.folder), "-c", "nginx.conf", "-e", "proxy/error.log", "-t")
    assert "test is successful" in deployment.command("nginx", *words)


def outside(deployment, *words):
    """A command of Flower's, from who reaches the proxy and has the public CA certificate."""
    home = deployment.folder / "outside"
    home.mkdir(exist_ok=True)
    text = (deployment.folder / "flwr/config.toml").read_text()
    (home / "config.toml").write_text(text.replace(str(deployment.port), str(deployment.outer)))
    return subprocess.run(
        [f"{sys.prefix}/bin/flwr", *words], cwd=deployment.folder, capture_output=True, text=True,
        env=deployment.environment | {"FLWR_HOME": str(home)}, timeout=60, check=False,
    )  # fmt: skip


def test_nobody_outside_has_control(deployment):
    for words in (("list", "tls"), ("run", "app", "tls"), ("supernode", "list", "tls")):
        done = outside(deployment, *words)
        assert done.returncode != 0
        assert "404" in done.stdout + done.stderr
    inside = deployment.command(f"{sys.prefix}/bin/flwr", "list", "tls", "--format", "json")
    assert '"runs": []' in inside  # the same question where it may be asked; and none was started


def doctor(deployment, *words):
    done = subprocess.run(
        [sys.executable, "-m", "fedcover", "flower", "doctor", "--ca", "keys/ca.crt", *words],
        cwd=deployment.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_the_doctor_tells_an_open_door_from_a_closed_one(deployment):
    control = f"127.0.0.1:{deployment.port}"
    closed = ("--address", f"127.0.0.1:{deployment.outer}", "--control", control)
    assert doctor(deployment, *closed)[0] == 0
    code, text = doctor(deployment, "--address", control)  # as without a proxy
    assert code == 3
    assert "THE DOOR IS OPEN" in text


def test_the_approved_app_answers_and_a_rule_that_would_not_hold_is_noticed(deployment):
    text = deployment.run(run="approved", sites=1, epsilon=0.0, view="server", seconds=60.0)
    assert "calibrations at lakeside" in text
    assert CODES["executor"][0] in text
    assert [p.name for p in deployment.folder.glob("calibrations/*")] == ["lakeside.json"]


def test_an_app_that_nobody_approved_starts_only_where_flower_starts_it(deployment):
    evil = deployment.folder / "evil"
    shutil.copytree(deployment.folder / "app", evil)
    (evil / "evil_app.py").write_text(EVIL)
    settings = (evil / "pyproject.toml").read_text()
    (evil / "pyproject.toml").write_text(settings.replace("fedcover_app:client", "evil_app:client"))

    text = deployment.run("evil", sites=1, epsilon=0.0, seconds=40.0, resends=0)

    assert "has not approved this app" in text
    assert {p.name for p in deployment.folder.glob("stolen-*")} == {"stolen-harbour"}
