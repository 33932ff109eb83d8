"""Every file that the package reads: a valid one, its changes under a right checksum, its reader.

A checksum is no secret: whoever changes a file writes a new one. `Case.write` puts a hostile file
somewhere, and `Case.read` reads it and uses what came of it.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fedcover as fc
from fedcover import identity, wire
from fedcover.cli import files as cli_files
from fedcover.engines.base import Traffic
from fedcover.engines.flower import site_config
from fedcover.engines.remote.checkpoint import Checkpoint
from fedcover.methods.sketch import file as sketch_file
from fedcover.privacy import Budget, Ledger
from fedcover.securesum.state import State
from fedcover.wire import Message
from tests.fuzz import archives, mutations
from tests.fuzz.running import each

Random = random.Random


@dataclass(frozen=True)
class Case:
    """A kind of file: how a hostile one is made at a path, and how it is read and used there."""

    name: str
    write: Callable[[Random, Path], Path]
    read: Callable[[Path], object]


NAMES = ("healthy", "ill", "naïve")
RNG = np.random.default_rng(0)
PROBS, LABELS = RNG.dirichlet(np.ones(3), 40), RNG.integers(0, 3, 40)
EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)


@cache
def sites() -> list[fc.Site]:
    made = []
    for name in "abc":
        more: dict[str, Any] = {"label_names": NAMES, "seed": 0}
        made.append(fc.Site.from_probabilities(name, PROBS, LABELS, **more))
    return made


@cache
def sketches() -> tuple[fc.SketchResult, ...]:
    private = fc.Privacy(200, 1e-5)
    small = fc.methods.Sketch(bins=EDGES, confusion=True)
    grouped = fc.methods.Sketch(bins=EDGES, groups=["x", "y", "x"], most_per_site=30)
    return (
        fc.collect(sites(), fc.methods.Sketch(bins=64), private),
        fc.collect(sites(), replace(small, confusion=False), private),
        fc.collect(sites(), grouped, private),
        fc.collect(sites()),
    )


@cache
def elsewhere() -> fc.SketchResult:
    """The first of them, of other sites."""
    more: dict[str, Any] = {"label_names": NAMES, "seed": 0}
    made = [fc.Site.from_probabilities(name, PROBS, LABELS, **more) for name in "xyz"]
    return fc.collect(made, fc.methods.Sketch(bins=64), fc.Privacy(200, 1e-5))


def text_of(body: object, ascii_only: bool = False) -> str:
    return json.dumps(body, sort_keys=True, ensure_ascii=ascii_only)


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def calibrations() -> tuple[dict[str, Any], ...]:
    from tempfile import TemporaryDirectory

    cals = [
        fc.calibrate(sites(), (0.1, 0.2))["a"],
        fc.calibrate(sites(), 0.1, privacy=fc.Privacy(200, 1e-5))["b"],
        sketches()[0].personalise(sites()[0], 0.1, certify=0.9),
    ]
    with TemporaryDirectory() as folder:
        for k, cal in enumerate(cals):
            cal.save(Path(folder) / f"{k}.json")
        texts = [(Path(folder) / f"{k}.json").read_text("utf-8") for k in range(len(cals))]
    return tuple(json.loads(text) for text in texts)


def write_calibration(rng: Random, path: Path) -> Path:
    file = json.loads(json.dumps(rng.choice(calibrations())))
    how = rng.randrange(10)
    if how < 8:
        file["calibration"] = mutations.facts(rng, file["calibration"])
    if how == 8:
        file = mutations.facts(rng, file)
    if isinstance(file, dict):
        file["sha256"] = hashed(text_of(file.get("calibration")))
    raw = text_of(file).encode("utf-8", "surrogatepass")
    path.write_bytes(mutations.data(rng, raw) if how == 9 else raw)
    return path


def read_calibration(path: Path) -> None:
    cal = fc.Calibration.load(path)
    use_calibration(cal, path)


def use_calibration(cal: fc.Calibration, path: Path) -> None:
    """What a site does with a file it was given."""
    assert str(cal)
    each(
        lambda: cal.predict_set(PROBS, seed=0).to_csv(path.with_suffix(".csv")),
        lambda: cal.predict_set(logits=PROBS, seed=0).coverage_band(LABELS),
        lambda: cal.save(path.with_suffix(".again")),
        lambda: cal.privacy and cal.privacy.describe(),
    )


@cache
def sketch_parts() -> tuple[tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]], ...]:
    parts = []
    for sketch in sketches():
        with np.load(io.BytesIO(sketch_file.to_bytes(sketch))) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
        del arrays["sha256"]
        parts.append((header, arrays))
    return tuple(parts)


def sealed_sketch(header: object, arrays: dict[str, Any]) -> dict[str, Any]:
    """The parts of a sketch's file, with the checksum that fits."""
    text = text_of(header).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(text)
    for name in sorted(arrays):
        if arrays[name].dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                digest.update(np.ascontiguousarray(arrays[name].astype("<i8")).tobytes())
    seal = np.frombuffer(digest.digest(), np.uint8)
    return {"header": np.frombuffer(text, np.uint8), "sha256": seal, **arrays}


