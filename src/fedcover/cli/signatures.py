"""`fedcover signatures`: who signed a calibration or a sketch, and a signature of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import fedcover as fc
from fedcover.cli.common import Trust, out
from fedcover.cli.files import load_sketch
from fedcover.errors import FedcoverError
from fedcover.signature import COORDINATOR


def signatures(
    file: Annotated[Path, typer.Argument(help="A calibration (.json) or a sketch (.npz).")],
    trusted: Trust = None,
    sign_with: Annotated[
        Path | None,
        typer.Option(help="A private key, an OpenSSH file: also sign the file, in its place."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="With --sign-with: your name in the rosters of those who read it."),
    ] = None,
) -> None:
    """Show who signed a file; with --trusted, refuse one that nobody trusted has signed.

    Example: fedcover signatures mercy.json --trusted roster
    """
    if (sign_with is None) != (name is None):
        raise FedcoverError(
            "only one of --sign-with and --name is given",
            allowed="both, or none",
            fix="Give your private key and the name under which others have its public key",
        )
    found: fc.Calibration | fc.SketchResult
    if file.suffix.lower() == ".json":
        found = fc.Calibration.load(file, trusted)
    else:
        found = load_sketch(file, trusted)
    if sign_with is not None and name is not None:
        from fedcover.identity import read_identity

        role = COORDINATOR if name == COORDINATOR else "site"
        found = found.signed(read_identity(sign_with), name, role)
        found.save(file)
    for one in found.signed_by or [None]:
        said = "unsigned" if one is None else f"signed by {one.describe()}"
        out.print(Text(f"{file}: {said}"), soft_wrap=True)
    if trusted is not None:
        out.print(Text(f"The signatures hold, by the keys in {trusted}."))
    elif found.signed_by:
        out.print("Whether to believe them takes their public keys: --trusted FILE.")
