"""Who gets in at the SuperLink: the one look that opens connections.

Flower's Control, Runtime and Fleet APIs share one port. Whoever reaches the first can run any
program at every site that starts what it is sent; in Flower's open version, without a login. So
this asks for the list of runs as a stranger with the public CA certificate could, and takes an
answer for an open door. It starts nothing, and takes no work away: it offers to do none.
"""

from __future__ import annotations

import socket
import ssl
from http.client import HTTPException, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path

from fedcover.engines.flower.doctor.findings import Findings, readable
from fedcover.errors import FedcoverError

CONTROL = ("/v1/control/list-runs", "/v1/runtime/acquire-task")
"""Harmless with an empty request: a list of runs; nothing, as it names no work that it would do."""

FLEET = "/v1/fleet/pull-messages"
"""What nodes ask; without a node's signature the SuperLink answers 401."""

CLOSED = (401, 403, 404, 405)
PATIENT = 10.0
PROXY = (
    "Bind the SuperLink to 127.0.0.1 and let sites through a proxy that passes /v1/fleet/ alone: "
    "nginx.conf of `fedcover flower init`"
)


def examine(found: Findings, address: str | None, ca: Path | None, control: str | None) -> None:
    """Looks at the address that sites use, and at the coordinator's own way to the SuperLink."""
    if address is not None and ca is not None:
        found.look("control, from outside", lambda: (None, _closed(address, ca)))
        found.look("the sites' way in", lambda: (None, _fleet(address, ca)))
    elif address is not None:
        found.bad(
            "control, from outside",
            "not looked at: there is no --ca to call the server with",
            "Give the CA certificate that sites have",
        )
    if control is not None:
        found.look("the SuperLink itself", lambda: (None, _inside(control)))


def _closed(address: str, ca: Path) -> str:
    for path in CONTROL:
        status = _status(address, ca, path)
        if status == 200:
            raise FedcoverError(
                f"THE DOOR IS OPEN: {address}{path} answers anybody. Who reaches this port can run "
                "programs at the sites",
                allowed="control from the coordinator's machine alone",
                fix=PROXY,
            )
        if status not in CLOSED:
            raise FedcoverError(
                f"{address}{path} answers with HTTP {status}: whether it is closed is not known",
                allowed=f"a refusal: HTTP {', '.join(map(str, CLOSED))}",
                fix=PROXY,
            )
    return f"refused at {address}: nobody starts a run from there"


def _fleet(address: str, ca: Path) -> str:
    status = _status(address, ca, FLEET)
    if status != 401:
        raise FedcoverError(
            f"{address}{FLEET} answers a stranger with HTTP {status}",
            allowed="HTTP 401: the SuperLink, which asks for a node's signature",
            fix="502: start the SuperLink behind the proxy. 403 or 404: let the proxy pass "
            "/v1/fleet/. 200: start the SuperLink with --enable-supernode-auth",
        )
    return "the SuperLink answers, and asks for a node's signature"


def _status(address: str, ca: Path, path: str) -> int:
    host, port = _parts(address)
    try:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # as a SuperNode has it
        trust.load_verify_locations(cafile=readable(ca))
        connection = HTTPSConnection(host, port, timeout=PATIENT, context=trust)
        try:
            kind = {"content-type": "application/protobuf", "accept": "application/protobuf"}
            connection.request("POST", path, body=b"", headers=kind)
            return connection.getresponse().status
        finally:
            connection.close()
    except (OSError, HTTPException) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise FedcoverError(
            f"no answer from {address} over TLS ({why or type(error).__name__}): whether control "
            "is closed is not known",
            allowed="a server that can be called with the CA certificate",
            fix="Start SuperLink and proxy, and ask again; or correct --address and --ca",
        ) from None


def _inside(control: str) -> str:
    """That the SuperLink listens to its own machine only."""
    host, port = _parts(control)
    if not _is_loopback(host):
        raise FedcoverError(
            f"the SuperLink is called at {host}, which others can reach",
            allowed="127.0.0.1 or localhost",
            fix=PROXY,
        )
    if not _listens(host, port):
        raise FedcoverError(
            f"nothing listens at {control}",
            allowed="the SuperLink, started before this look",
            fix="Start it, or correct --control",
        )
    for other in _other_addresses():
        if _listens(other, port):
            raise FedcoverError(
                f"THE DOOR IS OPEN: port {port} of the SuperLink answers at {other} too",
                allowed="at 127.0.0.1 alone",
                fix="Start it with --host 127.0.0.1",
            )
    return f"listens at {control}, and not at this machine's other addresses"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _other_addresses() -> list[str]:
    """Addresses of this machine besides 127.0.0.1; no packet is sent to find them."""
    found = ["127.0.0.2"]  # on Linux: who listens everywhere listens here
    for family, far in ((socket.AF_INET, "192.0.2.254"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                found.append(probe.getsockname()[0])
        except OSError:  # no network of this kind
            continue
    return found


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=PATIENT / 5).close()
    except OSError:
        return False
    return True


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise FedcoverError(
            f"the address is {address!r}", allowed="HOST:PORT", fix="Write 127.0.0.1:8000, say"
        )
    return host.strip("[]"), int(port)
