"""A sketch as one small file: an .npz of integers with a JSON header, a version and a checksum."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcover import checks, scores, signature
from fedcover._io.archives import Archive, BrokenArchive
from fedcover._io.facts import (
    FIELDS_THAT_CANNOT_BE,
    facts_of,
    from_json,
    made_of,
    plain_texts,
    to_json,
)
from fedcover._io.reading import read_whole
from fedcover._io.writing import write
from fedcover.calibration import Cost
from fedcover.classnames import names
from fedcover.errors import FileError
from fedcover.methods.sketch.client import MOST_CONFUSED
from fedcover.methods.sketch.result import SketchResult
from fedcover.methods.sketch.table import MOST_BINS, MOST_CELLS, Layout, SketchTable
from fedcover.position import TOP
from fedcover.privacy import accounting
from fedcover.privacy.statement import PrivacyStatement
from fedcover.signature import Signature, Trusted
from fedcover.site import checked_name

SCHEMA, SCHEMA_VERSION = "fedcover/sketch", 3
"""Version 2 had no signatures, and statements of privacy that did not say whose word they are."""

MOST_BYTES = 1 << 30
"""Largest file that is opened."""

MOST_HEADER = 1 << 25
"""Longest header, 32 MiB: it has the names of up to a million labels."""

MOST_IN_ROW = 1 << 61
"""Largest sum of a row of a table."""


def save(sketch: SketchResult, path: str | Path) -> None:
    """Write a sketch; the file is replaced only when fully written."""
    write(path, to_bytes(sketch))


def to_bytes(sketch: SketchResult) -> bytes:
    """The bytes of a sketch's file."""
    text, arrays = _parts(sketch)
    seal = _digest(text, arrays)
    good = [one for one in sketch.signatures if one.digest == seal.hex()]
    beside = to_json(signature.to_facts(good), ascii_only=False).encode()
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        header=np.frombuffer(text, np.uint8),
        sha256=np.frombuffer(seal, np.uint8),
        signatures=np.frombuffer(beside, np.uint8),
        **arrays,  # type: ignore[arg-type]
    )
    return buffer.getvalue()


def content_digest(sketch: SketchResult) -> str:
    """SHA-256 that seals a sketch, in hexadecimal: what is signed."""
    return _digest(*_parts(sketch)).hex()


def _parts(sketch: SketchResult) -> tuple[bytes, dict[str, NDArray[Any]]]:
    """What the checksum is of: the header and the tables."""
    table = sketch.table
    header = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "layout": facts_of(table.layout),
        "scale": table.scale,
        "table_noise": table.table_noise,
        "label_noise": table.label_noise,
        "confusion_noise": table.confusion_noise,
        "records": table.records,
        "sites": table.sites,
        "most_per_site": sketch.most_per_site,
        "privacy": facts_of(sketch.privacy),
        "cost": facts_of(sketch.cost),
        "score": sketch.score.spec() if sketch.score else None,
        "temperature": sketch.temperature,
        "label_names": sketch.label_names,
    }
    text = to_json(header, ascii_only=False).encode()
    arrays = {"table": _compact(table.table), "labels": _compact(table.labels)}
    if table.confusion is not None:
        arrays["confusion"] = _compact(table.confusion)
    return text, arrays


def load(path: str | Path, trusted: Trusted | None = None) -> SketchResult:
    """Read a sketch; one clear error for anything else, or where nobody trusted has signed it."""
    try:
        path = Path(path)
        data = read_whole(path, MOST_BYTES)
    except OSError as error:
        raise _unreadable(path, f"cannot be opened ({error.strerror})") from None
    except (TypeError, ValueError):
        raise _unreadable(repr(path), "is not a path") from None
    sketch = from_bytes(data, path)
    if trusted is not None:
        seal = content_digest(sketch)
        signature.verify(sketch.signatures, "sketch", seal, trusted, path=path)
    return sketch


def from_bytes(data: bytes, path: str | Path = "a sketch") -> SketchResult:
    """The sketch in the bytes of its file."""
    try:
        with Archive(data) as archive:
            return _from_archive(archive, path)
    except BrokenArchive:
        raise _unreadable(path, "is not a sketch of fedcover, or only a part of one") from None


