"""All looks in order: what is given decides which."""

from __future__ import annotations

import platform
from pathlib import Path

from fedcover.engines.flower.doctor import certificates, doors
from fedcover.engines.flower.doctor import site as sites
from fedcover.engines.flower.doctor.findings import Findings
from fedcover.engines.flower.scaffold import FLOWER, installed


def examine_packages(found: Findings) -> None:
    """Looks at Python, fedcover, Flower and what secure sums need."""
    found.good("Python", platform.python_version())
    found.good("fedcover", f"{installed('fedcover')}; must be the same everywhere")
    flower = installed("flwr")
    if flower == FLOWER:
        found.good("Flower", f"{flower}, the version this fedcover was tested with")
    else:
        says = "is not installed" if flower is None else f"is {flower}, tested was {FLOWER}"
        found.bad("Flower", says, f"pip install 'fedcover[flower]', or 'flwr=={FLOWER}'")
    lacking = [name for name in ("cryptography", "pycryptodome") if installed(name) is None]
    if lacking:
        found.bad("secure sums", f"{lacking[0]} is missing", "pip install 'fedcover[secure]'")
    else:
        found.good("secure sums", "cryptography and pycryptodome are there")


def examine(
    app: Path | None,
    run_config: list[str],
    node_config: str | None,
    certificate: Path | None,
    certificate_key: Path | None,
    ca: Path | None,
    address: str | None,
    control: str | None = None,
) -> Findings:
    """Looks at a set-up, from the server's side or from a site's (with `node_config`)."""
    found = Findings()
    examine_packages(found)
    if installed("flwr") is None or installed("cryptography") is None:
        return found  # the rest needs them
    certificates.examine(found, certificate, certificate_key, ca, address)
    doors.examine(found, address, ca, control)
    tested = None
    if node_config is not None:
        config = found.look(
            "--node-config", lambda: (sites.read_config(node_config), "can be read")
        )
        tested = None if config is None else sites.examine(found, config)
    if app is not None:
        from fedcover.engines.flower.doctor import app as apps

        run = apps.examine(found, app, run_config, at_server=node_config is None)
        if run is not None and tested is not None:
            apps.examine_together(found, run, tested)
        if tested is not None and tested.approved is not None:
            sites.examine_approval(found, app, tested.approved)
    return found
