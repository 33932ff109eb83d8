"""How every command is read and explained: words for types that people know, and exit codes."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click
from typer.core import TyperCommand
from typer.models import ParameterInfo

from fedcover.checks import COVERAGES, SAME_AS_ALPHA
from fedcover.cli.screen import for_help
from fedcover.errors import FedcoverError

BAD_INPUT, BAD_USAGE, FOUND, NO_BUDGET = 1, 2, 3, 4
"""Exit codes; 0 is success, and 130 an interruption. docs/commands.md has them for schedulers.

1: a file or a value cannot be used. 2: the command line itself is wrong: an unknown command, a
missing option. 3: a check ran and has found something. 4: a privacy budget does not allow it.
"""

TYPES = {"float": "NUMBER", "integer": "N", "text": "TEXT", "path": "FILE"}
"""What a value is, in help."""


class Command(TyperCommand):
    """A command whose help says what a file, a number and an argument is."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        helps = _helps(self.callback)
        self.help, self.short_help = for_help(self.help), for_help(self.short_help)
        for parameter in self.params:
            if isinstance(parameter, click.Argument):
                parameter.help = for_help(helps.get(parameter.name or ""))  # click 8.5 loses it
            elif isinstance(parameter, click.Option):
                parameter.help = for_help(parameter.help)
            if isinstance(parameter, click.Option) and parameter.metavar is None:
                kind = "FOLDER" if parameter.name == "out_dir" else TYPES.get(parameter.type.name)
                flag = parameter.is_flag or parameter.name == "help"
                parameter.metavar = "" if flag else kind

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-").replace("-", "_")
            if name not in (*COVERAGES, *SAME_AS_ALPHA):
                raise
            same = name in SAME_AS_ALPHA
            raise FedcoverError(
                f"there is no option {error.option_name}",
                allowed="--alpha, the error rate",
                fix="--alpha is the same" if same else "--alpha is 1 - that: 0.1 for 90 % coverage",
            ) from None


def _helps(callback: Any) -> dict[str, str | None]:
    """What each parameter says of itself, by name."""
    found: dict[str, str | None] = {}
    for name, hint in get_type_hints(inspect.unwrap(callback), include_extras=True).items():
        if get_origin(hint) is Annotated:
            infos = [i for i in get_args(hint)[1:] if isinstance(i, ParameterInfo)]
            found[name] = infos[0].help if infos else None
    return found
