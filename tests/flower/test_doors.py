"""Who gets in: the proxy's file, the doctor's look at the door, and apps that a site approved."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity
from typer.testing import CliRunner

from fedcover.cli import app
from fedcover.engines.flower import executor
from fedcover.engines.flower.approval import approve, approved, bundle, digest_of
from fedcover.engines.flower.doctor import doors
from fedcover.engines.flower.doctor.findings import Findings
from fedcover.engines.flower.scaffold import INNER, OUTER, folder_texts, write_folder
from fedcover.engines.flower.site_config import BY_EXECUTOR, client_from_config
from fedcover.engines.flower.transport import QUERY, packed
from fedcover.engines.remote.codes import Refusal
from fedcover.errors import FileError
from tests.flower.conftest import SITES, write_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("doors") / "f"
    write_folder(made, SITES)
    subprocess.run(["sh", "make-test-keys.sh"], cwd=made, check=True, capture_output=True)
    write_data(made / "data")
    return made


def blocks(text):
    """The blocks of an nginx file by name, each with its own lines; comments are left out."""
    text = re.sub(r"#[^\n]*", "", text)
    found, open_blocks = {}, [("", [])]
    for piece in re.findall(r"[^{};]+[{;]|\}", text):
        words = " ".join(piece[:-1].split())
        if piece == "}":
            name, lines = open_blocks.pop()
            found[name] = lines
        elif piece.endswith("{"):
            open_blocks.append((words, []))
        else:
            open_blocks[-1][1].append(words)
    assert len(open_blocks) == 1  # what is opened is closed
    return found


def test_the_proxy_passes_the_fleet_on_and_nothing_else(tmp_path):
    parts = blocks(folder_texts(SITES, tmp_path)["nginx.conf"])
    passing = {name: lines for name, lines in parts.items() if "proxy_pass" in " ".join(lines)}
    assert list(passing) == ["location /v1/fleet/"]
    # with no path behind the port, nginx passes the one on that it has matched
    assert f"proxy_pass https://127.0.0.1:{INNER}" in passing["location /v1/fleet/"]
    assert "proxy_ssl_verify on" in passing["location /v1/fleet/"]
    assert parts["limit_except POST"] == ["deny all"]
    assert parts["location /"] == ["return 404"]
    assert [name for name in parts if name.startswith("location")] == [
        "location /", "location /v1/fleet/"
    ]  # fmt: skip
    assert f"listen {OUTER} ssl" in parts["server"]
    assert not [line for line in parts["server"] if line.startswith("listen") and "ssl" not in line]


def test_flowers_nodes_need_no_other_path():
    """What a SuperNode calls, from Flower's own source: a new release may need another."""
    from flwr.supernode import fleet_http_client

    with open(fleet_http_client.__file__, encoding="utf-8") as file:
        paths = re.findall(r'path="([^"]+)"', file.read())
    assert len(paths) > 5
    assert all(path.startswith("/v1/fleet/") for path in paths)


def test_everything_else_in_the_folder_fits_the_proxy(tmp_path):
    texts = folder_texts(SITES, tmp_path)
    assert f'address = "127.0.0.1:{INNER}"' in texts["flwr/config.toml"]
    assert f"--host 127.0.0.1 --port {INNER}" in texts["README.md"]
    assert texts["README.md"].count(f"--superlink 127.0.0.1:{OUTER}") == len(SITES)
    assert texts["README.md"].count("--isolation process") == len(SITES)


@pytest.fixture
def server(folder):
    """A server over TLS that answers each path with a status of the test's choice."""
    statuses, seen = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(statuses.get(self.path, 404))
            self.end_headers()

        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(folder / "keys/server.pem", folder / "keys/server.key")
    made.socket = own.wrap_socket(made.socket, server_side=True)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    made.statuses, made.seen = statuses, seen
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def looked(address, ca, control=None):
    found = Findings()
    doors.examine(found, address, ca, control)
    return {line.what: line for line in found.lines}


