"""One tiny run of the demo, shared by the tests of this folder."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from fedcover.experiments.demo import command


@dataclass(frozen=True)
class TinyRun:
    folder: Path
    printed: str


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> TinyRun:
    """Made by the first worker that asks; the others wait for its files."""
    root = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        root = root.parent
    folder, printed = root / "demo-out", root / "demo-printed.txt"
    try:
        (root / "demo-started").mkdir()
    except FileExistsError:
        for _ in range(600):
            if printed.exists():
                return TinyRun(folder, printed.read_text(encoding="utf-8"))
            time.sleep(0.2)
        pytest.fail("the worker that runs the demo did not finish it")
    screen = io.StringIO()
    command.run(folder, repetitions=2, seed=1, console=Console(file=screen, width=80))
    part = root / "demo-printed.part"
    part.write_text(screen.getvalue(), encoding="utf-8")
    part.rename(printed)
    return TinyRun(folder, screen.getvalue())
