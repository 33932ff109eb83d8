"""A site, from its node's configuration: data, key, roster, ledger and folders."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcover._io.writing import output_file
from fedcover.engines.flower.doctor.findings import Findings, private, readable, writable_folder
from fedcover.engines.flower.site_config import (
    known_keys,
    read_participant,
    read_policy,
    read_site,
    site_name,
    text_of,
)
from fedcover.engines.remote.policy import SitePolicy
from fedcover.errors import FedcoverError, FileError
from fedcover.privacy.ledger import Ledger
from fedcover.site import Site


@dataclass(frozen=True)
class SiteUnderTest:
    """What was found of a site; None where it is missing or broken."""

    name: str
    site: Site | None
    rules: SitePolicy | None
    ledger: Ledger | None
    sums: bool


def read_config(given: str) -> dict[str, Any]:
    """A node's configuration as `flower-supernode` takes it: a .toml file, or key="value" …"""
    from click import ClickException
    from flwr.common.config import parse_config_args

    try:
        if given.endswith(".toml"):
            readable(Path(given))
        return parse_config_args([given])
    except (ClickException, tomllib.TOMLDecodeError, ValueError) as error:
        if isinstance(error, FedcoverError):
            raise
        raise FileError(
            "the node's configuration cannot be read",
            allowed='a .toml file, or key="value" pairs with spaces between them',
            fix="Put texts in quotes; write true, false and numbers without",
        ) from None


def examine(found: Findings, config: Mapping[str, Any]) -> SiteUnderTest | None:
    """Looks at everything a site needs."""
    keys = found.look("node configuration", lambda: _keys(config))
    name = found.look("name", lambda: _name(config))
    if keys is None or name is None:
        return None
    rules = found.look("rules", lambda: _rules(config))
    site = found.look("data", lambda: _data(config))
    found.look("state", lambda: _state(config))
    if "out" in config:
        found.look("out", lambda: _out(config))
    ledger = found.look("ledger", lambda: _ledger(config)) if "ledger" in config else None
    if "ledger" not in config:
        _no_ledger(found, rules)
    sums = "key" in config or "roster" in config
    if sums:
        good = found.look("key and roster", lambda: _identity(config))
        sums = good is not None
    return SiteUnderTest(name, site, rules, ledger, sums)


def _keys(config: Mapping[str, Any]) -> tuple[bool, str]:
    known_keys(config)
    return True, f"{len(config)} settings, all known"


def _name(config: Mapping[str, Any]) -> tuple[str, str]:
    name = site_name(config)
    return name, name


def _rules(config: Mapping[str, Any]) -> tuple[SitePolicy, str]:
    rules = read_policy(config)
    exact = "exact answers allowed" if rules.exact else "no answer without a budget"
    least = f"secure sums of at least {rules.least_sum} sites"
    return rules, f"{', '.join(rules.methods)}; {exact}; {least}"


def _data(config: Mapping[str, Any]) -> tuple[Site, str]:
    path = readable(Path(text_of(config, "data")))
    try:
        site = read_site({"seed": 0, **config})  # no seed is drawn and kept by merely looking
    except FedcoverError as error:
        raise FileError(  # the text of the error may quote a record
            f"{path} is not as it must be",
            allowed=error.allowed,
            fix=f"`fedcover calibrate {path}` shows, on this machine, where",
        ) from None
    score = type(site.score).__name__
    return site, f"{len(site):,} records, {site.n_classes:,} classes, score {score}"


def _state(config: Mapping[str, Any]) -> tuple[bool, str]:
    folder = Path(text_of(config, "state"))
    if folder.is_dir():
        private(folder)
    return True, writable_folder(folder)


def _out(config: Mapping[str, Any]) -> tuple[bool, str]:
    path = Path(text_of(config, "out"))
    if path.suffix != ".json":
        raise FileError(f"{path} is no .json", allowed="a .json file", fix="Change its name")
    output_file(path)
    writable_folder(path.parent)
    return True, f"{path} {'will be replaced' if path.exists() else 'can be written'}"


def _ledger(config: Mapping[str, Any]) -> tuple[Ledger, str]:
    path = Path(text_of(config, "ledger"))
    if not path.exists():
        raise FileError(
            f"{path} does not exist",
            allowed="a ledger",
            fix=f"fedcover ledger set-budget {path} --create --epsilon 8 --delta 1e-5",
        )
    ledger = Ledger(path)
    state = ledger.state()
    if state.remaining <= 0:
        raise FedcoverError(
            f"ε = {state.spent:.4g} of {state.budget.epsilon:g} is spent",
            allowed="a ledger with budget left",
            fix="New queries will be refused; whoever is responsible may raise it: "
            "fedcover ledger set-budget",
        )
    return ledger, f"ε = {state.spent:.4g} of {state.budget.epsilon:g} spent"


def _no_ledger(found: Findings, rules: SitePolicy | None) -> None:
    if rules is not None and rules.exact:
        found.good("ledger", "none, and exact answers are allowed")
        return
    found.bad(
        "ledger",
        "there is none: the site answers as it is asked, with as little noise as the server likes",
        "fedcover ledger set-budget FILE --create --epsilon 8 --delta 1e-5, and `ledger` in the "
        "node's configuration",
    )


def _identity(config: Mapping[str, Any]) -> tuple[bool, str]:
    for key in ("key", "roster"):
        if key in config:
            readable(Path(text_of(config, key)))
    participant = read_participant(config)
    private(Path(text_of(config, "key")))
    roster = participant.roster
    kind = "Ed25519" if "Ed25519" in type(participant.identity).__name__ else "ECDSA P-384"
    return True, f"{kind}, as in the roster of {len(roster)} sites: {', '.join(sorted(roster))}"
