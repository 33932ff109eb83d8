"""One tiny run of the demo, shared by the tests of this folder."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from fedcover import demo


@dataclass(frozen=True)
class TinyRun:
    folder: Path
    printed: str


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    folder = tmp_path_factory.mktemp("demo") / "out"
    screen = io.StringIO()
    demo.run(folder, repetitions=2, seed=1, console=Console(file=screen, width=80))
    return TinyRun(folder, screen.getvalue())
