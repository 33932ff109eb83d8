"""Apps that a site lets run: unpacked in a folder of its own, each under the SHA-256 of its bundle.

The bundle that a server sends is hashed, and never unpacked: what runs is the site's own copy.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path

from fedcover.errors import FileError


def bundle(app: Path) -> bytes:
    """The bundle of an app: of a folder, as `flwr run` makes it, or a .fab file as it is."""
    from click import ClickException
    from flwr.cli.build import build_fab_from_disk

    try:
        return app.read_bytes() if app.is_file() else build_fab_from_disk(app)
    except (ClickException, ValueError, OSError):
        raise FileError(
            f"{app} is not a Flower app",
            allowed="the folder of an app, or a .fab file from `flwr build`",
            fix="Give the app that the coordinator runs, after you have read it",
        ) from None


def digest_of(content: bytes) -> str:
    """The SHA-256 of a bundle, in hexadecimal digits; Flower's name of it is the same."""
    return hashlib.sha256(content).hexdigest()


def approve(app: Path, folder: Path) -> Path:
    """Unpacks an app where those are that may run; the folder of its files."""
    content = bundle(app)
    target = folder / digest_of(content)
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = Path(tempfile.mkdtemp(dir=folder, prefix="."))
    try:
        with zipfile.ZipFile(BytesIO(content)) as packed:
            packed.extractall(part)
        client_of(part)
        part.rename(target)  # complete, or not there
    except zipfile.BadZipFile:
        raise FileError(
            f"{app} is not a bundle", allowed="a .fab file from `flwr build`", fix="Build it again"
        ) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def approved(content: bytes, folder: Path) -> Path | None:
    """The site's own copy of a bundle that a server sends; None where it has none."""
    own = folder / digest_of(content)
    return own if own.is_dir() else None


def client_of(app: Path) -> str:
    """Where the client app is in an unpacked app, as 'module:name'."""
    try:
        table = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))
        return str(table["tool"]["flwr"]["app"]["components"]["clientapp"])
    except (OSError, ValueError, KeyError, TypeError):
        raise FileError(
            f"{app} holds no client app",
            allowed="a Flower app with a pyproject.toml",
            fix="Approve it again, from the app that the coordinator runs",
        ) from None
