"""How many files of the package one call goes through: ``python -m benchmarks.traced``.

A file counts when one of its functions runs during the call. What runs while a module is imported
does not count, and neither does what prepares the call: sites, ledgers and keys are there before.
Each call is the first of its kind in a fresh interpreter, so nothing is answered from a cache.
With the name of a call, the files and how often each was entered are printed as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

import fedcover as fc
from benchmarks import federation

PACKAGE = Path(fc.__file__).parent
Job = Callable[[], Any]


def calibrate(folder: Path) -> Job:
    """DP-FedCP without privacy, three sites in this process."""
    sites = federation.sites((60, 80, 100), 4)
    return lambda: fc.calibrate(sites)


def collect(folder: Path) -> Job:
    """A private sketch in the server view, three sites in this process."""
    sites = federation.sites((6000, 8000, 10000), 4)
    privacy = fc.Privacy(4.0, 1e-5)
    return lambda: fc.collect(sites, privacy=privacy)


def secure_collect(folder: Path) -> Job:
    """A private sketch as a secure sum of four sites that keep ledgers, all envelopes as bytes."""
    from tests.remote.federation import BUDGET, Net, Server

    return Server(Net(folder, budget=BUDGET)).go


CALLS: dict[str, Callable[[Path], Job]] = {
    "calibrate, exact": calibrate,
    "collect, private, in process": collect,
    "collect, private, secure sum over a network": secure_collect,
}


def entered(job: Job) -> Counter[str]:
    """Calls of functions by file of the package, during a job and outside of imports."""
    found: Counter[str] = Counter()
    importing = 0

    def look(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing:
            found[code.co_filename] += 1

    sys.setprofile(look)
    try:
        job()
    finally:
        sys.setprofile(None)
    inside = ((Path(name), count) for name, count in found.items())
    return Counter(
        {p.relative_to(PACKAGE).as_posix(): n for p, n in inside if p.is_relative_to(PACKAGE)}
    )


def table() -> Table:
    """Every call, traced in an interpreter of its own."""
    modules = sum(1 for _ in PACKAGE.rglob("*.py"))
    shown = Table(title="Files of the package that one call goes through")
    shown.caption = f"Of {modules} files; imports do not count."
    shown.add_column("call")
    for column in ("files", "calls of functions"):
        shown.add_column(column, justify="right")
    for name in CALLS:
        command = [sys.executable, "-m", "benchmarks.traced", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        files = json.loads(done.stdout)
        shown.add_row(name, str(len(files)), f"{sum(files.values()):,}")
    return shown


def main() -> None:
    if sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(entered(CALLS[sys.argv[1]](Path(folder)))))
        return
    Console(width=100).print(table())


if __name__ == "__main__":
    main()
