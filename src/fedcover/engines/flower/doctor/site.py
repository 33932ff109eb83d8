"""A site, from its node's configuration: data, key, roster, ledger and folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcover._io.writing import output_file
from fedcover.engines.flower.approval import approved, bundle, digest_of
from fedcover.engines.flower.doctor.findings import (
    Findings,
    private,
    readable,
    shown_key,
    writable_folder,
)
from fedcover.engines.flower.site_config import (
    SiteConfig,
    read_coordinator,
    read_participant,
    read_policy,
    read_site,
)
from fedcover.engines.remote.policy import SitePolicy
from fedcover.errors import FedcoverError, FileError
from fedcover.privacy.ledger import Ledger
from fedcover.signature import COORDINATOR
from fedcover.site import Site


@dataclass(frozen=True)
class SiteUnderTest:
    """What was found of a site; None where it is missing or broken."""

    name: str
    site: Site | None
    policy: SitePolicy | None
    ledger: Ledger | None
    sums: bool
    approved: Path | None


def read_config(given: str) -> dict[str, Any]:
    """A node's configuration as `flower-supernode` takes it: a .toml file, or key="value" …"""
    from click import ClickException
    from flwr.common.config import parse_config_args

    try:
        if given.endswith(".toml"):
            readable(Path(given))
        return parse_config_args([given])
    except (ClickException, RecursionError, ValueError) as error:
        if isinstance(error, FedcoverError):
            raise
        raise FileError(
            "the node's configuration cannot be read",
            allowed='a .toml file, or key="value" pairs with spaces between them',
            fix="Put texts in quotes; write true, false and numbers without",
        ) from None


def examine(found: Findings, config: Mapping[str, Any]) -> SiteUnderTest | None:
    """Looks at everything a site needs."""
    all_known = f"{len(config)} settings, all known"
    own = found.look("node configuration", lambda: (SiteConfig.of(config), all_known))
    if own is None:
        return None
    found.good("name", own.site_name)
    policy = found.look("policy", lambda: _policy(own))
    site = found.look("data", lambda: _data(own))
    found.look("state", lambda: _state(Path(own.state)))
    if (out := own.out) is not None:
        found.look("out", lambda: _out(Path(out)))
    ledger = None
    if (path := own.ledger) is not None:
        ledger = found.look("ledger", lambda: _ledger(Path(path), own, site))
    else:
        _no_ledger(found, policy)
    sums = own.roster is not None
    if sums:
        good = found.look("key and roster", lambda: _identity(own))
        sums = good is not None
    elif own.key is not None:
        found.look("key", lambda: _key(Path(own.key or "")))
    found.look("coordinator", lambda: _coordinator(own))
    folder = None if own.approved is None else Path(own.approved)
    if folder is None:
        found.good("apps", "any that the server sends is started here, with this user's rights")
    return SiteUnderTest(own.site_name, site, policy, ledger, sums, folder)


def examine_approval(found: Findings, app: Path, folder: Path) -> None:
    """Looks at whether the site lets an app run."""

    def approval() -> tuple[bool, str]:
        content = bundle(app)
        if approved(content, folder) is None:
            raise FileError(
                f"{app} is not among the apps in {folder}",
                allowed="an app that this site has read and approved",
                fix="Read it, then: fedcover flower approve APP --node-config …",
            )
        return True, f"{app} may run here; SHA-256 {digest_of(content)[:16]}…"

    found.look("apps", approval)


def _policy(config: SiteConfig) -> tuple[SitePolicy, str]:
    policy = read_policy(config)
    exact = "exact answers allowed" if policy.exact else "no answer without a budget"
    least = f"secure sums of at least {policy.least_sum} sites"
    against = f"against {policy.conspirators} that conspire with the server"
    if policy.conspirators == 0:
        against = "that trust every other site"
    return policy, f"{', '.join(policy.methods)}; {exact}; {least}, {against}"


