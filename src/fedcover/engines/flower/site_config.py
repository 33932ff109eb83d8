"""A site from the configuration of its own node; the server has no say in any of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcover import scores
from fedcover._io.reading import read_whole
from fedcover.engines.flower.settings import read_settings, setting
from fedcover.engines.remote.client import Client
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.policy import SitePolicy
from fedcover.errors import FedcoverError, FileError
from fedcover.methods.registry import usual_names
from fedcover.privacy.ledger import Ledger
from fedcover.site import Site

MOST_TEXT = 1 << 24
"""Longest key or roster, in bytes."""

FLOWERS_OWN = ("partition-id", "num-partitions")
"""What Flower's simulation adds to a node's configuration."""


@dataclass(frozen=True)
class SiteConfig:
    """What a node's configuration may hold. The fields are its settings."""

    data: str = setting("the site's file: .npz, .csv or .parquet (required)")
    state: str = setting("folder for state and log (required)")
    name: str | None = setting("the site's name; default from the file's", None)
    out: str | None = setting("where the site writes its calibration, .json", None)
    ledger: str | None = setting(
        "the site's privacy ledger, made with `fedcover ledger set-budget --create`", None
    )
    key: str | None = setting(
        "its private key for secure sums; that of its SuperNode will do", None
    )
    roster: str | None = setting(
        "file with the public keys of all sites, one 'NAME KEY' a line", None
    )
    methods: str | None = setting(
        "methods it takes part in, with commas; default " + ", ".join(usual_names()), None
    )
    exact: bool = setting("true to answer without a privacy budget", False)
    least_sum: int = setting("fewest sites of a secure sum it takes part in", 3)
    conspirators: int = setting(
        "how many other sites a secure sum must withstand, at least, if they conspire with the "
        "server",
        1,
    )
    score: str = setting("score function", "aps")
    score_u: float | None = setting("u of a randomised score, to fix it", None)
    temperature: float = setting("what logits are divided by", 1.0)
    logits: bool = setting("true if class columns of csv or parquet are logits", False)
    seed: int | None = setting(
        "seed of a randomised score; default one drawn once and kept in the folder for state", None
    )

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> SiteConfig:
        """The settings of a node. A misspelt one is refused: a rule not read would not hold."""
        own = {key: value for key, value in config.items() if key not in FLOWERS_OWN}
        what, fix = "the node's configuration", "Correct it in --node-config"
        return read_settings(cls, own, what=what, fix=fix)

    @property
    def site_name(self) -> str:
        """The name of the site."""
        return self.name or Path(self.data).stem.removeprefix("site-")


def client_from_config(config: Mapping[str, Any]) -> Client:
    """The site of a node, from its configuration; everything is checked here."""
    own = SiteConfig.of(config)
    return Client(
        site=read_site(own),
        state=ClientState(Path(own.state)),
        policy=read_policy(own),
        ledger=None if own.ledger is None else Ledger(own.ledger),
        participant=read_participant(own),
        out=None if own.out is None else Path(own.out),
    )


def read_site(config: SiteConfig) -> Site:
    """Its calibration records."""
    kinds = {name.lower(): kind for name, kind in scores.ALL.items()}
    if config.score.lower() not in kinds:
        raise FedcoverError(
            f"score is {config.score!r}", allowed=", ".join(kinds), fix="Change it in --node-config"
        )
    seed = config.seed
    return Site.from_file(
        config.data,
        config.site_name,
        kinds[config.score.lower()](**({} if config.score_u is None else {"u": config.score_u})),
        ClientState(Path(config.state)).score_seed() if seed is None else seed,
        logits=config.logits,
        temperature=config.temperature,
    )


def read_policy(config: SiteConfig) -> SitePolicy:
    """What it accepts."""
    named = usual_names() if config.methods is None else config.methods.split(",")
    return SitePolicy(
        methods=tuple(m.strip() for m in named if m.strip()),
        exact=config.exact,
        least_sum=config.least_sum,
        conspirators=config.conspirators,
    )


def read_participant(config: SiteConfig) -> Any:
    """Its identity for secure sums, if it has one."""
    if (config.key is None) != (config.roster is None):
        raise FedcoverError(
            "the node's configuration has only one of key and roster",
            allowed="both, or none",
            fix="A secure sum needs the site's own key and everybody's public keys",
        )
    if config.key is None or config.roster is None:
        return None
    from fedcover.securesum import Participant, load_identity

    identity = load_identity(_contents(config.key))
    return Participant(config.site_name, identity, read_roster(config.roster))


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


def _contents(path: str) -> bytes:
    try:
        return read_whole(Path(path), MOST_TEXT)
    except OSError as error:
        raise FileError(
            f"{path} cannot be opened ({error.strerror})",
            allowed="a file that this process may read",
            fix="Correct the path in the configuration, or the file's permissions",
        ) from None