def _from_archive(archive: Archive, path: str | Path) -> SketchResult:
    """The header first: it says how large the arrays are, and is held to the limits."""
    text = _array(archive, "header", MOST_HEADER).tobytes()
    digest = _array(archive, "sha256", hashlib.sha256().digest_size).tobytes()
    try:
        header = from_json(text)
    except ValueError:
        raise _unreadable(path, "has a header that is not JSON") from None
    if header.get("schema") != SCHEMA:
        raise _unreadable(path, "is not a sketch of fedcover")
    if header.get("version") == 1:
        raise FileError(
            f"{path} was written by fedcover 0.1, whose bins lose coverage on many models",
            allowed="sketches of this version",
            fix="Collect again; calibrations made from it can still be read",
        )
    if header.get("version") not in (2, SCHEMA_VERSION):
        raise FileError(
            f"{path} has schema version {header.get('version')!r}",
            allowed=f"version {SCHEMA_VERSION}, or 2",
            fix="Install the version of fedcover that wrote it",
        )
    try:
        if not plain_texts(header):
            raise ValueError("a text with characters that cannot be seen")
        layout = _layout(header["layout"])
        arrays = _arrays(archive, layout)
        if digest != _digest(text, arrays):
            raise _unreadable(path, "was changed or damaged: its checksum does not match")
        return _from(header, layout, arrays, _signatures(archive, digest.hex()))
    except (BrokenArchive, FileError):
        raise
    except FIELDS_THAT_CANNOT_BE as error:
        raise _unreadable(path, f"has fields that cannot be ({str(error)[:200]})") from None


def _signatures(archive: Archive, seal: str) -> tuple[Signature, ...]:
    """The signatures in a file, if they are of what is in it."""
    if "signatures" not in archive.names:
        return ()
    text = _array(archive, "signatures", signature.MOST_BYTES).tobytes()
    found = signature.of_facts(from_json(text, signature.MOST_BYTES))
    if not all((one.of, one.digest) == ("sketch", seal) for one in found):
        raise ValueError("signatures of something else")
    return found


def _arrays(archive: Archive, layout: Layout) -> dict[str, NDArray[Any]]:
    """The tables, of the shapes that the layout says."""
    shapes = {
        "table": (layout.rows, layout.bins),
        "labels": (layout.n_classes,),
        "confusion": (layout.n_classes, layout.n_classes),
    }
    if "confusion" not in archive.names:
        del shapes["confusion"]
    elif layout.n_classes > MOST_CONFUSED:
        raise ValueError(f"a confusion matrix of {layout.n_classes} labels")
    out = {}
    for name, shape in shapes.items():
        member = archive.member(name)
        if member.shape != shape or member.dtype.kind != "i" or member.fortran:
            raise ValueError(f"{name} of shape {member.shape} and type {member.dtype}")
        out[name] = archive.read(member)
        for rows in checks.row_chunks(len(out[name]), max(1, out[name][0].size)):
            # Sums along a row must be exact in 64 bits.
            if (np.abs(out[name][rows].astype(np.float64)).sum(axis=-1) > MOST_IN_ROW).any():
                raise ValueError(f"{name} with counts beyond any")
    return out


def _array(archive: Archive, name: str, most: int) -> NDArray[np.uint8]:
    """Bytes that stand in the archive as an array."""
    member = archive.member(name)
    if member.dtype != np.uint8 or len(member.shape) != 1 or member.nbytes > most:
        raise BrokenArchive(name)
    return archive.read(member)