def hostile_sketch(rng: Random) -> bytes:
    header, arrays = rng.choice(sketch_parts())
    arrays, how = dict(arrays), rng.randrange(10)
    if how < 6:
        header = mutations.facts(rng, header)
    if how in (5, 6):
        name = rng.choice(sorted(arrays))
        arrays[name] = mutations.array(rng, arrays[name])
    parts = sealed_sketch(header, arrays)
    if how == 7:
        return archives.damaged_archive(rng, parts)
    raw = archives.archive({name: archives.member(array) for name, array in parts.items()})
    return mutations.data(rng, raw) if how == 8 else raw


def write_sketch(rng: Random, path: Path) -> Path:
    path = path.with_suffix(".npz")
    path.write_bytes(hostile_sketch(rng))
    return path


def read_sketch(path: Path) -> None:
    sketch = cli_files.load_sketch(path)
    assert str(sketch)
    each(
        lambda: use_calibration(sketch.personalise([1, 2, 3], [0.1, 0.5]), path),
        lambda: use_calibration(sketch.personalise(sites()[0], 0.1, certify=0.9), path),
        lambda: sketch.personalise([3, 2, 1], local_scores=sites()[0].scores),
        lambda: sketch + elsewhere(),
        lambda: sketch.method,
        lambda: sketch.save(path.with_suffix(".again")),
        lambda: sketch.privacy and sketch.privacy.describe(),
    )


@cache
def ledger_file(folder: str) -> bytes:
    """The bytes of a ledger with two answers and a change of budget."""
    path = Path(folder) / "valid.ledger"
    book = Ledger(path, create=Budget(5.0, 1e-5))
    release = fc.privacy.GaussianRelease("counts", 60.0, 1.0)
    for k in range(2):
        query, reply = Message("sketch", numbers={"k": k}), Message("sketch", {"x": np.arange(3)})
        book.answer(f"run/{k}", query, [release], lambda reply=reply: reply)
        book.set_budget(epsilon=6.0 + k)
    data = path.read_bytes()
    path.unlink()
    return data


def write_ledger(rng: Random, path: Path) -> Path:
    valid = ledger_file(str(path.parent))
    path = path.with_suffix(".ledger")
    if rng.random() < 0.15:
        path.write_bytes(mutations.data(rng, valid))
        return path
    path.write_bytes(valid)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        rows = db.execute("SELECT number, entry, reply FROM entries ORDER BY number").fetchall()
        hit, last = rng.randrange(len(rows)), None
        for number, text, reply in rows:
            entry = json.loads(text)
            if last is not None:
                entry["previous"] = last
            if number == hit:
                entry = mutations.facts(rng, entry)
                reply = rng.choice([reply, reply, b"", b"x", "text", 3, None])
            try:
                text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
                last = hashed(text)
                db.execute(
                    "UPDATE entries SET hash=?, entry=?, reply=? WHERE number=?",
                    (last, text, reply, number),
                )
            except (sqlite3.Error, ValueError):
                continue
        db.execute("UPDATE head SET hash=?", (last,))
        if rng.random() < 0.1:
            change = rng.choice(
                ["UPDATE entries SET entry = 3", "UPDATE entries SET entry = x'00ff'",
                 "UPDATE head SET number = 'x'", "DELETE FROM head", "DELETE FROM entries",
                 "UPDATE entries SET hash = NULL", "PRAGMA user_version = 77",
                 "INSERT INTO entries VALUES (99, 'x', 'y', NULL)"]
            )  # fmt: skip
            db.execute(change)
    return path


def read_ledger(path: Path) -> None:
    book = Ledger(path, timeout=1)
    assert book.state().describe()
    release = fc.privacy.GaussianRelease("counts", 60.0, 1.0)
    query, reply = Message("sketch", numbers={"k": 1}), Message("sketch", {"x": np.arange(3)})
    each(
        lambda: book.answer("run/1", query, [release], lambda: reply),
        lambda: book.answer("run/9", query, [release], lambda: reply),
        lambda: book.set_budget(epsilon=9.0),
    )


QUERIES = {name: Message("sketch", {"x": np.arange(4)}, {"n": 2}) for name in ("a", "b")}