CONTROL, RUNTIME = doors.CONTROL


@pytest.mark.parametrize(
    ("statuses", "good", "says"),
    [
        ({}, True, "refused at"),
        ({CONTROL: 403, RUNTIME: 403}, True, "refused at"),
        ({CONTROL: 401}, True, "refused at"),  # a login
        ({CONTROL: 200}, False, "THE DOOR IS OPEN"),
        ({RUNTIME: 200}, False, "THE DOOR IS OPEN"),
        ({CONTROL: 500}, False, "HTTP 500: whether it is closed is not known"),
        ({CONTROL: 302}, False, "not known"),
    ],
)
def test_the_doctor_finds_an_open_door(folder, server, statuses, good, says):
    server.statuses |= statuses
    address = f"127.0.0.1:{server.server_port}"
    found = looked(address, folder / "keys/ca.crt")["control, from outside"]
    assert (found.good, says in found.says) == (good, True)
    assert all(body == b"" for _, body in server.seen)  # no run is started, no work taken
    if good:
        assert {path for path, _ in server.seen} == {CONTROL, RUNTIME, doors.FLEET}


@pytest.mark.parametrize(
    ("status", "good"), [(401, True), (404, False), (502, False), (200, False)]
)
def test_the_doctor_sees_whether_sites_get_in(folder, server, status, good):
    server.statuses[doors.FLEET] = status
    found = looked(f"127.0.0.1:{server.server_port}", folder / "keys/ca.crt")
    assert found["the sites' way in"].good is good


def test_an_open_door_is_an_exit_status(folder, server):
    words = ["flower", "doctor", "--ca", str(folder / "keys/ca.crt"), "--address"]
    server.statuses[doors.FLEET] = 401
    done = CliRunner().invoke(app, [*words, f"127.0.0.1:{server.server_port}"])
    assert done.exit_code == 0, done.output
    server.statuses[CONTROL] = 200
    done = CliRunner().invoke(app, [*words, f"127.0.0.1:{server.server_port}"])
    assert done.exit_code == 3
    assert "THE DOOR IS OPEN" in done.output


def test_what_cannot_be_looked_at_is_not_closed(folder, server):
    (ca, address) = (folder / "keys/ca.crt", f"127.0.0.1:{server.server_port}")
    with socket.socket() as free:  # nobody listens
        free.bind(("127.0.0.1", 0))
        silent = f"127.0.0.1:{free.getsockname()[1]}"
        assert not looked(silent, ca)["control, from outside"].good
    assert not looked(address, None)["control, from outside"].good
    assert not looked(address, folder / "keys/server.key")["control, from outside"].good
    assert not looked("127.0.0.1", ca)["control, from outside"].good
    wrong_name = f"127.0.0.2:{server.server_port}"  # not in the certificate
    assert not looked(wrong_name, ca)["control, from outside"].good


def test_a_superlink_that_listens_everywhere_is_found():
    def inside(host, called="127.0.0.1"):
        with socket.socket() as listening:
            listening.bind((host, 0))
            listening.listen()
            control = f"{called}:{listening.getsockname()[1]}"
            return looked(None, None, control)["the SuperLink itself"]

    assert inside("127.0.0.1").good
    assert "THE DOOR IS OPEN" in inside("0.0.0.0").says
    assert "others can reach" in inside("127.0.0.1", "192.0.2.17").says
    assert "nothing listens" in looked(None, None, "127.0.0.1:1")["the SuperLink itself"].says


def test_an_app_is_approved_by_the_hash_of_its_bundle(folder, tmp_path):
    content = bundle(folder / "app")
    assert content == bundle(folder / "app")  # the same bytes each time
    assert approved(content, tmp_path / "own") is None
    unpacked = approve(folder / "app", tmp_path / "own")
    assert approved(content, tmp_path / "own") == unpacked
    assert unpacked.name == digest_of(content)
    assert approve(folder / "app", tmp_path / "own") == unpacked  # once more changes nothing
    (tmp_path / "app.fab").write_bytes(content)
    assert approve(tmp_path / "app.fab", tmp_path / "second").name == unpacked.name
    assert approved(content + b"\0", tmp_path / "own") is None
    assert [p.name for p in (tmp_path / "own").iterdir()] == [unpacked.name]