def _data(config: SiteConfig) -> tuple[Site, str]:
    path = readable(Path(config.data))
    try:
        # No seed is drawn and kept by merely looking.
        site = read_site(replace(config, seed=0) if config.seed is None else config)
    except FedcoverError as error:
        raise FileError(  # the text of the error may quote a record
            f"{path} is not as it must be",
            allowed=error.allowed,
            fix=f"`fedcover calibrate {path}` shows, on this machine, where",
        ) from None
    score = type(site.score).__name__
    return site, f"{len(site):,} records, {site.n_classes:,} classes, score {score}"


def _state(folder: Path) -> tuple[bool, str]:
    if folder.is_dir():
        private(folder)
    return True, writable_folder(folder)


def _out(path: Path) -> tuple[bool, str]:
    if path.suffix != ".json":
        raise FileError(f"{path} is no .json", allowed="a .json file", fix="Change its name")
    output_file(path)
    writable_folder(path.parent)
    return True, f"{path} {'will be replaced' if path.exists() else 'can be written'}"


def _ledger(path: Path, config: SiteConfig, site: Site | None) -> tuple[Ledger, str]:
    if not path.exists():
        raise FileError(
            f"{path} does not exist",
            allowed="a ledger",
            fix=f"fedcover ledger set-budget {path} --create --epsilon 8 --delta 1e-5 "
            f"--key {config.key or 'KEY'} --data {config.data}",
        )
    if config.key is not None:
        private(readable(Path(config.key)))
    ledger = Ledger(path, key=config.key)
    state = ledger.check_data(config.data)
    if site is not None:
        state.budget.check_records(len(site))
    if state.remaining <= 0:
        raise FedcoverError(
            f"ε = {state.spent:.4g} of {state.budget.epsilon:g} is spent",
            allowed="a ledger with budget left",
            fix="New queries will be refused; whoever is responsible may raise it: "
            "fedcover ledger set-budget",
        )
    sealed = (
        "sealed with this site's key" if state.key else "not keyed: whoever writes it changes it"
    )
    return ledger, f"ε = {state.spent:.4g} of {state.budget.epsilon:g} spent; {sealed}"


def _no_ledger(found: Findings, policy: SitePolicy | None) -> None:
    if policy is not None and policy.exact:
        found.good("ledger", "none, and exact answers are allowed")
        return
    found.bad(
        "ledger",
        "there is none: the site answers no run, for nobody would add up what the runs cost",
        "fedcover ledger set-budget FILE --create --epsilon 8 --delta 1e-5 --key KEY --data FILE, "
        "and `ledger` and `key` in the node's configuration",
    )


def _identity(config: SiteConfig) -> tuple[bool, str]:
    for path in (config.key, config.roster):
        if path is not None:
            readable(Path(path))
    participant = read_participant(config)
    assert config.key is not None  # or there would be no participant
    private(Path(config.key))
    roster = participant.roster
    kind = "Ed25519" if "Ed25519" in type(participant.identity).__name__ else "ECDSA P-384"
    return True, f"{kind}, as in the roster of {len(roster)} sites: {', '.join(sorted(roster))}"


def _key(path: Path) -> tuple[bool, str]:
    from fedcover.identity import read_identity

    key = read_identity(private(readable(path)))
    return True, f"signs the calibration; fingerprint {shown_key(key.public_key())}"


def _coordinator(config: SiteConfig) -> tuple[bool, str]:
    if config.coordinator is None:
        return False, "no public key: this site takes results that nobody has signed"
    from fedcover.identity import keys_of

    readable(Path(config.coordinator))
    keys = keys_of(read_coordinator(config), COORDINATOR)
    if not keys:
        raise FileError(
            f"{config.coordinator} has revoked keys only",
            allowed="at least one key that is believed",
            fix="Add the line of the coordinator's new .pub file",
        )
    return True, "results must be signed with " + " or ".join(map(shown_key, keys))
