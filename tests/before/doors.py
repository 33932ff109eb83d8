"""All names without a public path that the fixtures need, in one place.

Where modules move, this file follows; what was written and what was computed stay as they are.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

import fedcover as fc
from fedcover import wire
from fedcover.engines.flower.run_config import Run
from fedcover.engines.flower.site_config import client_from_config
from fedcover.engines.remote.envelope import Envelope
from fedcover.engines.remote.result_message import sketch_message
from fedcover.methods.registry import entry_of
from fedcover.methods.sketch.file import from_bytes
from fedcover.privacy.randomness import SeededBytes
from fedcover.wire import Message
from tests.remote.federation import (
    BUDGET,
    OPEN,
    SKETCH,
    Net,
    Server,
    identity,
    kind,
    made,
    silent,
)

__all__ = [
    "BUDGET",
    "OPEN",
    "SKETCH",
    "Message",
    "Net",
    "Server",
    "calibrate",
    "collect",
    "decoded",
    "encoded",
    "envelope",
    "finish_letter",
    "key_files",
    "kind",
    "letter_of",
    "made",
    "node_of",
    "of_version",
    "policy_of",
    "rewritten",
    "run_of",
    "silent",
    "table_of",
    "with_statement",
]


def calibrate(noise, sites, *given, **options):
    """`fc.calibrate`, with the privacy noise of a seed."""
    engine = fc.engines.InProcess(source=SeededBytes(noise, 0))
    return fc.calibrate(sites, *given, engine=engine, **options)


def collect(noise, sites, *given, **options):
    """`fc.collect`, with the privacy noise of a seed."""
    engine = fc.engines.InProcess(source=SeededBytes(noise, 0))
    return fc.collect(sites, *given, engine=engine, **options)


def encoded(message):
    """The bytes of a message."""
    return wire.encode(message)


def decoded(data):
    """The message in some bytes."""
    return wire.decode(data)


def envelope(data):
    """What stands in an envelope: (stage, run, round, facts, message or None)."""
    one = Envelope.of_bytes(data)
    return one.phase, one.run, one.number, dict(one.header), one.payload


def letter_of(stage, run, number, message=None):
    """The bytes of an envelope."""
    return Envelope(stage, run, number, {}, message).to_bytes()


def rewritten(data):
    """An envelope, read and written again."""
    return Envelope.of_bytes(data).to_bytes()


def finish_letter(run, sketch, alphas):
    """What a site gets at the end of a run."""
    facts = {"alphas": list(alphas), "certify": None}
    return Envelope("finish", run, 1, facts, sketch_message(sketch)).to_bytes()


def with_statement(data, statement):
    """What a site gets at the end of a run, with what the sketch in it promises."""
    one = Envelope.of_bytes(data)
    sketch = from_bytes(one.payload.arrays["file"].tobytes())
    return replace(one, payload=sketch_message(replace(sketch, privacy=statement))).to_bytes()


def of_version(data, version):
    """The same envelope as another version would write it."""
    outer = decoded(data)
    return encoded(Message(outer.kind, outer.arrays, {**outer.numbers, "version": version}))


def node_of(text, folder):
    """The site of a node's configuration, whose files are in a folder."""
    return client_from_config(tomllib.loads(text.replace("FOLDER", str(folder))))


def policy_of(node):
    """What a site accepts."""
    rules = node.policy
    return {
        "methods": list(rules.methods),
        "exact": rules.exact,
        "least-sum": rules.least_sum,
    }


def run_of(text):
    """What a run configuration asks for."""
    run = Run.of(tomllib.loads(text))
    return {
        "method": repr(run.make_method()),
        "known_as": entry_of(run.make_method()).name,
        "alphas": list(run.alphas),
        "privacy": None if run.privacy is None else run.privacy.to_facts(),
        "sites": run.sites,
        "fewest": [run.min_survivors(n) for n in (3, 4, 6)],
        "folder": run.folder.as_posix(),
        "seconds": run.seconds,
        "resends": run.resends,
        "seed": run.seed,
        "certify": run.certify,
    }


def key_files(folder, name, roster):
    """The key of a site and the roster, as `ssh-keygen` writes them."""
    private = identity(name).private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    (folder / f"{name}.key").write_bytes(private)
    form = (Encoding.OpenSSH, PublicFormat.OpenSSH)
    public = {one: identity(one).public_key().public_bytes(*form).decode() for one in roster}
    (folder / "roster").write_text("".join(f"{one} {key}\n" for one, key in public.items()))


def table_of(published):
    """The arrays of a table that a run published."""
    return {"table": np.asarray(published.table), "labels": np.asarray(published.labels)}
