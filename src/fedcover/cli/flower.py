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
    ] = "mercy,stjohn,lakeside,harbour",
) -> None:
    """Write a Flower app, a proxy, a configuration for each site, and a script for test keys.

    Example: fedcover flower init my-federation --sites mercy,stjohn,lakeside,harbour
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


NodeConfig = Annotated[
    str,
    typer.Option(metavar="FILE", help="As for `flower-supernode`: the site's own rules."),
]


@flower_app.command(cls=Command)
def approve(
    app: Annotated[Path, typer.Argument(metavar="APP", help="The app's folder, or a .fab file.")],
    node_config: NodeConfig,
) -> None:
    """At a site: let an app run here. Read it first: it runs with the executor's rights.

    Example: fedcover flower approve app --node-config sites/mercy.toml
    """
    from fedcover.engines.flower.approval import approve as approve_app

    folder = approve_app(app, _approved(node_config))
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    out.print(Text(f"Approved: SHA-256 {folder.name}"))
    out.print(Text(f"{', '.join(files)} in {folder}. Remove that folder to take it back."))


@flower_app.command(cls=Command)
def executor(
    node_config: NodeConfig,
    port: Annotated[int, typer.Option(help="--port of the SuperNode.")] = 9094,
) -> None:
    """At a site: start approved apps alone, beside `flower-supernode --isolation process`.

    Example: fedcover flower executor --node-config sites/mercy.toml --port 9101
    """
    from fedcover.engines.flower.executor import serve

    serve(f"127.0.0.1:{port}", _approved(node_config))


def _approved(node_config: str) -> Path:
    from fedcover.engines.flower.doctor.site import read_config
    from fedcover.engines.flower.site_config import SiteConfig

    folder = SiteConfig.of(read_config(node_config)).approved
    if folder is None:
        raise FedcoverError(
            "the node's configuration names no folder of approved apps",
            allowed="approved: a folder",
            fix='Write approved = "approved" into --node-config',
        )
    return Path(folder)


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
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where sites look for the server: tried, with --ca, for open control.",
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where `flwr` finds the SuperLink, on the server: nobody else may reach it.",
        ),
    ] = None,
) -> None:
    """Check a set-up before anything is sent: who gets in, versions, TLS, keys, data, settings.

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
        app, run_config or [], node_config, certificate, certificate_key, ca, address, control
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