def write_checkpoint(rng: Random, path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    kept = Checkpoint(path)
    kept.begin({"method": "sketch", "sites": ["a", "b"], "seed": None})
    traffic = Traffic.of(("a", "b"))
    kept.keep(0, QUERIES, QUERIES, traffic)
    kept.keep_survivors(0, ["a", "b"])
    change = path / rng.choice(["run.json", "0.survivors", "0.round", "0.round"])
    raw = change.read_bytes()
    if rng.random() < 0.2:
        change.write_bytes(mutations.data(rng, raw))
    elif change.suffix == ".round":
        change.write_bytes(hostile_wire(rng, wire.decode(raw)))
    else:
        changed = mutations.facts(rng, json.loads(raw))
        change.write_bytes(text_of(changed).encode("utf-8", "surrogatepass"))
    return path


def hostile_wire(rng: Random, given: Message) -> bytes:
    """A message that can be written, or bytes that nearly are one."""
    for _ in range(20):
        try:
            raw = wire.encode(mutations.message(rng, given))
            break
        except fc.FedcoverError:
            continue
    else:
        raw = wire.encode(given)
    return mutations.data(rng, raw) if rng.random() < 0.3 else raw


def read_checkpoint(path: Path) -> None:
    kept = Checkpoint(path)
    each(
        lambda: kept.begin({"method": "sketch", "sites": ["a", "b"], "seed": None}),
        lambda: kept.replies(0, QUERIES, Traffic.of(("a", "b"))),
        lambda: kept.survivors(0),
        kept.known,
    )


@cache
def outputs() -> dict[str, np.ndarray[Any, Any]]:
    return {
        "probs": PROBS,
        "labels": np.array(NAMES)[LABELS],
        "label_names": np.array(NAMES),
        "label_counts": np.array([5, 6, 7]),
        "ids": np.arange(40),
    }


def write_npz(rng: Random, path: Path) -> Path:
    path = path.with_suffix(".npz")
    arrays = dict(outputs())
    if rng.random() < 0.3:
        arrays["logits"] = arrays.pop("probs")
    how = rng.randrange(4)
    if how == 0:
        path.write_bytes(archives.damaged_archive(rng, arrays))
        return path
    if how < 3:
        name = rng.choice(sorted(arrays))
        if arrays[name].dtype.kind == "U":
            odd = [rng.choice(mutations.WORDS) for _ in range(len(arrays[name]))]
            arrays[name] = np.array([w.encode("utf-8", "replace").decode() for w in odd])
        else:
            arrays[name] = mutations.array(rng, arrays[name])
    raw = archives.archive({name: archives.member(array) for name, array in arrays.items()})
    path.write_bytes(mutations.data(rng, raw) if how == 3 else raw)
    return path


def write_csv(rng: Random, path: Path) -> Path:
    path = path.with_suffix(".csv")
    header = [*NAMES, "label", "id"]
    rows = [[*map(str, PROBS[k]), NAMES[LABELS[k]], str(k)] for k in range(len(PROBS))]
    table = [header, *rows[: rng.choice((1, 5, 40))]]
    for _ in range(rng.choice((0, 1, 1, 4))):
        row = rng.choice(table)
        if row:
            row[rng.randrange(len(row))] = rng.choice(
                [*mutations.WORDS, *map(str, mutations.NUMBERS), "nan", "inf", '"', '"a\nb"', "'='"]
            )
    raw = "\n".join(",".join(row) for row in table).encode("utf-8", "surrogatepass")
    path.write_bytes(mutations.data(rng, raw) if rng.random() < 0.4 else raw)
    return path


def write_parquet(rng: Random, path: Path) -> Path:
    import pyarrow
    from pyarrow import parquet

    path = path.with_suffix(".parquet")
    columns: dict[str, Any] = {name: PROBS[:, k] for k, name in enumerate(NAMES)}
    columns |= {"label": np.array(NAMES)[LABELS], "id": np.arange(40)}
    name = rng.choice(sorted(columns))
    odd: list[Any] = [None, [1], {"x": 1}, b"\x00", True, 3, "x", 1e308, float("nan"), 2**62]
    if rng.random() < 0.6:
        columns[name] = [rng.choice([None, rng.choice(odd)])] * 40
    if rng.random() < 0.2:
        word = rng.choice(mutations.WORDS[:-1]).encode("utf-8", "replace").decode()
        columns[word] = columns.pop(name)
    parquet.write_table(pyarrow.table(columns), path)
    if rng.random() < 0.5:
        path.write_bytes(mutations.data(rng, path.read_bytes()))
    return path


def read_site(path: Path) -> None:
    def use(logits: bool) -> None:
        site = fc.Site.from_file(path, "a", seed=0, logits=logits)
        cal = fc.calibrate([site], method=fc.methods.Local())["a"]
        use_calibration(cal, path.with_name("made"))

    each(lambda: use(False), lambda: use(True))


def write_labels(rng: Random, path: Path) -> Path:
    path = path.with_suffix(rng.choice([".json", ".csv", ".txt"]))
    if path.suffix == ".json":
        given = rng.choice([[1, 2, 3], {"healthy": 1, "ill": 2, "naïve": 3}])
        text = text_of(mutations.facts(rng, given))
    elif path.suffix == ".csv":
        rows = [f"{name},{rng.choice([*mutations.WORDS, 1, 2])}" for name in NAMES]
        text = "\n".join(["class,value", *rows])
    else:
        text = rng.choice(["1,2,3", "1\n2\n3", "1e400,2,3", "9" * 5000])
    raw = text.encode("utf-8", "surrogatepass")
    path.write_bytes(mutations.data(rng, raw) if rng.random() < 0.5 else raw)
    return path


def read_labels(path: Path) -> None:
    found = cli_files.read_label_file(path)
    cli_files.numbers(found.of_every(3, NAMES, "1"), "counts")


SETTINGS = {
    "data": "site.npz", "state": "state", "name": "mercy", "out": "cal.json", "methods": "sketch",
    "exact": True, "least-sum": 3, "score": "aps", "score-u": 0.5, "temperature": 1.0,
    "logits": False, "seed": 3, "roster": "roster", "key": "key", "ledger": "ledger",
}  # fmt: skip


def write_settings(rng: Random, path: Path) -> Path:
    path = path.with_suffix(".toml")
    given = {k: v for k, v in SETTINGS.items() if k in ("data", "state") or rng.random() < 0.4}
    changed = mutations.facts(rng, given)
    lines = []
    for key, value in (changed if isinstance(changed, dict) else {}).items():
        lines.append(f"{json.dumps(key)} = {json.dumps(value)}")
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")
    path.write_bytes(mutations.data(rng, raw) if rng.random() < 0.3 else raw)
    return path


def read_settings(path: Path) -> None:
    import os

    from fedcover.engines.flower.doctor.site import read_config

    found = read_config(str(path))
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        np.savez("site.npz", probs=PROBS, labels=LABELS)
        site_config.client_from_config(found)
    finally:
        os.chdir(before)


def write_roster(rng: Random, path: Path) -> Path:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from tests.remote.federation import identity

    lines = [
        name.encode()
        + b" "
        + identity(name).public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        for name in ("s0", "s1", "s2")
    ]
    path.write_bytes(mutations.data(rng, b"\n".join(lines)))
    return path


def read_roster(path: Path) -> None:
    identity.read_roster(path)


@cache
def sum_states() -> tuple[tuple[bytes, Message, str], ...]:
    """States of a site between two stages of a secure sum, and the query that is next."""
    from tests.remote.federation import identity
    from tests.securesum import driving

    found = []
    net = driving.Federation(4, keys=identity)
    while net.result is None:
        query = net.queries["s0"]
        if net.states["s0"] is not None:
            found.append((net.states["s0"], query, "s0"))
        net.step()
    found.append((net.states["s0"], net.spec.to_message(), "s0"))
    return tuple(found)


def write_sum_state(rng: Random, path: Path) -> Path:
    which = rng.randrange(len(sum_states()))
    state = sum_states()[which][0]
    path = path.with_suffix(f".{which}")
    path.write_bytes(hostile_wire(rng, wire.decode(state)))
    return path


def read_sum_state(path: Path) -> None:
    from fedcover.securesum import Participant
    from tests.remote.federation import identity

    state = State.of_bytes(path.read_bytes())
    _, query, name = sum_states()[int(path.suffix[1:])]
    roster = {f"s{k}": identity(f"s{k}").public_key() for k in range(4)}
    site = Participant(name, identity(name), roster)
    site.answer(query, state.to_bytes(), lambda spec: Message("sum", {"x": np.arange(5)}))


CASES = (
    Case("calibration", write_calibration, read_calibration),
    Case("sketch", write_sketch, read_sketch),
    Case("ledger", write_ledger, read_ledger),
    Case("checkpoint", write_checkpoint, read_checkpoint),
    Case("secure-sum state", write_sum_state, read_sum_state),
    Case("site npz", write_npz, read_site),
    Case("site csv", write_csv, read_site),
    Case("site parquet", write_parquet, read_site),
    Case("label file", write_labels, read_labels),
    Case("settings", write_settings, read_settings),
    Case("roster", write_roster, read_roster),
)