def test_what_is_no_app_is_not_approved(folder, tmp_path):
    (tmp_path / "x.fab").write_bytes(b"PK")
    for app_path in (tmp_path, tmp_path / "x.fab", tmp_path / "none"):
        with pytest.raises(FileError):
            approve(app_path, tmp_path / "own")
    assert not list((tmp_path / "own").glob("*"))


def test_the_commands_name_what_they_need(folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = ["flower", "approve", "app", "--node-config"]
    done = CliRunner().invoke(app, [*words, "sites/harbour.toml"])
    assert done.exit_code == 0, done.output
    (unpacked,) = (folder / "approved/harbour").iterdir()
    assert (unpacked / "fedcover_app.py").read_text() == (
        folder / "app/fedcover_app.py"
    ).read_text()
    assert unpacked.name in done.output.replace("\n", "")
    none = 'data="d" state="s"'
    for command in (words, ["flower", "executor", "--node-config"]):
        done = CliRunner().invoke(app, [*command, none])
        assert "names no folder of approved apps" in str(done.exception)


EVIL = """
import pathlib

from flwr.clientapp import ClientApp

pathlib.Path({mark!r}).write_text("was here")
client = ClientApp()
server = None


@client.query("fedcover")
def answer(message, context):
    raise ValueError("a secret of the site")
"""


@pytest.fixture
def evil(folder, tmp_path, monkeypatch):
    """An app that the server might send, and what it leaves when its code runs."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(sys, "path", [*sys.path])  # loading an app adds to it
    monkeypatch.delitem(sys.modules, "evil_app", raising=False)
    shutil.copytree(folder / "app", tmp_path / "evil")
    (tmp_path / "evil/evil_app.py").write_text(EVIL.format(mark=str(tmp_path / "mark")))
    settings = tmp_path / "evil/pyproject.toml"
    settings.write_text(settings.read_text().replace("fedcover_app:client", "evil_app:client"))
    return tmp_path / "evil"


def asked(content, own):
    record = {"run_id": 1, "node_id": 2, "node_config": {}, "state": RecordDict(), "run_config": {}}
    message = Message(packed(b"?"), dst_node_id=2, message_type=f"query.{QUERY}")
    message.metadata.__dict__["_message_id"] = "id"
    return executor.answer(message, Context(**record), content, own)


def test_an_app_that_is_not_approved_never_runs(evil, tmp_path):
    (tmp_path / "own").mkdir()
    reply = asked(bundle(evil), tmp_path / "own")
    assert reply.error.code == ErrorCode.INVALID_FAB
    assert reply.error.reason == executor.UNAPPROVED
    assert not (tmp_path / "mark").exists()


def test_an_approved_app_runs_and_its_errors_stay_at_the_site(evil, tmp_path):
    approve(evil, tmp_path / "own")
    reply = asked(bundle(evil), tmp_path / "own")
    assert (tmp_path / "mark").exists()
    assert isinstance(reply.error, Error)
    assert reply.error.reason == executor.FAILED  # Flower's own executor sends the text


def test_a_site_with_approved_apps_answers_under_its_executor_alone(folder, monkeypatch):
    monkeypatch.chdir(folder)
    config = {"data": "data/site-harbour.npz", "state": "state/h", "exact": True, "seed": 0}
    client_from_config(config)
    with pytest.raises(Refusal, match="Flower starts any app here") as refused:
        client_from_config(config | {"approved": "approved/harbour"})
    assert refused.value.code == "executor"
    monkeypatch.setenv(BY_EXECUTOR, "1")
    client_from_config(config | {"approved": "approved/harbour"})
