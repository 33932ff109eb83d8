"""The command line, one file per command; `common` and `files` are what they share."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, NoReturn

import typer
from rich.panel import Panel
from rich.text import Text

import fedcover
from fedcover.cli.audit import audit
from fedcover.cli.bounds import bounds
from fedcover.cli.calibrate import calibrate
from fedcover.cli.collect import collect, merge
from fedcover.cli.common import err, out
from fedcover.cli.demo import demo
from fedcover.cli.evaluate import evaluate
from fedcover.cli.flower import flower_app
from fedcover.cli.ledger import ledger_app
from fedcover.cli.methods import methods
from fedcover.cli.personalise import personalise
from fedcover.cli.predict import predict
from fedcover.cli.privacy import privacy
from fedcover.cli.reproduce import reproduce
from fedcover.cli.signatures import signatures
from fedcover.errors import FedcoverError, FedcoverWarning, FileError

app = typer.Typer(
    help="Prediction sets that keep their promise at every site of a federation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    demo, calibrate, collect, merge, personalise, predict, evaluate, reproduce, bounds, privacy,
    audit, methods, signatures,
):  # fmt: skip
    app.command()(command)
app.add_typer(ledger_app, name="ledger")
app.add_typer(flower_app, name="flower")


def _version(asked: bool) -> None:
    if asked:
        out.print(f"fedcover {fedcover.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """What stands before the command."""


def main() -> None:
    """Run the command line; errors of ours become one clear message and exit status 2."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app()
        except FedcoverError as error:
            _stop(error)
        except OSError as error:
            why = error.strerror or type(error).__name__
            _stop(
                FileError(
                    f"{error.filename or 'a file'} cannot be used ({why})",
                    allowed="files and folders that can be read and written",
                    fix="Check the path, the rights and the space left",
                )
            )


def _stop(error: FedcoverError) -> NoReturn:
    text = Text.assemble(
        f"{error.given}.\n",
        ("Allowed: ", "bold"),
        f"{error.allowed}.\n",
        ("What to do: ", "bold"),
        f"{error.fix}.",
    )
    err.print(Panel(text, title="fedcover cannot do that", border_style="red"))
    raise SystemExit(2)


def _show_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
    if issubclass(category, FedcoverWarning):
        err.print(Text.assemble(("Warning: ", "yellow"), str(message)))
