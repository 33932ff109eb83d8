"""The folder that `fedcover flower init` writes: an app, the proxy, rules of each site."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from fedcover._io.writing import write
from fedcover.errors import FedcoverError, FileError

FLOWER = "1.41.0"
"""As in the extra `flower` of this package; Flower's interfaces move between releases."""


def installed(package: str) -> str | None:
    """The version of a package, or None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


OUTER, INNER, FIRST_PORT = 8000, 8001, 9101
"""Ports: of the proxy, which sites call; of the SuperLink behind it; of the first site's node."""


TAKEN = ("coordinator", "roster")
"""Names of other files among the keys."""


class _Template(string.Template):
    """`@{name}` stands for a value: shell scripts and TOML have other uses for the dollar."""

    delimiter = "@"


def write_folder(folder: Path, sites: Sequence[str]) -> list[Path]:
    """Writes the folder, and returns its files; nothing that is there is touched."""
    names = checked_sites(sites)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileError(
            f"{folder} is there already",
            allowed="a new or empty folder: nothing is overwritten",
            fix="Choose another name",
        )
    texts = folder_texts(names, folder.resolve())
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)
    for name in ("data", "ledgers", "calibrations", "proxy"):
        (folder / name).mkdir()
    return [folder / name for name in texts]


def folder_texts(names: Sequence[str], folder: Path) -> dict[str, str]:
    """The files of the folder by their paths in it."""
    n = len(names)
    values = {
        "sites": " ".join(names),
        "names": ", ".join(names),
        "first": names[0],
        "count": str(n),
        "view": "secure-sum" if n >= 3 else "server",
        "threshold": str(max(3, math.ceil(2 * n / 3)) if n >= 3 else 0),
        "ca": json.dumps(str(folder / "keys/ca.crt"), ensure_ascii=False),
        "version": version("fedcover"),
        "flower": FLOWER,
        "outer": str(OUTER),
        "inner": str(INNER),
        "ledgers": _lines(
            f"fedcover ledger set-budget ledgers/{name}.db --create --epsilon 8 --delta 1e-5 \\\n"
            f"        --key keys/{name} --data data/site-{name}.npz"
            for name in names
        ),
        "registrations": _lines(f"flwr supernode register keys/{name}.pub tls" for name in names),
        "approvals": _lines(
            f"fedcover flower approve app --node-config sites/{name}.toml" for name in names
        ),
        "nodes": _lines(_node_command(name, FIRST_PORT + i) for i, name in enumerate(names)),
        "executors": _lines(
            f"fedcover flower executor --node-config sites/{name}.toml --port {FIRST_PORT + i}"
            for i, name in enumerate(names)
        ),
    }
    texts = {
        "README.md": _filled("README.md.in", values),
        "app/pyproject.toml": _filled("pyproject.toml.in", values),
        "app/fedcover_app.py": _read("fedcover_app.py"),
        "nginx.conf": _filled("nginx.conf.in", values),
        "flwr/config.toml": _filled("config.toml.in", values),
        "make-test-keys.sh": _filled("make-test-keys.sh.in", values),
    }
    for name in names:
        texts[f"sites/{name}.toml"] = _filled("site.toml.in", {"site": name})
    return texts


def checked_sites(sites: Sequence[str]) -> tuple[str, ...]:
    """Names that can stand in file names, rosters and shell commands as they are."""
    good = all(
        s and s[0].isalnum() and s.replace("-", "").replace("_", "").isalnum() for s in sites
    )
    good = good and all(s.isascii() and s not in TAKEN for s in sites)
    if not good or len(set(sites)) < len(sites) or len(sites) < 2:
        raise FedcoverError(
            f"sites are {', '.join(sites) or 'none'!r}",
            allowed="two or more different names of letters, digits, '-' and '_'",
            fix="Write --sites mercy,stjohn,lakeside,harbour; three at least for secure sums",
        )
    return tuple(sites)


def _node_command(name: str, port: int) -> str:
    return (
        f"flower-supernode --superlink 127.0.0.1:{OUTER} --root-certificates keys/ca.crt \\\n"
        f"        --auth-supernode-private-key keys/{name} --node-config sites/{name}.toml \\\n"
        f"        --isolation process --port {port}"
    )


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(f"    {text}" for text in texts)


def _filled(name: str, values: dict[str, str]) -> str:
    return _Template(_read(name)).substitute(values)


def _read(name: str) -> str:
    return (files("fedcover.engines.flower") / "app" / name).read_text(encoding="utf-8")
