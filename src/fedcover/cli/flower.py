"""`fedcover flower`: a deployment on Flower, written out and looked over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedcover.cli.common import out
from fedcover.cli.parser import FOUND, Command
from fedcover.errors import FedcoverError

flower_app = typer.Typer(
    help="Sites on real machines, over Flower: write out a deployment, and check it.",
    no_args_is_help=True,
)


@flower_app.command(cls=Command)
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    sites: Annotated[
        str, typer.Option(help="Names of the sites, with commas.")
    ] = "mercy,stjohn,lakeside",
) -> None:
    """Write a Flower app, a configuration for each site, and a script that makes test keys.

    Example: fedcover flower init my-federation --sites mercy,stjohn,lakeside
    """
    from fedcover.engines.flower.scaffold import write_folder

    written = write_folder(folder, [name.strip() for name in sites.split(",")])
    for path in written:
        out.print(Text(f"  {path}"))
    out.print(
        Text(
            f"Nothing here is secret yet. {folder}/README.md has the next commands; "
            "make-test-keys.sh makes certificates and keys for tests, and for nothing else."
        )
    )


@flower_app.command(cls=Command)
def doctor(
    app: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The Flower app: its settings are checked.")
    ] = None,
    run_config: Annotated[
        list[str] | None, typer.Option(help="As for `flwr run`: changed settings of the app.")
    ] = None,
    node_config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help='As for `flower-supernode`: a .toml file or key="value" pairs. Checks the site.',
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The server's certificate, .pem.")
    ] = None,
    certificate_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The private key of the certificate.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What the sites trust: --root-certificates.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the sites look for the server.")
    ] = None,
) -> None:
    """Check a set-up before anything is sent: versions, TLS, keys, data, budget, settings.

    Exit code 3 if something is to be put right.

    Example: fedcover flower doctor --app my-federation
    """
    from fedcover.engines.flower.doctor import examination

    if certificate is None and certificate_key is not None:
        raise FedcoverError(
            "--certificate-key without --certificate",
            allowed="both, to see whether they belong together",
            fix="Give the certificate too",
        )
    findings = examination.examine(
        app, run_config or [], node_config, certificate, certificate_key, ca, address
    )
    shown = Table(show_lines=False)
    shown.add_column("")
    shown.add_column("what", no_wrap=True)
    shown.add_column("found")
    for line in findings.lines:
        mark = Text("✓", "green") if line.good else Text("✗", "bold red")
        text = Text(line.says)
        if not line.good:
            text.append(f"\nWhat to do: {line.fix}", "yellow")
        shown.add_row(mark, Text(line.what), text)
    out.print(shown)
    wrong = sum(not line.good for line in findings.lines)
    if wrong:
        out.print(Text(f"{wrong} thing{'s' * (wrong > 1)} to put right before a run."))
        raise typer.Exit(FOUND)
    out.print("Nothing stands in the way.")
