"""A site from the configuration of its own node; the server has no say in any of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedcover import checks, scores
from fedcover.engines.remote.client import Client
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.policy import SitePolicy
from fedcover.errors import FedcoverError, FileError
from fedcover.methods.registry import usual_names
from fedcover.privacy.ledger import Ledger
from fedcover.site import Site

KEYS = {
    "data": "the site's file: .npz, .csv or .parquet (required)",
    "state": "folder for state and log (required)",
    "name": "the site's name; default from the file's",
    "out": "where the site writes its calibration, .json",
    "ledger": "the site's privacy ledger, made with `fedcover ledger set-budget --create`",
    "key": "its private key for secure sums; that of its SuperNode will do",
    "roster": "file with the public keys of all sites, one 'NAME KEY' a line",
    "methods": "methods it takes part in, with commas; default " + ", ".join(usual_names()),
    "exact": "true to answer without a privacy budget",
    "least-sum": "fewest sites of a secure sum it takes part in; default 3",
    "score": "score function; default aps",
    "score-u": "u of a randomised score, to fix it",
    "temperature": "what logits are divided by; default 1",
    "logits": "true if class columns of csv or parquet are logits",
    "seed": "seed of a randomised score; default one drawn once and kept in the folder for state",
}
"""What a node's configuration may hold."""


def client_from_config(config: Mapping[str, Any]) -> Client:
    """The site of a node, from its configuration; everything is checked here."""
    state = ClientState(Path(text_of(config, "state")))
    return Client(
        site=read_site(config),
        state=state,
        policy=read_policy(config),
        ledger=Ledger(text_of(config, "ledger")) if "ledger" in config else None,
        participant=read_participant(config),
        out=Path(text_of(config, "out")) if "out" in config else None,
    )


def known_keys(config: Mapping[str, Any]) -> None:
    """Refuses a misspelt key: a rule that is not read is a rule that does not hold."""
    # Flower's simulation adds two of its own.
    if unknown := sorted(set(config) - set(KEYS) - {"partition-id", "num-partitions"}):
        raise FedcoverError(
            f"the node's configuration has {unknown[0]!r}",
            allowed=", ".join(KEYS),
            fix="Correct the spelling in --node-config",
        )


def site_name(config: Mapping[str, Any]) -> str:
    """The name of the site."""
    stem = Path(text_of(config, "data")).stem.removeprefix("site-")
    return str(config.get("name", stem))


def read_site(config: Mapping[str, Any]) -> Site:
    """Its calibration records."""
    kinds = {name.lower(): kind for name, kind in scores.ALL.items()}
    wanted = str(config.get("score", "aps")).lower()
    if wanted not in kinds:
        raise FedcoverError(
            f"score is {wanted!r}", allowed=", ".join(kinds), fix="Change it in --node-config"
        )
    options = {"u": _number(config, "score-u", 0.0)} if "score-u" in config else {}
    return Site.from_file(
        text_of(config, "data"),
        site_name(config),
        kinds[wanted](**options),
        _whole(config, "seed", 0) if "seed" in config else _kept_seed(config),
        logits=checks.flag(config.get("logits", False), "logits"),
        temperature=_number(config, "temperature", 1.0),
    )


def read_policy(config: Mapping[str, Any]) -> SitePolicy:
    """What it accepts."""
    known_keys(config)
    methods = str(config.get("methods", ",".join(usual_names())))
    return SitePolicy(
        methods=tuple(m.strip() for m in methods.split(",") if m.strip()),
        exact=checks.flag(config.get("exact", False), "exact"),
        least_sum=_whole(config, "least-sum", 3),
    )


def read_participant(config: Mapping[str, Any]) -> Any:
    """Its identity for secure sums, if it has one."""
    if ("key" in config) != ("roster" in config):
        raise FedcoverError(
            "the node's configuration has only one of key and roster",
            allowed="both, or none",
            fix="A secure sum needs the site's own key and everybody's public keys",
        )
    if "key" not in config:
        return None
    from fedcover.securesum import Participant, load_identity

    identity = load_identity(_contents(text_of(config, "key")))
    return Participant(site_name(config), identity, read_roster(text_of(config, "roster")))


def read_roster(path: str) -> Any:
    """The public keys of all sites from a file of lines 'NAME KEY'."""
    from fedcover.securesum import load_roster

    lines = _contents(path).decode("utf-8", "replace").splitlines()
    entries = [line.split(maxsplit=1) for line in lines if line.strip() and line[0] != "#"]
    if not entries or any(len(entry) < 2 for entry in entries):
        raise FileError(
            f"{path} is not a roster",
            allowed="one line 'NAME KEY' for each site, KEY as in its .pub file",
            fix="Put each site's name before the line of its .pub file",
        )
    names = [name for name, _ in entries]
    if len(set(names)) < len(names):
        raise FileError(
            f"{path} names a site twice", allowed="one line for each site", fix="Remove repeats"
        )
    return load_roster({name: line.encode() for name, line in entries})


def _kept_seed(config: Mapping[str, Any]) -> int:
    """A seed of this site's own: every letter starts a new process, and scores must not change."""
    path = ClientState(Path(text_of(config, "state"))).folder / "score-seed"
    if not path.exists():
        part = path.with_name(f"score-seed.{os.getpid()}")
        part.write_text(str(secrets.randbits(62)))
        with suppress(FileExistsError):  # another letter was quicker
            os.link(part, path)
        part.unlink()
    return int(path.read_text())


def _contents(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(
            f"{path} cannot be opened ({error.strerror})",
            allowed="a file that this process may read",
            fix="Correct the path in the configuration, or the file's permissions",
        ) from None


def text_of(config: Mapping[str, Any], key: str) -> str:
    value = config.get(key)
    if not isinstance(value, str) or not value:
        raise FedcoverError(
            f"the node's configuration has no {key!r}",
            allowed=f"{key}: {KEYS[key]}",
            fix=f"Start the SuperNode with --node-config '{key}=\"…\" …'",
        )
    return value


def _whole(config: Mapping[str, Any], key: str, usual: int) -> int:
    return checks.whole(config.get(key, usual), key, 0)


def _number(config: Mapping[str, Any], key: str, usual: float) -> float:
    return checks.real(config.get(key, usual), key, 0, 1e6)
