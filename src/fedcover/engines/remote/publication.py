"""What a coordinator signs of its last message, and how a site checks it.

The signature is for one site of one run: the result of another run, or of another site, does not
pass for it. It covers every fact of the header and every byte of the message. The time of signing
is one of these facts, so that a site can tell an old result from the latest: both are signed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedcover import wire
from fedcover._io.facts import digest, facts_of, made_of, to_json
from fedcover.engines.remote.codes import Refusal
from fedcover.engines.remote.envelope import Envelope
from fedcover.signature import COORDINATOR, Signature, holds, signed
from fedcover.wire import Message

if TYPE_CHECKING:
    from fedcover.identity import Identity, Roster

KEY = "signature"
"""Where the signature stands in the header."""

TIME = "signed_at"
"""Where the time of signing stands in it, in nanoseconds by the coordinator's clock."""


def signed_header(
    identity: Identity, run: str, site: str, header: Mapping[str, Any], message: Message
) -> dict[str, Any]:
    """The header with the coordinator's signature of the whole."""
    dated = {**header, TIME: time.time_ns()}
    facts = _facts(run, site, dated, message)
    one = signed(identity, COORDINATOR, COORDINATOR, "publication", **facts)
    return {**dated, KEY: facts_of(one)}


def checked_signature(
    envelope: Envelope, site: str, coordinator: Roster, latest: int
) -> tuple[Signature, int]:
    """The coordinator's signature of what it published for this site in this run, and its time.

    Refused are all others, and what was signed before `latest`: the time of the result that the
    site has.
    """
    assert envelope.payload is not None
    header = {key: value for key, value in envelope.header.items() if key != KEY}
    if KEY not in envelope.header:
        raise _refused("has no signature")
    try:
        found: Signature = made_of(Signature, envelope.header[KEY])
    except (TypeError, ValueError):
        raise _refused("has a signature that is none") from None
    wanted = {"of": "publication", **_facts(envelope.run, site, header, envelope.payload)}
    for what, value in wanted.items():
        if getattr(found, what) != value:
            raise _refused(f"has a signature of another {what}")
    if not holds(found, coordinator):
        raise _refused("has a signature that no key of the coordinator made, or a revoked one")
    when = header.get(TIME)
    if type(when) is not int:
        raise _refused("has no time in its signature")
    if when < latest:
        raise _refused("was signed before the result that this site has")
    return found, when


def _facts(run: str, site: str, header: Mapping[str, Any], message: Message) -> dict[str, Any]:
    content = {"header": digest(to_json(header)), "payload": digest(wire.encode(message))}
    method = str(header.get("method", "sketch"))
    return {"run": run, "site": site, "method": method, "digest": digest(to_json(content))}


def _refused(why: str) -> Refusal:
    return Refusal(
        "signature",
        f"what was published {why}",
        allowed="results signed by the coordinator whose public key stands in `coordinator`",
        fix="Have the run sign with `key`, or put its new public key into this site's file. Was "
        "the coordinator's clock put back, then wait, or remove published.json from the folder "
        "for state. If it is none of these, somebody else sent this",
    )
