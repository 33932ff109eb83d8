"""A site from the configuration of its own node; the server has no say in any of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcover import scores
from fedcover.engines.flower.settings import read_settings, setting
from fedcover.engines.remote.client import Client
from fedcover.engines.remote.client_state import ClientState
from fedcover.engines.remote.codes import Refusal
from fedcover.engines.remote.policy import SitePolicy
from fedcover.errors import FedcoverError
from fedcover.methods.registry import usual_names
from fedcover.privacy.ledger import Ledger
from fedcover.signature import COORDINATOR
from fedcover.site import Site

FLOWERS_OWN = ("partition-id", "num-partitions")
"""What Flower's simulation adds to a node's configuration."""

BY_EXECUTOR = "FEDCOVER_EXECUTOR"
"""Stands in the environment of processes that the site's own executor has started."""


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
        "its private key, for ledger, secure sums and the signature of its calibration; that of "
        "its SuperNode will do",
        None,
    )
    roster: str | None = setting(
        "file with the public keys of all sites, one 'NAME KEY' a line", None
    )
    coordinator: str | None = setting(
        "file with the coordinator's public key: results that it has not signed are refused", None
    )
    approved: str | None = setting(
        "folder of the apps that may run here; see `fedcover flower approve`", None
    )
    methods: str | None = setting(
        "methods it takes part in, with commas; default " + ", ".join(usual_names()), None
    )
    exact: bool = setting("true to answer without a privacy budget and a ledger", False)
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
    if own.approved is not None and BY_EXECUTOR not in os.environ:
        raise Refusal(  # or the rule would stand there and not hold
            "executor",
            "the site has a folder of approved apps, and Flower starts any app here",
            allowed="apps that the site's own executor starts",
            fix="Start flower-supernode with --isolation process, and `fedcover flower executor`",
        )
    return Client(
        site=read_site(own),
        state=ClientState(Path(own.state)),
        policy=read_policy(own),
        ledger=read_ledger(own),
        participant=read_participant(own),
        out=None if own.out is None else Path(own.out),
        identity=read_key(own),
        coordinator=read_coordinator(own),
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


def read_ledger(config: SiteConfig) -> Ledger | None:
    """Its privacy budget, bound to its records."""
    if config.ledger is None:
        return None
    ledger = Ledger(config.ledger, key=config.key)
    ledger.bind(config.data)
    return ledger


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
    if config.roster is None:
        return None
    if config.key is None:
        raise FedcoverError(
            "the node's configuration has a roster and no key",
            allowed="both, or a key alone, with which the site signs its calibration",
            fix="A secure sum needs the site's own key and everybody's public keys",
        )
    # Keys need an extra, and are slow to import: only who has one asks for it.
    from fedcover.identity import read_identity, read_roster
    from fedcover.securesum import Participant

    return Participant(config.site_name, read_identity(config.key), read_roster(config.roster))


def read_key(config: SiteConfig) -> Any:
    """The key with which it signs, if it has one."""
    if config.key is None:
        return None
    from fedcover.identity import read_identity

    return read_identity(config.key)


def read_coordinator(config: SiteConfig) -> Any:
    """The coordinator's public keys, if it asks for signatures."""
    if config.coordinator is None:
        return None
    from fedcover.identity import read_public_keys

    return read_public_keys(config.coordinator, COORDINATOR)
