"""A Flower deployment on this machine: a SuperLink and SuperNodes over TLS, with node keys.

Every process carries a mark in its environment. Flower starts processes of its own, some of them
in sessions of their own: by the mark all of them are found, and nothing but them is ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

MARK = "FEDCOVER_TEST_DEPLOYMENT"
BIN = Path(sys.executable).parent


class Deployment:
    """A folder as `fedcover flower init` writes it, with test keys, and the processes in it."""

    def __init__(self, folder: Path, sites: tuple[str, ...]) -> None:
        self.folder, self.sites = folder, sites
        self.mark = uuid.uuid4().hex
        self.environment = environment(self.mark) | {"FLWR_HOME": str(folder / "flwr")}
        self.outer, self.port, *ports = free_ports(2 + len(sites))
        self.ports = dict(zip(sites, ports, strict=True))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        fedcover("flower", "init", str(folder), "--sites", ",".join(sites))
        self.command("sh", "make-test-keys.sh")
        for name in ("flwr/config.toml", "nginx.conf"):
            text = (folder / name).read_text()
            text = text.replace("8000", str(self.outer)).replace("8001", str(self.port))
            (folder / name).write_text(text)

    def command(self, *words: str, good: bool = True) -> str:
        """What a command prints, run to its end in the folder."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60
        )
        assert not good or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, name: str, *words: str) -> None:
        """A process in the background; what it prints goes to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    def start_superlink(self) -> None:
        words = "--ssl-certfile keys/server.pem --ssl-keyfile keys/server.key --ssl-ca-certfile "
        words += f"keys/ca.crt --host 127.0.0.1 --port {self.port} --database superlink.db "
        words += "--enable-supernode-auth --disable-runtime-dependency-installation"
        self.start("superlink", f"{BIN}/flower-superlink", *words.split())
        until(lambda: listens(self.port), "the SuperLink listens")

    def start_door(self) -> None:
        """The proxy; nginx, or what stands in for it here."""
        words = ("-p", str(self.folder), "-c", "nginx.conf", "-e", "proxy/error.log")
        self.start("door", *proxy(), *words)
        until(lambda: listens(self.outer), "the proxy listens")

    def register(self, *names: str) -> None:
        for name in names:
            self.command(f"{BIN}/flwr", "supernode", "register", f"keys/{name}.pub", "tls")

    def start_node(
        self, name: str, key: str = "", ca: str = "keys/ca.crt", *, door: int = 0, more: str = ""
    ) -> None:
        port = door or self.port
        words = f"--superlink 127.0.0.1:{port} --root-certificates {ca} --host 127.0.0.1 {more} "
        words += f"--auth-supernode-private-key {key or f'keys/{name}'} --port {self.ports[name]} "
        words += f"--node-config sites/{name}.toml"
        self.start(name, f"{BIN}/flower-supernode", *words.split())

    def start_executor(self, name: str) -> None:
        words = f"--node-config sites/{name}.toml --port {self.ports[name]}"
        self.start(f"{name}-executor", f"{BIN}/fedcover", "flower", "executor", *words.split())

    def restart_node(self, name: str) -> None:
        """Brings a killed node back: Flower lets it in when its old heartbeats have run out."""
        before = self.log(name).count("SuperNode ID")

        def is_in() -> bool:
            if name not in self.processes or self.processes[name].poll() is not None:
                self.start_node(name)
            return self.log(name).count("SuperNode ID") > before

        until(is_in, f"{name} is back", 120)

    def configure(self, name: str, text: str) -> None:
        """The site's own rules."""
        (self.folder / f"sites/{name}.toml").write_text(text)

    def run(self, app: str = "app", patient: float = 600, **settings: object) -> str:
        """What is printed about a run, from its start to its end."""
        name = self.start_run(app, **settings)
        self.processes[name].wait(timeout=patient)
        return self.log(name)

    def start_run(self, app: str = "app", **settings: object) -> str:
        """Starts a run; the name of its log."""
        config = " ".join(f"{k}={written(v)}" for k, v in settings.items())
        name = f"run-{uuid.uuid4().hex[:6]}"
        words = ("run", app, "tls", "--stream", "--run-config", config)
        self.start(name, f"{BIN}/flwr", *words)
        return name

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """Ends a process and all it has started at once, as a power cut would."""
        process = self.processes.pop(name)
        if process.poll() is None:  # else its number may be another's by now
            end([process.pid, *descendants(process.pid)])
        process.wait(timeout=10)

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        end(marked(self.mark))


def environment(mark: str) -> dict[str, str]:
    """For everything a test starts: marked, quiet, and with the commands of this Python."""
    return os.environ | {
        MARK: mark,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "OMP_NUM_THREADS": "1",
    }


def fedcover(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fedcover", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def free_row(count: int) -> int:
    """The first of some free ports in a row."""
    while True:
        (first,) = free_ports(1)
        if first + count < 65536 and not any(listens(first + i) for i in range(count)):
            return first


def proxy() -> list[str]:
    """The command of nginx, or of its stand-in where it is not installed."""
    found = shutil.which("nginx")
    return [found] if found else [sys.executable, str(Path(__file__).with_name("nginx.py"))]


def listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    end_at = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end_at, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)


def written(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def marked(mark: str) -> list[int]:
    """Processes that carry a mark, however they were started."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:  # ended in the meantime, or not ours
            continue
    return [pid for pid in found if pid != os.getpid() and alive(pid)]


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found, todo = [], [pid]
    while todo:
        todo += (new := children.get(todo.pop(), []))
        found += new
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def end(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    until(lambda: not any(alive(pid) for pid in pids), "processes have ended", 20)