def _from(
    header: dict[str, Any],
    layout: Layout,
    arrays: dict[str, NDArray[Any]],
    signatures: tuple[Signature, ...],
) -> SketchResult:
    noise = {}
    for name in ("table_noise", "label_noise", "confusion_noise"):
        noise[name] = tuple(checks.real(v, name, 0, 1e30) for v in header[name])
    records = header["records"]
    if records is not None:
        checks.whole(records, "records", 1)
    sites = [checked_name(name, "site name") for name in header["sites"]]
    if not sites or len(set(sites)) < len(sites):
        raise ValueError("sites")
    cost = {k: checks.whole(v, k, 0) for k, v in header["cost"].items()}
    table = SketchTable(
        layout=layout,
        table=arrays["table"].astype(np.int64),
        labels=arrays["labels"].astype(np.int64),
        confusion=arrays["confusion"].astype(np.int64) if "confusion" in arrays else None,
        scale=checks.whole(header["scale"], "scale", 1, 1 << 40),
        records=records,
        sites=tuple(sites),
        **noise,
    )
    _plausible(table)
    most, spec = header["most_per_site"], header["score"]
    return SketchResult(
        table=table,
        privacy=_privacy(header["privacy"]),
        cost=Cost(**cost),
        score=None if spec is None else scores.from_spec(spec),
        temperature=checks.real(header["temperature"], "temperature", 0, np.inf, open_low=True),
        label_names=names(header["label_names"], layout.n_classes, "label_names"),
        most_per_site=None if most is None else checks.whole(most, "most_per_site", 1),
        signatures=signatures,
    )


def _plausible(table: SketchTable) -> None:
    """Without noise a table holds counts, and those of a row are the records of its labels."""
    if not table.exact:
        return
    layout = table.layout
    records = np.bincount(layout.row_of, table.labels, minlength=layout.rows)
    whole = (table.cells * table.scale).sum(axis=1)
    if (table.labels < 0).any() or (table.cells < 0).any() or (whole != records).any():
        raise ValueError("counts that cannot be, and no noise")


def _privacy(facts: dict[str, Any] | None) -> PrivacyStatement | None:
    """A statement that its own events bear out."""
    statement: PrivacyStatement | None = made_of(PrivacyStatement | None, facts)
    if statement is None:
        return None
    if statement.epsilon < accounting.epsilon(statement.events, statement.delta) * (1 - 1e-9):
        raise ValueError("less epsilon than its events spend")
    return statement


def _layout(facts: dict[str, Any]) -> Layout:
    n_classes = checks.whole(facts["n_classes"], "n_classes", 2, checks.MOST_CLASSES)
    groups = facts["groups"]
    if groups is not None:
        rows = np.array(groups)
        if rows.shape != (n_classes,) or rows.dtype.kind != "i" or rows.max() >= n_classes:
            raise ValueError("groups")
        if len(np.unique(rows)) != rows.max() + 1 or rows.min() != 0:
            raise ValueError("groups that are not numbered from 0")
    cuts = np.array(facts["cuts"])
    if cuts.ndim != 1 or cuts.dtype.kind != "i" or not 1 <= len(cuts) < MOST_BINS:
        raise ValueError("cuts")
    if cuts[0] < 0 or cuts[-1] >= TOP or (np.diff(cuts) <= 0).any():
        raise ValueError("cuts that are not in order")
    layout = Layout(
        n_classes=n_classes,
        cuts=tuple(cuts.tolist()),
        factored=checks.flag(facts["factored"], "factored"),
        groups=None if groups is None else tuple(groups),
    )
    if layout.rows * layout.bins > MOST_CELLS:
        raise ValueError("a table that is too large")
    return layout


def _compact(values: NDArray[np.int64]) -> NDArray[Any]:
    """The narrowest integers that hold the values."""
    low, high = int(values.min()), int(values.max())
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values


def _digest(text: bytes, arrays: dict[str, NDArray[Any]]) -> bytes:
    """Of the header and of what the numbers are, however wide they are stored."""
    out = hashlib.sha256(text)
    for name in sorted(arrays):
        flat = arrays[name].reshape(-1)
        for part in checks.row_chunks(len(flat), 1):  # never all of it at eight bytes a number
            out.update(flat[part].astype("<i8").tobytes())
    return out.digest()


def _unreadable(path: str | Path, why: str) -> FileError:
    return FileError(
        f"{path} {why}",
        allowed="a file written by SketchResult.save",
        fix="Copy it again, or collect again",
    )
