"""The command line, one file per command; `common` and `files` are what they share."""

from __future__ import annotations

import errno
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
from fedcover.cli.common import err, note, out
from fedcover.cli.evaluate import evaluate, report
from fedcover.cli.flower import flower_app
from fedcover.cli.ledger import ledger_app
from fedcover.cli.methods import methods
from fedcover.cli.parser import BAD_INPUT, NO_BUDGET, Command
from fedcover.cli.personalise import personalise
from fedcover.cli.predict import predict
from fedcover.cli.privacy import privacy
from fedcover.cli.reproduce import demo, reproduce
from fedcover.cli.screen import prepare_streams
from fedcover.cli.signatures import signatures
from fedcover.cli.words import at_the_command_line
from fedcover.errors import BudgetError, FedcoverError, FedcoverWarning, FileError

app = typer.Typer(
    help="Prediction sets that keep their promise at every site of a federation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (
    demo, calibrate, collect, merge, personalise, predict, evaluate, report, reproduce, bounds,
    privacy, audit, methods, signatures,
):  # fmt: skip
    app.command(cls=Command)(command)
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
    """Run the command line; errors of ours become one clear message and an exit code."""
    prepare_streams()
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app()
        except FedcoverError as error:
            _stop(error)
        except OSError as error:
            if error.errno == errno.EPIPE:  # whoever read the output has enough
                raise SystemExit(0) from None
            why = error.strerror or type(error).__name__
            _stop(
                FileError(
                    f"{error.filename or 'a file'} cannot be used ({why})",
                    allowed="files and folders that can be read and written",
                    fix="Check the path, the rights and the space left",
                )
            )


def _stop(error: FedcoverError) -> NoReturn:
    given, allowed, fix = map(at_the_command_line, (error.given, error.allowed, error.fix))
    text = Text.assemble(
        f"{given}.\n",
        ("Allowed: ", "bold"),
        f"{allowed}.\n",
        ("What to do: ", "bold"),
        f"{fix}.",
    )
    err.print(Panel(text, title="fedcover cannot do that", border_style="red"))
    raise SystemExit(NO_BUDGET if isinstance(error, BudgetError) else BAD_INPUT)


def _show_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
    if issubclass(category, FedcoverWarning):
        note(str(message), "Warning", err)
