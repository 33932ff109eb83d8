"""Three sites with files of their own, and deployments that are ended whatever happens."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.flower.deployment import Deployment, fedcover, marked

if not all(shutil.which(tool) for tool in ("openssl", "ssh-keygen")) or not Path("/proc").exists():
    collect_ignore_glob = ["test_[!s]*.py", "test_sums.py"]  # all but the settings

SITES = ("harbour", "lakeside", "northgate")
SIZES = (140, 230, 180)
MIXES = np.array([[6, 1, 1, 2], [1, 6, 2, 1], [2, 2, 3, 3]]) / 10


def write_data(folder: Path) -> None:
    """A file of model outputs for each site, of four classes under label shift."""
    rng = np.random.default_rng(7)
    for name, size, mix in zip(SITES, SIZES, MIXES, strict=True):
        labels = rng.choice(4, size=size, p=mix)
        logits = rng.normal(size=(size, 4)) + 1.5 * np.eye(4)[labels]
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.savez(folder / f"site-{name}.npz", probs=probs, labels=labels)


@pytest.fixture(scope="module")
def deploy(tmp_path_factory) -> Callable[..., object]:
    """Makes deployments: a SuperLink, and a node for each site with these lines in its rules."""

    @contextmanager
    def make(*, lines: str, ledgers: bool, nodes: tuple[str, ...] = SITES) -> Iterator[Deployment]:
        made = Deployment(tmp_path_factory.mktemp("deployment") / "federation", SITES)
        write_data(made.folder / "data")
        for name in SITES:
            made.configure(name, f'name="{name}"\n' + lines.replace("NAME", name))
            if ledgers:
                ledger = made.folder / f"ledgers/{name}.db"
                key, data = made.folder / f"keys/{name}", made.folder / f"data/site-{name}.npz"
                files = ("--key", str(key), "--data", str(data))
                words = ("--create", "--epsilon", "8", "--delta", "1e-5", *files)
                fedcover("ledger", "set-budget", str(ledger), *words)
        try:
            made.start_superlink()
            made.register(*SITES)
            for name in nodes:
                made.start_node(name)
            yield made
        finally:
            made.close()
        assert marked(made.mark) == []

    return make
