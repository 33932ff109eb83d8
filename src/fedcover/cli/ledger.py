"""`fedcover ledger`: what a site has answered, what it spent, and its budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedcover._io.facts import digest
from fedcover._io.files import open_outputs
from fedcover._io.writing import replacing
from fedcover.cli.common import out
from fedcover.cli.parser import Command
from fedcover.errors import FedcoverError, FileError
from fedcover.privacy.ledger import Ledger
from fedcover.privacy.ledger_data import refuse_others
from fedcover.privacy.ledger_entries import Budget, Entry, LedgerState

EXPORT, EXPORT_VERSION = "fedcover/ledger-export", 1

LedgerPath = Annotated[Path, typer.Argument(help="The site's ledger.")]
Key = Annotated[
    Path | None, typer.Option(help="The site's private key, if the ledger is sealed with it.")
]

ledger_app = typer.Typer(
    help="A site's privacy budget: what was answered, what it cost, what is left.",
    no_args_is_help=True,
)


@ledger_app.command(cls=Command)
def show(path: LedgerPath, key: Key = None) -> None:
    """Every answer and every change, with ε so far.

    Example: fedcover ledger show mercy.ledger
    """
    state = Ledger(path, key=key).state()
    shown = Table(title=f"{path.name}: ε = {state.spent:.4f} of {state.budget.epsilon:g} spent")
    for heading in ("when", "query", "what was released", "ε so far", "remaining"):
        number = heading in ("ε so far", "remaining")
        shown.add_column(heading, justify="right" if number else "left", no_wrap=number)
    budget = state.budget
    for entry in state.entries:
        budget = entry.budget or budget
        left = max(0.0, budget.epsilon - entry.spent)
        cells = [entry.when, _name(entry), _released(entry), f"{entry.spent:.4f}", f"{left:.4f}"]
        shown.add_row(*(Text(cell) for cell in cells))
    out.print(shown)
    out.print(Text(state.describe()))
    out.print("ε composes and does not add: small answers fit in greater number than it seems.")


@ledger_app.command(cls=Command)
def set_budget(
    path: LedgerPath,
    epsilon: Annotated[float | None, typer.Option(help="ε of all answers together.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ at which ε is counted.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Make a new ledger.")] = False,
    unit: Annotated[
        str | None, typer.Option(help="With --create: record (the default) or site.")
    ] = None,
    relation: Annotated[
        str | None, typer.Option(help="With --create: replace (the default) or add-remove.")
    ] = None,
    key: Key = None,
    data: Annotated[
        Path | None, typer.Option(help="With --create: the site's file of records.")
    ] = None,
) -> None:
    """Raise or lower the budget, or make a new ledger with --create.

    Example: fedcover ledger set-budget mercy.ledger --epsilon 2 --delta 1e-5 --create
    """
    if create:
        if epsilon is None or delta is None:
            raise FedcoverError(
                "a new ledger without epsilon or delta",
                allowed="both of them",
                fix="Give --epsilon 2 --delta 1e-5, for example",
            )
        budget = Budget(epsilon, delta, unit or "record", relation or "replace")
        if data is not None:  # before there is a file that nothing can be done with
            budget.check_records(_records(data))
            refuse_others(data, None)
        ledger = Ledger(path, create=budget, key=key)
        state = ledger.state() if data is None else ledger.bind(data)
    elif (unit, relation, data) != (None,) * 3 or (epsilon is None and delta is None):
        raise FedcoverError(
            "--unit, --relation or --data, or nothing to change",
            allowed="--epsilon or --delta or both; unit and relation of a ledger never change",
            fix="Give the new budget, or --create to make a new ledger",
        )
    else:
        state = Ledger(path, key=key).set_budget(epsilon, delta)
    out.print(Text(state.describe()))


@ledger_app.command(cls=Command)
def rekey(
    path: LedgerPath,
    new_key: Annotated[Path, typer.Option(help="The private key that seals it from here on.")],
    key: Key = None,
) -> None:
    """Seal a ledger with a key, or with another one; what was spent stays.

    Example: fedcover ledger rekey mercy.ledger --new-key keys/mercy
    """
    out.print(Text(Ledger(path, key=key).rekey(new_key).describe()))


@ledger_app.command("data", cls=Command)
def record_data(
    path: LedgerPath,
    data: Annotated[Path, typer.Option(help="The site's file of records, as it is now.")],
    key: Key = None,
) -> None:
    """Record that the site's records were added to or corrected; what was spent stays.

    Example: fedcover ledger data mercy.ledger --data site-mercy.npz --key keys/mercy
    """
    ledger = Ledger(path, key=key)
    ledger.state().budget.check_records(_records(data))
    out.print(Text(ledger.bind(data, changed=True).describe()))


@ledger_app.command(cls=Command)
def trim(path: LedgerPath, key: Key = None) -> None:
    """Remove the replies of all answers so far, for room; what was spent stays.

    Example: fedcover ledger trim mercy.ledger --key keys/mercy
    """
    out.print(Text(Ledger(path, key=key).trim().describe()))


@ledger_app.command(cls=Command)
def export(
    path: LedgerPath,
    out_file: Annotated[Path, typer.Option("--out", help="The .json to write.")],
    key: Key = None,
) -> None:
    """A statement for the data-protection officer, with every entry and its hash; no replies.

    Example: fedcover ledger export mercy.ledger --out statement.json
    """
    state = Ledger(path, key=key).state()
    with replacing(out_file) as file:
        file.write(json.dumps(_report(state), indent=1, ensure_ascii=False))
    out.print(Text(state.describe()))
    out.print(Text(f"{len(state.entries)} entries written to {out_file}, the last is {state.head}"))


def _report(state: LedgerState) -> dict[str, Any]:
    return {
        "schema": EXPORT,
        "version": EXPORT_VERSION,
        "statement": state.describe(),
        "unit": state.budget.unit,
        "relation": state.budget.relation,
        "delta": state.budget.delta,
        "epsilon_budget": state.budget.epsilon,
        "epsilon_spent": state.spent,
        "answers": len(state.answers),
        "head": state.head,
        "how_to_check": "The hash of an entry is the SHA-256 of its JSON with sorted keys, no "
        "spaces and ASCII escapes; each entry names the hash of the one before. A later "
        "export must contain this head, or entries were taken back.",
        "entries": [{"hash": digest(e.text()), "entry": e.facts()} for e in state.entries],
    }


def _records(data: Path) -> int:
    """How many records a file has."""
    labels = open_outputs(data).arrays.get("labels")
    if labels is None:
        raise FileError(f"{data} has no labels", allowed="calibration records", fix="Add them")
    return len(labels)


def _name(entry: Entry) -> str:
    if entry.query_id is not None:
        return entry.query_id
    kinds = ("budget", "key", "data", "trimmed")
    return "(" + ", ".join(kind for kind in kinds if getattr(entry, kind) is not None) + ")"


def _released(entry: Entry) -> str:
    lines = []
    if entry.budget is not None:
        lines.append(f"budget set to ε = {entry.budget.epsilon:g} at δ = {entry.budget.delta:g}")
    if entry.key is not None:
        lines.append(f"keyed from here on with {entry.key}")
    if entry.data is not None:
        lines.append("records from here on: other ones than before, or the first")
    if entry.trimmed:
        lines.append("the replies before were removed")
    for event in entry.events:
        facts = vars(event)
        noise = f", noise {facts['sigma']:g}" if "sigma" in facts else ", without noise"
        times = f" ({facts['count']} times)" if facts.get("count", 1) > 1 else ""
        lines.append(f"{event.what}{times}{noise}")
    return "; ".join(lines) or "nothing that depends on the data"
